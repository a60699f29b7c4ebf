"""Tests of what must hold of promised mails: made-up histories, each with what is wrong in it, and a good one beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import pytest

from scenarios.history import Said, Try
from scenarios.simulation.promised import Blur, Promised, judged
from scenarios.simulation.senders import Owed
from simulator.provider.acceptance import Acceptance
from simulator.provider.obligations import Reported
from tests.scenarios.made import at, copy, history, tried

BLUR = Blur(now=at(1_000), skew_s=5.0, held_up_s=0.0, is_calm=True, is_heard=False)
LANE, CODE, BEHIND = (("ordering_key", "k"),), (("slot", "s"),), (("depends_on", "order-1"),)


def who(number: int) -> str:
    return f"user{number}@example.com"


def mail(number: int, at_s: float = 0.0, **says: Any) -> Promised:
    return Promised(owed=Owed(ref=f"order-{number}", recipients=(who(number),), **says), at=at(at_s))


def attempt(place: int, number: int, begins_s: float, *, took: bool = False) -> Try:
    """The attempt of this place in the order of all, at mail `number`."""
    return tried(place, recipients=(who(number),), begins_s=begins_s, took=took)


def taken(place: int, number: int, at_s: float) -> Acceptance:
    """What was accepted by the attempt of this place."""
    return dataclasses.replace(copy(place, who(number)), accepted_at=at(at_s))


def found(
    mails: tuple[Promised, ...],
    attempts: tuple[Try, ...] = (),
    acceptances: tuple[Acceptance, ...] = (),
    states: dict[int, Reported] | None = None,
    *,
    by_hand: Collection[str] = (),
    **blur: Any,
) -> list[tuple[str, str | None]]:
    """What is found: kinds, and of which mail."""
    said = tuple(
        Said(key=f"order-{number}", recipient=who(number), state=state)
        for number, state in (states or {}).items()
    )
    made = dataclasses.replace(history((), acceptances, attempts), said=said)
    return [(each.kind, each.ref) for each in judged(mails, made, by_hand, dataclasses.replace(BLUR, **blur))]


def test_of_an_ordering_key_the_earlier_is_accepted_first() -> None:
    two = (mail(1, manner=LANE), mail(2, manner=LANE))
    right = (taken(1, 1, 5), taken(2, 2, 5))

    assert found(two, acceptances=right) == []
    assert found(two, acceptances=right[1:]) == []
    assert found(two, acceptances=right[::-1]) == [("out of order", "order-2")]
    assert found((mail(1), mail(2)), acceptances=right[::-1]) == []
    assert found(two, acceptances=right[::-1], by_hand={"order-1"}) == []


def test_who_depends_is_tried_behind_the_acceptance() -> None:
    """Of attempts at one moment their order counts."""
    two = (mail(1), mail(2, manner=BEHIND))
    first, second = attempt(1, 1, 5, took=True), attempt(2, 2, 5, took=True)

    assert found(two, (first, second), (taken(1, 1, 5), taken(2, 2, 5))) == []
    assert found(two, (second, first), (taken(2, 2, 5), taken(1, 1, 5))) == [("too soon", "order-2")]
    assert found(two, (second,), (taken(2, 2, 5),)) == [("too soon", "order-2")]
    assert found(two, (second,), (taken(2, 2, 5),), by_hand={"order-1"}) == []


@pytest.mark.parametrize(
    ("mails", "kind", "since_s"),
    [
        ((mail(1, expires_s=12.0),), "overdue", 17),  # clocks are wrong by five seconds
        ((mail(1, manner=CODE), mail(2, 20, manner=CODE)), "superseded and sent", 20),
        ((mail(1, 20, suppressed=True),), "suppressed and sent", 20),
    ],
)
def test_what_must_not_go_any_more_is_not_begun(
    mails: tuple[Promised, ...], kind: str, since_s: float
) -> None:
    """A second later everybody could know it, unless he was stopped or cut off."""
    assert found(mails, (attempt(1, 1, since_s + 1.0),)) == []
    assert found(mails, (attempt(1, 1, since_s + 1.5),)) == [(kind, "order-1")]
    assert found(mails, (attempt(1, 1, since_s + 1.5),), held_up_s=55.0) == []
    assert found(mails, (attempt(1, 1, since_s + 1.5),), by_hand={"order-1"}) == []


def test_a_mail_is_expired_with_a_reason_only() -> None:
    """Its time, a newer code, or that what it waits for does not come."""
    over = {1: Reported.EXPIRED}
    wrong = [("given up", "order-1")]

    assert found((mail(1),), states=over) == wrong
    assert found((mail(1, expires_s=1_005.0),), states=over) == []
    assert found((mail(1, expires_s=1_006.0),), states=over) == wrong
    assert found((mail(1, manner=CODE), mail(2, manner=CODE)), states=over) == []
    assert found((mail(2, manner=CODE), mail(1, manner=CODE)), states=over) == wrong
    assert found((mail(1, manner=CODE), mail(2, manner=(("slot", "t"),))), states=over) == wrong


def test_who_depends_expires_if_what_he_waits_for_has_ended() -> None:
    two = (mail(1), mail(2, manner=BEHIND))
    failed = {1: Reported.FAILED, 2: Reported.EXPIRED}
    waiting = {1: Reported.UNKNOWN, 2: Reported.EXPIRED}

    assert found(two, states=failed) == []
    assert found(two, states=waiting) == [("given up", "order-2")]
    assert found(two, states=waiting, by_hand={"order-1"}) == []


def test_nobody_suppresses_or_cancels_by_himself() -> None:
    wrong = [("given up", "order-1")]
    assert found((mail(1),), states={1: Reported.SUPPRESSED}) == wrong
    assert found((mail(1, suppressed=True),), states={1: Reported.SUPPRESSED}) == []
    assert found((mail(1),), states={1: Reported.SUPPRESSED}, is_heard=True) == []
    assert found((mail(1),), states={1: Reported.CANCELLED}) == wrong


def test_what_is_urgent_is_begun_first() -> None:
    """Once it is there, and where nothing but mail stands before it."""
    two = (mail(1), mail(2, 10, priority=100))
    late = [("late", "order-2")]

    assert found(two, (attempt(1, 1, 20), attempt(2, 2, 25))) == late
    assert found(two, (attempt(1, 1, 20),)) == late
    assert found(two, (attempt(1, 1, 25), attempt(2, 2, 20))) == []
    assert found(two, (attempt(1, 1, 15), attempt(2, 2, 25))) == []
    assert found(two, (attempt(1, 1, 20), attempt(2, 2, 25)), is_calm=False) == []
    nameless = tried(3, recipients=(), begins_s=12.0)
    assert found(two, (nameless, attempt(1, 1, 20), attempt(2, 2, 25))) == []
    assert found((mail(1, priority=100), mail(2, 10, priority=100)), (attempt(1, 1, 20),)) == []
