"""What is demanded of a campaign: each member once, nobody who must not be written to, at its pace, and nobody while it rests or when it is over. Pure.

Whom a campaign is for is promised when it begins. Whoever cancels it takes back what has not gone by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from scenarios.checks import ON_THE_WAY_S, Finding
from scenarios.history import History
from simulator.provider.ledger import Sent

#: Kinds of findings that only campaigns know.
KINDS = frozenset({"paused and sent", "cancelled and sent"})


class Member(Protocol):
    """Somebody in the audience, as far as we need him."""

    @property
    def ref(self) -> str: ...

    @property
    def recipients(self) -> tuple[str, ...]: ...

    @property
    def suppressed(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A time in which nobody new is written to."""

    since: datetime
    """When everybody could know."""
    until: datetime | None
    """None: for ever."""
    in_hand: frozenset[str] = frozenset()
    """Recipients whose mail no pause and no cancel reaches: it was in a worker's hands, or in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What was done to a campaign."""

    began_at: datetime
    gap_s: float
    """From one member's turn to the next one's."""
    rests: tuple[Rest, ...] = ()


def promised(members: Sequence[Member], history: History, course: Course) -> list[tuple[str, str]]:
    """Return what is owed in the end, as (ref, recipient): of a campaign that was cancelled, what was taken."""
    cancelled = any(rest.until is None for rest in course.rests)
    return [
        (each.ref, recipient)
        for each in members
        if not each.suppressed
        for recipient in each.recipients
        if not cancelled or history.copies_for(recipient)
    ]


def _may_be_taken(recipient: str, rest: Rest, history: History) -> bool:
    """Tell whether the sender could not know, when the rest began, what had become of it."""
    return any(
        each.sent != Sent.COMPLETE.value and each.opened_at <= rest.since
        for each in history.tries_for(recipient)
    )


def judged(members: Sequence[Member], history: History, course: Course) -> list[Finding]:
    """Return what is wrong besides what is asked of every mail."""
    return [
        *_suppressed(members, history),
        *_in_a_rest(members, history, course),
        *_too_fast(members, history, course),
    ]


def _suppressed(members: Sequence[Member], history: History) -> Iterator[Finding]:
    """Who must not be written to has no row, and is not tried."""
    kept = {each.recipient.lower() for each in history.said}
    for each in members:
        for recipient in each.recipients if each.suppressed else ():
            if history.tries_for(recipient):
                yield _wrong(each, "suppressed and sent", "tried although nobody must write to him")
            elif recipient.lower() in kept:
                yield _wrong(
                    each, "suppressed and sent", "put into the outbox although nobody must write to him"
                )


def _in_a_rest(members: Sequence[Member], history: History, course: Course) -> Iterator[Finding]:
    for rest in course.rests:
        kind = "cancelled and sent" if rest.until is None else "paused and sent"
        since = rest.since + timedelta(seconds=ON_THE_WAY_S)
        for each in members:
            tries = history.tries_for(each.recipients[0])
            late = [
                one
                for one in tries
                if since < one.opened_at and (rest.until is None or one.opened_at < rest.until)
            ]
            excused = each.recipients[0] in rest.in_hand or _may_be_taken(each.recipients[0], rest, history)
            if late and not excused:
                after_s = (late[0].opened_at - rest.since).total_seconds()
                yield replace(
                    _wrong(each, kind, f"tried {after_s:g} s after everybody could know"),
                    attempts=tuple(one.id for one in late),
                )


def _too_fast(members: Sequence[Member], history: History, course: Course) -> Iterator[Finding]:
    """So many members as had their turn by then may have been written to, and no more."""
    firsts = sorted(
        (min(one.opened_at for one in tries), each.ref, each)
        for each in members
        if (tries := history.tries_for(each.recipients[0]))
    )
    for number, (at, _, each) in enumerate(firsts):
        turn = course.began_at + timedelta(seconds=course.gap_s * number - ON_THE_WAY_S)
        if at < turn:
            yield _wrong(
                each,
                "too fast",
                f"the {number + 1}th that was tried, {(turn - at).total_seconds():g} s too early",
            )


def _wrong(member: Member, kind: str, sentence: str) -> Finding:
    return Finding(kind=kind, ref=member.ref, recipient=member.recipients[0], sentence=sentence)
