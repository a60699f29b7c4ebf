"""What an event about a mail does to its row: the same table for every state, and it never sends anything.

Every kind of event proves one thing: the provider took the mail. What became of it then is a fact of its own
(`events.kinds`) and changes no state: `accepted` stays `accepted`, whatever bounces.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from reference_sender.life import Docket, State
from reference_sender.policy.decision import Decision

#: An event that cannot be placed yet is looked at again after as long as it has waited already, between these seconds.
#: How long in all is an option (`patience_s`). Nobody needs the looks between them more often: a mail that settles in the
#: first minutes is found within twice its time, and what is late by hours is heard a quarter of an hour later.
SOONEST_S = 1.0
LATEST_S = 900.0


class Fate(StrEnum):
    """Where an event stands."""

    NEW = "new"
    WAITING = "waiting"  # to be looked at again: its mail is not there yet, or still moving
    APPLIED = "applied"
    IGNORED = "ignored"  # nothing that concerns a mail
    PARKED = "parked"  # a person should look: unreadable, contradictory, or of a mail that never came


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An event as it was kept."""

    id: int
    source: str  # webhook or mail
    event_id: str
    raw: bytes
    received_at: datetime
    looks: int  # how often somebody has dealt with it; every write about it is fenced by this


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What an event says became of a mail, as it is stored."""

    kind: str
    happened_at: datetime
    provider_id: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What an event comes to: for itself, for its mail, for the address. Written in one transaction."""

    fate: Fate
    reason: str
    look_again_at: datetime | None = None
    docket: Docket | None = None
    """The mail it is about, as it was seen."""
    move: Decision | None = None
    fact: Fact | None = None
    suppress: tuple[str, str] | None = None
    """Address and reason."""


class Course(StrEnum):
    """What becomes of an event about a mail of ours."""

    KEPT = "kept"  # the fact is noted; the event is done with
    LATER = "later"  # look again: the row is still moving
    CONTRADICTS = "contradicts"  # the fact is noted, and a person should see that row and event do not agree


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """What to do with an event that is about this row."""

    course: Course
    reason: str
    note_fact: bool = True
    move: Decision | None = None
    """Where the row goes, because the event is the evidence it waited for."""


def proved(docket: Docket, provider_id: str | None) -> Decision:
    """Where a row in doubt goes once the provider has told anything about its mail."""
    return Decision(
        state=State.ACCEPTED,
        reason="an event proves that it was accepted",
        provider_id=provider_id or docket.provider_id,
    )


def on_event(docket: Docket, provider_id: str | None) -> Hearing:
    """What an event says to a row in this state. `provider_id`: the provider's name for the mail, if it was told."""
    match docket.state:
        case State.ACCEPTED:
            return Hearing(course=Course.KEPT, reason="about an accepted mail")
        case State.UNKNOWN:
            return Hearing(
                course=Course.KEPT,
                reason="it was the evidence that was missing",
                move=proved(docket, provider_id),
            )
        case State.SENDING:
            # Its worker may still hear the answer, or lose it: then this is what the row will need.
            return Hearing(course=Course.LATER, reason="the mail is being sent")
        case State.PENDING if docket.doubted:
            return Hearing(
                course=Course.KEPT,
                reason="an attempt in doubt was accepted: no other one",
                move=proved(docket, provider_id),
            )
        case State.PENDING:
            # No attempt of ours can have been accepted. Another environment that shares our account, with the same
            # keys in its database: whoever believed this would not send a mail that nobody has sent.
            return Hearing(
                course=Course.LATER, reason="no attempt of ours can have been accepted", note_fact=False
            )
        case State.FAILED | State.EXPIRED | State.SUPPRESSED | State.DEAD:
            return Hearing(
                course=Course.CONTRADICTS,
                reason=f"the mail is {docket.state.value}, and an event says it was taken",
            )
        case _:
            assert_never(docket.state)


def look_again_at(received_at: datetime, now: datetime, *, patience_s: float) -> datetime | None:
    """When to look again at an event that nobody knows what to do with; None: it has been long enough."""
    waited_s = max(0.0, (now - received_at).total_seconds())
    if waited_s >= patience_s:
        return None
    return now + timedelta(seconds=min(max(waited_s, SOONEST_S), LATEST_S))
