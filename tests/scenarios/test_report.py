"""Certificates and pages, made from results by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import scenarios
from scenarios import report
from scenarios.promises import BY_NAME, PROMISES
from scenarios.report import Result, Subject
from scenarios.simulation.cell import CAMPAIGNERS, VICTIMS

TEMPLATE = (Path(scenarios.__file__).parent / "report.html").read_text(encoding="utf-8")
NASTY = '<script>alert("&\'")</script>'

FOUND: dict[str, Any] = {
    "mails": [
        {"ref": "order-1", "recipient": NASTY, "owed": 1, "copies": 2, "attempts": 2, "state": "accepted"}
    ],
    "parked": [],
    "dropped": [],
    "findings": [
        {
            "kind": "duplicated",
            "ref": NASTY,
            "recipient": NASTY,
            "sentence": f"accepted 2 times {NASTY}\x00",
            "copies": 2,
            "ids": ["msg_1", NASTY],
            "message_ids": [NASTY],
            "keys": [NASTY],
            "attempts": ["att_1"],
        }
    ],
    "rules": [],
    "timeline": [
        {"t_s": 0.0, "actor": "app", "text": "committed"},
        {"t_s": 1.5, "actor": NASTY, "text": NASTY},
    ],
}


def result(name: str = "lost-answer.fin", status: str = "pass", profile: str = "http", **more: Any) -> Result:
    return Result(promise=BY_NAME[name], profile=profile, status=status, **more)


def certificate(*results: Result, complete: bool = False, **more: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "sender": Subject(
            name="my-sender",
            version="1",
            adapter="my.toml",
            abilities=("http-idempotency",),
            policy="at-most-once",
            profiles=("http", "smtp"),
        ),
        "seed": 7,
        "began_at": "2026-01-01T00:00:00+00:00",
        "ended_at": "2026-01-01T00:01:00+00:00",
        "replay": "simulator certify --seed 7",
        "replay_one": "simulator certify --seed 7",
    }
    return report.certificate(results=results, complete=complete, **facts | more)


FULL = [result(each.name, profile=wire) for each in PROMISES for wire in each.profiles]


@pytest.mark.parametrize(
    ("results", "complete", "expected"),
    [
        (FULL, True, "certified"),
        (FULL, False, "incomplete"),
        (FULL[1:], True, "incomplete"),
        ([*FULL[:-1], result(FULL[-1].promise.name, "skip", FULL[-1].profile)], True, "certified"),
        ([*FULL[:-1], result(FULL[-1].promise.name, "error", FULL[-1].profile)], True, "incomplete"),
        ([*FULL[:-1], result(FULL[-1].promise.name, "fail", FULL[-1].profile)], True, "not certified"),
        ([result(status="fail")], False, "not certified"),
        ([], True, "incomplete"),
        ([result(each.promise.name, "skip", each.profile) for each in FULL], True, "incomplete"),
    ],
)
def test_the_verdict_follows_from_the_results(results: list[Result], complete: bool, expected: str) -> None:
    """A certificate without the full matrix certifies nothing."""
    assert certificate(*results, complete=complete)["result"] == expected


def test_the_same_results_make_the_same_digest_in_any_order() -> None:
    """Parallel runs end in any order; the certificate does not show it."""
    one, two = result(), result("crash.after-claim", profile="smtp")

    assert certificate(one, two)["digest"] == certificate(two, one)["digest"]


@pytest.mark.parametrize("key", ["result", "seed", "promises", "sender", "not_run"])
def test_a_changed_certificate_can_be_told(key: str) -> None:
    """The digest covers everything else, also after a trip through a file."""
    issued = json.loads(report.canonical(certificate(result(status="fail", evidence=FOUND)), indent=2))
    assert report.is_untouched(issued)

    assert not report.is_untouched(issued | {key: "certified"})


def test_a_certificate_says_what_it_does_not_claim() -> None:
    """Exactly once over SMTP is refused by name; over HTTP with keys there is nothing to refuse."""
    made = certificate(result())

    assert made["schema"] == "mailproof/1"
    assert [each["claim"] for each in made["not_claimable"]] == ["exactly once over SMTP"]
    assert made["sender"]["profiles"] == {"http": "exactly-once (idempotency keys)", "smtp": "at-most-once"}
    assert "smtp.lost-answer.fin" in made["not_run"]


def test_every_entry_has_its_own_replay_command() -> None:
    """One promise can be seen again alone."""
    (entry,) = certificate(result())["promises"]

    assert entry["replay"] == "simulator certify --seed 7 --select http.lost-answer.fin"


def test_junit_counts_and_names() -> None:
    """Well-formed XML even for what XML cannot carry."""
    text = report.junit(
        certificate(
            result(status="fail", evidence=FOUND),
            result("lost-answer.rst", "skip", reason="the sender does not declare the ability 'x'"),
            result("crash.after-claim", "error", reason="the fault never struck"),
            result("refused.400"),
        )
    )
    root = ElementTree.fromstring(text)

    suites = {suite.attrib["name"]: suite.attrib for suite in root}
    assert suites["http: lost answer"]["failures"] == "1"
    assert suites["http: lost answer"]["skipped"] == "1"
    assert suites["http: crash"]["errors"] == "1"
    failure = root.find(".//failure")
    assert failure is not None
    assert NASTY in failure.attrib["message"]
    assert "\x00" not in text


def page(*results: Result, **more: Any) -> str:
    return report.page(certificate(*results, **more), TEMPLATE)


def test_the_page_escapes_everything() -> None:
    """Whatever a sender writes into a mail stays text."""
    sender = Subject(
        name=NASTY, version=NASTY, adapter=NASTY, abilities=(), policy=NASTY, profiles=("http", "smtp")
    )
    html = page(
        result(status="fail", evidence=FOUND),
        result("lost-answer.rst", "skip", reason=NASTY),
        result("crash.after-claim", "error", reason=NASTY),
        result("refused.400", evidence=FOUND | {"findings": [], "parked": [NASTY]}),
        sender=sender,
        replay=NASTY,
        replay_one=NASTY,
    )

    assert "<script" not in html
    assert "alert(" in html


def test_the_page_needs_no_network() -> None:
    """One file, nothing loaded from anywhere."""
    html = page(result(status="fail", evidence=FOUND))

    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)|@import|url\(""", html)


def test_the_page_shows_a_broken_promise_whole() -> None:
    """Requirement, expected, actual, the copies, the timeline, and how to see it again."""
    failed = result(status="fail", evidence=FOUND | {"findings": [FOUND["findings"][0] | {"ref": "order-1"}]})
    html = page(failed)

    for wanted in (
        "not certified",
        "is neither sent as a second mail",
        "Expected",
        "Actual",
        "2 copies",
        "msg_1",
        "<svg",
        "1.500 s",
        "--select http.lost-answer.fin",
    ):
        assert wanted in html


def test_the_page_knows_dark_and_light() -> None:
    """It follows the reader's system."""
    assert "prefers-color-scheme: dark" in page(result())


def test_every_link_of_the_scoreboard_has_its_place() -> None:
    """A click on a sign leads to its promise."""
    html = page(*FULL)

    links = set(re.findall(r'href="#([^"]+)"', html))
    assert links
    assert links <= set(re.findall(r'id="([^"]+)"', html))


def test_the_picture_stays_in_its_frame() -> None:
    """Also for an empty timeline, and for an actor it does not know."""
    moments: list[Mapping[str, Any]] = FOUND["timeline"]

    drawn = report.picture(moments)

    assert all(0 <= dot.x <= drawn["width"] and 0 <= dot.y <= drawn["height"] for dot in drawn["dots"])
    assert report.picture([])["dots"] == []


def test_the_bystander_is_not_counted_silently() -> None:
    """Who reads "2 promised" in a story about one mail must learn of the other."""
    mails = [FOUND["mails"][0] | {"recipient": who, "bystander": who == "b"} for who in ("a", "b")]

    (entry,) = certificate(result(evidence=FOUND | {"mails": mails}))["promises"]

    assert entry["expected"].startswith("2 promised (one of them the bystander, which no fault is meant for)")
    (entry,) = certificate(result(evidence=FOUND))["promises"]
    assert entry["expected"].startswith("1 promised, each")


def test_what_was_not_judged_is_said() -> None:
    """A pass of the half that can be seen does not pass for the whole."""
    (entry,) = certificate(result("refused.400", evidence=FOUND | {"findings": [], "not_judged": "half"}))[
        "promises"
    ]

    assert entry["actual"].endswith("; half")


def test_the_page_hints_at_what_the_sender_file_leaves_out() -> None:
    """Beside the verdict: it says how far that goes."""
    sender = Subject(
        name="s", version=None, adapter="s.toml", abilities=(), policy="at-most-once",
        profiles=("http", "smtp"), hints=("no [status]: less can be judged",),
    )  # fmt: skip

    assert "no [status]: less can be judged" in page(result(), sender=sender)


def test_only_mark_and_title_of_a_broken_promise_are_coloured() -> None:
    """A page in red from top to bottom cannot be read."""
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", page(result(status="fail", evidence=FOUND)))
    coloured = {
        each.strip()
        for selectors, body in rules
        if re.search(r"(?<!-)\bcolor: var\(--(fail|error)\)", body)
        for each in selectors.split(",")
    }

    assert coloured == {
        ".sign.fail", "span.fail", "article.fail h3 code", ".sign.error", "span.error", "article.error h3 code"
    }  # fmt: skip


def test_columns_of_the_matrix_stand_by_who_dies() -> None:
    """Whoever it is; sequences stand last."""
    counts = {"cells": 3, "failed": 0, "not_reached": 0, "played": 1}
    victims = {victim for of_profile in (*VICTIMS.values(), CAMPAIGNERS) for victim in of_profile}
    crashes = ["sequence of 2", "no crash", *(f"{victim}: commit" for victim in victims)]

    seen = report.heat_map({"rows": {"ok": dict.fromkeys(crashes, counts)}})

    assert set(seen["columns"]) == set(crashes)
    assert seen["columns"][0] == "no crash"
    assert seen["columns"][-1] == "sequence of 2"
