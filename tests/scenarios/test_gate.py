"""What a history says of a gate: each question sees what is wrong, and nothing where all is right."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scenarios import checks, gate
from scenarios.history import History, Said, Try
from simulator.provider.acceptance import Acceptance
from simulator.provider.fate import Fate
from simulator.provider.obligations import Reported

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def tried(seconds: float, who: str = "a", *, code: int = 200, rules: tuple[str, ...] = ()) -> Try:
    return Try(
        id=f"att_{who}_{seconds}",
        opened_at=at(seconds),
        closed_at=at(seconds + 0.01),
        dialect="native",
        stage="body",
        recipients=(f"{who}@example.com",),
        answer=str(code),
        sent="complete",
        rules=rules,
    )


def taken(seconds: float, who: str = "a") -> Acceptance:
    return Acceptance(
        id=f"msg_{who}",
        number=1,
        account="default",
        attempt="att",
        dialect="native",
        accepted_at=at(seconds),
        sender="",
        recipients=(f"{who}@example.com",),
        message_id=None,
        key=None,
        fingerprint="",
        subject="",
        size_bytes=1,
        sha256="",
        obligation=None,
        fate=Fate.DELIVERED,
    )


def kinds(*findings: object) -> list[str]:
    return [each.kind for found in findings for each in found]  # type: ignore[attr-defined]


def test_every_kind_of_finding_is_in_a_table() -> None:
    used = set(re.findall(r'kind="([^"]+)"', inspect.getsource(gate)))
    assert used >= set(gate.KINDS)
    assert used <= set(gate.KINDS) | set(checks.KINDS)


# --- rate -----------------------------------------------------------------------------------------


def paced(rate_per_s: float, count: int = 85, burst: int = 5) -> History:
    """As a bucket lets them go."""
    moments = [0.0] * burst + [(n + 1) / rate_per_s for n in range(count - burst)]
    return History(attempts=tuple(tried(moment, f"u{n}") for n, moment in enumerate(moments)))


def test_a_bucket_is_no_faster_than_itself() -> None:
    assert gate.too_fast(paced(20), rate_per_s=20, burst=5) == []


def test_two_buckets_are_twice_as_fast() -> None:
    (found,) = gate.too_fast(paced(40, burst=10), rate_per_s=20, burst=5)
    assert found.kind == "too fast"
    assert found.sentence.startswith("85 attempts within 1.88 s")


def test_a_stall_that_lets_a_few_go_together_is_no_sin() -> None:
    stalled = [tried(3.0 if 2.2 < n / 20 < 3.0 else n / 20, f"u{n}") for n in range(80)]
    assert gate.too_fast(History(attempts=tuple(stalled)), rate_per_s=20, burst=5) == []


def test_who_only_came_to_look_is_not_counted() -> None:
    looks = tuple(Try(id=f"att_{n}", opened_at=at(0), stage="connect") for n in range(99))
    assert gate.too_fast(History(attempts=looks), rate_per_s=1, burst=1) == []


# --- pauses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ((4.2, 5.0), []),  # after it
        ((0.5, 0.9), []),  # was on its way
        ((0.5, 2.0), ["pressed"]),
        ((3.95,), []),  # clocks are not that good
    ],
)
def test_whoever_comes_before_the_pause_is_over_presses(
    others: tuple[float, ...], expected: list[str]
) -> None:
    attempts = (tried(0, "first", code=429), *(tried(moment, f"u{moment}") for moment in others))
    assert kinds(gate.came_all_the_same(History(attempts=attempts), wait_s=4)) == expected


# --- breaker --------------------------------------------------------------------------------------


def test_more_than_a_few_at_a_provider_that_is_down_is_a_flood() -> None:
    down = tuple(tried(n / 10, f"u{n}", code=503, rules=("outage",)) for n in range(20))
    after = tuple(tried(9 + n / 100, f"v{n}") for n in range(60))
    history = History(attempts=down + after)
    assert gate.stormed(history, "outage", most=20) == []
    (found,) = gate.stormed(history, "outage", most=19)
    assert (found.kind, found.recipient) == ("flooded", "u19@example.com")
    assert found.sentence == "20 attempts within 1.9 s at a provider that was down, 19 at most are right"


# --- what goes first --------------------------------------------------------------------------------


def test_urgent_mail_is_late_by_its_own_commit() -> None:
    history = History(acceptances=(taken(10.5, "code"),))
    code = "code@example.com"
    assert gate.late(history, code, since=at(9.5), within_s=1.0, behind="held", for_s=12.0) == []
    (found,) = gate.late(history, code, since=at(9.4), within_s=1.0, behind="held", for_s=12.0)
    assert found.sentence.startswith("taken 1.10 s after its commit, behind other mail; 1 s are right")
    (never,) = gate.late(History(), code, since=at(0), within_s=1.0, behind="held", for_s=12.0)
    assert never.sentence.startswith("never taken")


@pytest.mark.parametrize(
    ("opened_s", "closed_s", "late"),
    [
        ((8.1, 8.5), (20.1, 20.2), False),  # it had a place of its own, on a slow machine
        ((8.1, 8.5), (20.1, None), False),
        ((7.9, 8.5), (20.1, None), True),  # the first was given up by then, whatever the provider saw
        ((8.1, 8.5), (12.0, 20.2), True),  # it took the place that came free
        ((9.6, 9.7), (20.1, 20.2), True),  # these came after it
        ((), (), True),
    ],
)
def test_urgent_mail_that_is_taken_before_a_place_comes_free_is_not_late_however_long_it_took(
    opened_s: tuple[float, ...], closed_s: tuple[float | None, ...], late: bool
) -> None:
    attempts = tuple(
        replace(tried(opened), closed_at=None if closed is None else at(closed), rules=("held",))
        for opened, closed in zip(opened_s, closed_s, strict=True)
    )
    history = History(acceptances=(taken(20.0, "code"),), attempts=attempts)
    found = gate.late(history, "code@example.com", since=at(9.5), within_s=1.0, behind="held", for_s=12.0)
    assert bool(found) is late


# --- what goes no more ------------------------------------------------------------------------------


def test_what_is_sent_or_tried_after_its_end_is_overdue() -> None:
    ends = at(10)
    fine = History(acceptances=(taken(10),), attempts=(tried(9), tried(10.9)))
    assert gate.overdue(fine, "a@example.com", ends_at=ends) == []
    (sent,) = gate.overdue(History(acceptances=(taken(10.2),)), "a@example.com", ends_at=ends)
    assert (sent.kind, sent.sentence) == ("overdue", "accepted 0.20 s after its time was over")
    (again,) = gate.overdue(History(attempts=(tried(12),)), "a@example.com", ends_at=ends)
    assert again.sentence == "tried 2.00 s after its time was over"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (Reported.EXPIRED, []),
        (Reported.FAILED, []),
        (Reported.PENDING, ["misreported"]),
        (Reported.ACCEPTED, ["misreported"]),
        (None, ["misreported"]),
    ],
)
def test_what_is_over_is_reported_as_ended(state: Reported | None, expected: list[str]) -> None:
    said = () if state is None else (Said(key="a", recipient="a@example.com", state=state),)
    assert kinds(gate.not_ended(History(said=said, knows_states=True), "a@example.com")) == expected


def test_what_was_taken_in_time_has_nothing_to_report() -> None:
    assert gate.not_ended(History(acceptances=(taken(1),)), "a@example.com") == []
