"""What the page says."""

from __future__ import annotations

from typing import Any

import pytest

from simulator import shapes
from simulator.servers.pages import view
from tests.simulator.testing.test_words import ATTEMPT, MAIL


def verdict(**changes: Any) -> Any:
    """A verdict with nothing in it but this."""
    empty: dict[str, Any] = {name: [] for name in shapes.Verdict.__annotations__}
    return empty | {"valid": None, "obligations": 0, "accepted_once": 0} | changes


FINDING = {"ref": "r", "recipient": "ada@example.com", "expected": 1, "copies": 2, "ids": ["msg_1"]}


def ended(at: str | None) -> Any:
    """An attempt that ended then."""
    return {**ATTEMPT, "closed_at": at}


BANNERS = {
    "nothing yet": (verdict(), 0, "calm", "Nothing accepted yet"),
    "no promises": (verdict(), 1234, "calm", "1,234 mails accepted, none of them twice"),
    "a duplicate without promises": (verdict(valid=False, duplicated=[FINDING]), 2, "bad", "1 duplicate"),
    "several things": (
        verdict(valid=False, obligations=3, lost=[FINDING, FINDING], open=[FINDING]),
        1,
        "bad",
        "2 losses · 1 promise still open",
    ),
    "still open": (verdict(obligations=1, open=[FINDING]), 0, "waiting", "1 promise still open"),
    "all kept": (
        verdict(valid=True, obligations=2, accepted_once=2),
        2,
        "good",
        "Every promise was kept",
    ),
}


@pytest.mark.parametrize("name", BANNERS)
def test_the_verdict_at_a_glance(name: str) -> None:
    """What is wrong comes first, by name."""
    given, mails, tone, title = BANNERS[name]

    said = view.banner(given, mails)

    assert (said.tone, said.title) == (tone, title)
    assert said.detail


def test_every_list_of_a_verdict_has_a_name() -> None:
    """A finding that the page would not show might as well not be found."""
    lists = {name for name, kind in shapes.Verdict.__annotations__.items() if "list[Finding]" in str(kind)}

    assert set(view.FINDINGS) == lists
    assert [name for name, _, _ in view.findings(verdict(open=[FINDING], lost=[FINDING]))] == ["lost", "open"]


TONES: dict[str, tuple[dict[str, Any], str]] = {
    "told": ({"answer": "250 2.0.0 OK", "sent": "complete"}, "good"),
    "lost": ({"answer": "hang up", "sent": "nothing"}, "lost"),
    "half": ({"answer": "200", "sent": "partial"}, "lost"),
    "a lie": ({"answer": "500", "sent": "complete"}, "lost"),
    "refused": ({"accepted": [], "answer": "550", "sent": "complete"}, "bad"),
    "held": ({"state": "held"}, "held"),
    "open": ({"state": "open", "accepted": []}, "open"),
}


@pytest.mark.parametrize("name", TONES)
def test_how_an_attempt_went(name: str) -> None:
    """Taken and not told is not the same as taken."""
    changes, tone = TONES[name]

    attempt: Any = ATTEMPT | changes

    assert view.tone_of(attempt) == tone
    assert tone in view.TONES


def test_rules_are_edited_in_one_line_where_that_says_it_all() -> None:
    """Else as a table; either is what the plan language reads."""
    line = {"name": "503 first 2", "fault": "reply", "code": 503, "dialect": "http", "first": 2}
    table = {
        "name": "no beans",
        "fault": "reply",
        "code": 503,
        "body": "<beans>",
        "seen": 3,
        "fired": 1,
        "over": True,
    }
    plan: dict[str, Any] = {
        "seed": 3,
        "greylist": None,
        "limits": {},
        "rules": [line | {"seen": 2, "fired": 2, "over": True}, table],
    }

    assert view.lines(plan) == (
        '503 first 2\n{"name": "no beans", "fault": "reply", "code": 503, "body": "<beans>"}'
    )
    assert view.settings(plan) == {"seed": 3, "limits": {}}
    first, second = view.rules(plan)
    assert (first.name, first.fired, first.seen, first.over) == ("503 first 2", 2, 2, True)
    assert first.sentence.startswith("at HTTP")
    assert second.name == "no beans"


def test_a_line_that_means_something_else_is_not_shown_as_that_line() -> None:
    """Somebody may call a rule by the words of another one."""
    liar = {"name": "503 first 2", "fault": "reset", "seen": 0, "fired": 0, "over": False}

    assert view.lines({"rules": [liar]}) == '{"name": "503 first 2", "fault": "reset"}'


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (view.lead(0), "real time"),
        (view.lead(0.4), "<1 s ahead"),
        (view.lead(90_061), "1 d 1 h ahead"),
        (view.size(10), "10 B"),
        (view.size(2048), "2.0 KiB"),
        (view.size(3 * 1024 * 1024), "3.0 MiB"),
        (view.counted(1, "mail"), "1 mail"),
        (view.counted(12_345, "mail"), "12,345 mails"),
        (view.took(ended(None)), "…"),
        (view.took(ended("2026-01-02T03:04:05.700901+00:00")), "22 ms"),
        (view.took(ended("2026-01-02T03:04:17.678901+00:00")), "12.0 s"),
    ],
)
def test_small_things(said: str, expected: str) -> None:
    """As people read them."""
    assert said == expected


def test_copies_are_of_one_message_to_one_recipient() -> None:
    """Case of an address does not matter; a mail without Message-ID is nobody's copy."""
    mails: list[Any] = [
        {**MAIL, "id": "a", "recipients": ["ada@example.com"]},
        {**MAIL, "id": "b", "recipients": ["ADA@example.com", "bob@example.com"]},
        {**MAIL, "id": "c", "recipients": ["bob@example.org"]},
        {**MAIL, "id": "d", "message_id": None},
        {**MAIL, "id": "e", "message_id": None},
    ]

    assert view.copies_note(mails) == {"a": 2, "b": 2}
