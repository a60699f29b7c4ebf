"""Who comes back too early is found; who waits, and who could not have known, is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.provider import obedience as room
from simulator.provider.ledger import Advice, Attempt, ToldBy
from simulator.provider.obedience import Obedience, judge_obedience
from tests.simulator.provider.mails import ANN, BOB, after

HEADER = Advice(wait_s=10, at=after(0), by=ToldBy.HEADER)
LIMIT = replace(HEADER, limit="account", per="account")


def attempt(number: int, at_s: float, *advice: Advice, **facts: Any) -> Attempt:
    known = {"recipients": (BOB,), "key": "k", "sender": "shop@example.org"} | facts
    return Attempt(
        id=f"att_{number}",
        number=number,
        account="default",
        dialect="native",
        connection="c",
        peer="10.0.0.1:5",
        opened_at=after(at_s),
        advice=advice,
        **known,
    )


def early(*attempts: Attempt, once: tuple[str, ...] = ()) -> list[str]:
    return [each.attempt for each in judge_obedience(attempts, promised_once=once).too_early]


TOLD = attempt(1, -1, HEADER)


# --- the same mail ----------------------------------------------------------------------------------


def test_nobody_was_told_anything() -> None:
    found = judge_obedience([attempt(1, 0), attempt(2, 0)])

    assert found == Obedience()
    assert found.obeyed is None


@pytest.mark.parametrize(("at_s", "sins"), [(1, 1), (9.8, 1), (9.95, 0), (10, 0), (99, 0)])
def test_the_same_mail_before_its_time(at_s: float, sins: int) -> None:
    """A timer may go off a tenth of a second early."""
    found = judge_obedience([TOLD, attempt(2, at_s)])

    assert (found.too_early_count, found.obeyed) == (sins, not sins)


def test_the_evidence_is_complete() -> None:
    (finding,) = judge_obedience([TOLD, attempt(2, 2.5)]).too_early

    assert finding.as_json() == {
        "attempt": "att_2",
        "told_in": "att_1",
        "recipients": [BOB],
        "told_s": 10,
        "waited_s": 2.5,
        "by": "header",
        "limit": None,
    }


def test_what_was_on_its_way_before_it_was_told_is_no_sin() -> None:
    assert early(attempt(1, -5, HEADER), attempt(2, -1)) == []


@pytest.mark.parametrize(
    ("told", "came", "same"),
    [
        ({}, {}, True),
        ({}, {"key": "other"}, False),
        ({}, {"recipients": (ANN,)}, True),
        ({"key": None, "message_id": "<1>"}, {"key": None, "message_id": "<1>"}, True),
        ({"key": None, "message_id": "<1>"}, {"key": None, "message_id": "<1>", "recipients": (ANN,)}, False),
        ({"key": None, "message_id": "<1>"}, {"key": None, "message_id": "<2>"}, False),
        ({"key": None}, {"key": None, "message_id": "<2>"}, True),
        ({"key": None}, {"key": None, "recipients": ("BOB@example.org",)}, True),
        ({"key": None}, {"key": None, "recipients": (ANN,)}, False),
        ({"key": None, "recipients": ()}, {"key": None}, False),
    ],
    ids=str,
)
def test_which_mail_is_the_same(told: dict[str, Any], came: dict[str, Any], same: bool) -> None:
    """By its key, by Message-ID and recipient; by the recipient alone where nothing else was known."""
    assert early(attempt(1, -1, HEADER, **told), attempt(2, 1, **came)) == (["att_2"] if same else [])


def test_a_renewed_key_is_found_out_where_one_mail_was_promised() -> None:
    renewed = attempt(2, 1, key="new", message_id="<new>")

    assert early(TOLD, renewed) == []
    assert early(TOLD, renewed, once=(BOB,)) == ["att_2"]


def test_what_was_told_of_one_recipient_is_not_meant_for_the_others() -> None:
    told = attempt(1, -1, replace(HEADER, recipient=BOB), key=None, recipients=(BOB, ANN))

    assert early(told, attempt(2, 1, key=None, recipients=(ANN,))) == []
    assert early(told, attempt(2, 1, key=None, recipients=(BOB,))) == ["att_2"]


def test_who_is_told_again_waits_again() -> None:
    again = attempt(2, 11, replace(HEADER, at=after(12)))

    assert early(TOLD, again, attempt(3, 15), attempt(4, 23)) == ["att_3"]


def test_a_date_has_whole_seconds_only() -> None:
    dated = attempt(1, -1, replace(HEADER, by=ToldBy.DATE))

    assert early(dated, attempt(2, 8.95)) == []
    assert early(dated, attempt(2, 8.85)) == ["att_2"]


def test_words_of_a_reply_are_for_people() -> None:
    """It is shown, but a sender that does not read them has not disobeyed."""
    found = judge_obedience([attempt(1, -1, replace(HEADER, by=ToldBy.TEXT)), attempt(2, 1)])

    assert (found.too_early_count, found.obeyed) == (1, True)


# --- other mail into a limit ------------------------------------------------------------------------


def pressed(*attempts: Attempt) -> list[dict[str, Any]]:
    return [each.as_json() for each in judge_obedience(attempts).pressed]


def test_other_mail_into_a_limit_that_told_to_wait() -> None:
    """What came within a second may have been on its way."""
    others = [
        attempt(number, at_s, key=f"k{number}")
        for number, at_s in ((2, 0.5), (3, 2), (4, 9), (5, 10), (6, 50))
    ]

    assert pressed(attempt(1, -1, LIMIT), *others) == [
        {
            "limit": "account",
            "scope": "",
            "told_in": "att_1",
            "told_s": 10,
            "by": "header",
            "count": 2,
            "attempts": ["att_3", "att_4"],
        }
    ]


def test_a_rule_told_one_mail_and_not_the_others() -> None:
    assert pressed(TOLD, attempt(2, 5, key="other")) == []


def test_the_same_mail_is_one_sin_and_not_two() -> None:
    found = judge_obedience([attempt(1, -1, LIMIT), attempt(2, 5)])

    assert (found.too_early_count, found.pressed_count) == (1, 0)


@pytest.mark.parametrize(
    ("per", "scope", "same", "other"),
    [
        ("ip", "10.0.0.1", {}, {"sender": "x"}),
        ("sender", "shop@example.org", {"sender": "SHOP@example.org"}, {"sender": "b@example.org"}),
        ("recipient_domain", "example.org", {"recipients": (ANN,)}, {"recipients": ("a@b.c",)}),
    ],
)
def test_only_those_whom_the_limit_concerns(
    per: str, scope: str, same: dict[str, Any], other: dict[str, Any]
) -> None:
    told = attempt(1, -1, replace(HEADER, limit="l", per=per, scope=scope))

    assert len(pressed(told, attempt(2, 5, **{"key": "2"} | same))) == 1
    if per != "ip":
        assert pressed(told, attempt(2, 5, **{"key": "2"} | other)) == []


def test_many_refused_in_a_row_are_one_finding() -> None:
    """Each of them is told anew, and that is the same limit all the time."""
    attempts = [
        attempt(number, number, replace(LIMIT, at=after(number), wait_s=20 - number), key=f"k{number}")
        for number in range(15)
    ]

    (finding,) = pressed(*attempts)
    assert (finding["told_in"], finding["count"]) == ("att_0", 14)


def test_a_pause_that_grows_longer_is_one_pause() -> None:
    longer = replace(LIMIT, at=after(9), wait_s=10)

    (finding,) = pressed(attempt(1, -1, LIMIT), attempt(2, 9, longer, key="2"), attempt(3, 15, key="3"))
    assert finding["attempts"] == ["att_2", "att_3"]


# --- bounds -----------------------------------------------------------------------------------------


def test_findings_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SHOWN", 3)
    attempts = [TOLD, *(attempt(number, 1 + number / 100) for number in range(2, 12))]
    found = judge_obedience(attempts)

    assert (len(found.too_early), found.too_early_count) == (3, 10)


@given(
    st.lists(
        st.tuples(st.floats(0, 30), st.sampled_from(["a", "b", "c"]), st.floats(0.2, 15), st.booleans()),
        max_size=30,
    )
)
def test_a_sender_that_waits_is_never_blamed(story: list[tuple[float, str, float, bool]]) -> None:
    """Whoever comes back with the same mail when it may, and keeps out of the limit meanwhile, has obeyed."""
    now, free_at, attempts = 0.0, {"a": 0.0, "b": 0.0, "c": 0.0}, []
    for number, (pause, key, wait_s, by_limit) in enumerate(story):
        now = max(now + pause, free_at[key])
        advice = replace(LIMIT if by_limit else HEADER, at=after(now), wait_s=wait_s)
        attempts.append(attempt(number, now, advice, key=key, recipients=(f"{key}@x",)))
        concerned = free_at if by_limit else (key,)
        for each in concerned:
            free_at[each] = max(free_at[each], now + wait_s)
    found = judge_obedience(attempts, promised_once=("a@x", "b@x", "c@x"))

    assert (found.too_early, found.pressed) == ([], [])
