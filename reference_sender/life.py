"""The life of one outbox row: its states, the moves between them, and the facts a decision may look at.

The table `MOVES` is the whole truth; the store refuses every move that is not in it.
Must not hold: databases, protocols, clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class State(StrEnum):
    """Where a row stands."""

    PENDING = "pending"  # waits for its next attempt
    SENDING = "sending"  # one worker holds a lease on it; bytes may be leaving right now
    ACCEPTED = "accepted"  # the provider took responsibility
    UNKNOWN = "unknown"  # it may or may not have been accepted; parked until evidence or a person decides
    FAILED = "failed"  # refused for good, and no attempt is in doubt
    EXPIRED = "expired"  # came too late to be worth sending
    SUPPRESSED = "suppressed"  # the recipient must not be written to
    DEAD = "dead"  # tried too often or for too long; a person must look


FINAL = frozenset({State.ACCEPTED, State.FAILED, State.EXPIRED, State.SUPPRESSED, State.DEAD})


class Actor(StrEnum):
    """Who may make a move."""

    WORKER = "worker"
    RECONCILER = "reconciler"
    EVENTS = "events"  # what the provider tells afterwards: webhooks, bounces and complaints by mail
    PERSON = "person"


class Bar(StrEnum):
    """A reason not to send that lies in the data: found when a row is claimed, see `policy.bars`."""

    SUPPRESSED = "suppressed"  # the recipient is on the suppression list
    SUPERSEDED = "superseded"  # a newer mail took its place, like a newer login code
    CANCELLED = "cancelled"  # its campaign was
    PAUSED = "paused"  # its campaign is
    ORPHANED = "orphaned"  # what it depends on came to nothing
    OUT_OF_TURN = "out of turn"  # another one of its ordering key is before it
    OVERSLEPT = "overslept"  # it waited for another one for too long
    INCOMPLETE = "incomplete"  # an attachment is gone
    WORDLESS = "wordless"  # what it said was purged or erased
    UNFIT = "unfit"  # an address or its key has what no wire can carry
    SEALED = "sealed"  # its words cannot be read: the key is not here


# (from, to) -> {who: why}. A move that is not here does not exist.
MOVES: dict[tuple[State, State], dict[Actor, str]] = {
    (State.PENDING, State.SENDING): {Actor.WORKER: "claimed: committed before the first byte leaves"},
    (State.PENDING, State.EXPIRED): {Actor.PERSON: "its campaign was cancelled, and no attempt is in doubt"},
    (State.PENDING, State.UNKNOWN): {
        Actor.RECONCILER: "edited by hand, or in doubt at a provider that is not configured any more: nobody takes it",
        Actor.WORKER: "one that had lost it was told yes after all: another attempt would be one too many",
    },
    (State.PENDING, State.SUPPRESSED): {
        Actor.PERSON: "the recipient is being erased, and no attempt is in doubt"
    },
    (State.SENDING, State.SENDING): {
        Actor.WORKER: "claimed again: the lease ran out, and repeating the attempt is safe",
    },
    (State.SENDING, State.ACCEPTED): {Actor.WORKER: "the provider said yes"},
    (State.SENDING, State.PENDING): {Actor.WORKER: "to be tried again later"},
    (State.SENDING, State.FAILED): {Actor.WORKER: "refused for good, no earlier attempt in doubt"},
    (State.SENDING, State.UNKNOWN): {
        Actor.WORKER: "the outcome cannot be known",
        Actor.RECONCILER: "the lease ran out after the point of no return, or there is none: edited by hand",
    },
    (State.SENDING, State.EXPIRED): {Actor.WORKER: "its time was over before an attempt began"},
    (State.SENDING, State.SUPPRESSED): {Actor.WORKER: "the recipient must not be written to"},
    (State.SENDING, State.DEAD): {
        Actor.WORKER: "attempts or age spent, its words or an attachment are gone, or edited by hand"
    },
    (State.PENDING, State.ACCEPTED): {
        Actor.EVENTS: "an event proves that an attempt in doubt was accepted: another one would be one too many",
    },
    (State.UNKNOWN, State.ACCEPTED): {
        Actor.RECONCILER: "a look-up, a late answer or an event shows that it was accepted",
        Actor.EVENTS: "an event about it proves that it was accepted",
        Actor.PERSON: "a person found out that it was accepted",
    },
    (State.UNKNOWN, State.PENDING): {
        Actor.RECONCILER: "proved not sent, or the policy repeats it",
        Actor.PERSON: "a person checked and wants it sent",
    },
    (State.UNKNOWN, State.FAILED): {Actor.RECONCILER: "proved not sent, and the last answer was a refusal"},
    (State.UNKNOWN, State.EXPIRED): {Actor.RECONCILER: "proved not sent, and its time is over"},
    (State.UNKNOWN, State.SUPPRESSED): {
        Actor.RECONCILER: "proved not sent, and the recipient must not be written to"
    },
    (State.UNKNOWN, State.DEAD): {
        Actor.RECONCILER: "proved not sent, and attempts or age are spent, or another mail has its key"
    },
    (State.FAILED, State.PENDING): {Actor.PERSON: "the cause was mended"},
    (State.DEAD, State.PENDING): {Actor.PERSON: "the cause was mended"},
}


def may_move(actor: Actor, start: State, end: State) -> bool:
    """Whether this actor may make this move."""
    return actor in MOVES.get((start, end), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Docket:
    """The facts of one outbox row, without its bytes."""

    id: int
    token: int  # counts the claims of this row; every write of an attempt is fenced by it
    state: State
    key: str  # the event key as the caller gave it
    idempotency_key: str  # what the provider sees, for ever the same
    message_id: str
    sender: str  # envelope address
    recipient: str  # envelope address
    attempts: int  # attempts that count against the cap, the running one included
    tries: int  # claims since it was queued, refunded ones too; what the back-off grows with
    queued_at: datetime  # what the age cap counts from
    first_attempt_at: datetime | None
    lease_until: datetime | None
    expires_at: datetime | None
    doubted_at: datetime | None  # when the last attempt in doubt ended; None: every attempt has a known end
    if_not_sent: State | None  # unknown rows: where to go once it is proved that nothing was sent
    provider_id: str | None
    last_error: str | None
    last_code: int | None
    priority: int = 0  # higher goes first
    provider: str | None = None  # where the last attempt went
    mail_class: str = "confirmation"  # what kind of mail it is, see `policy.classes`
    ordering_key: str | None = None  # one under way per key
    traceparent: str | None = None  # of the trace in which it was enqueued
    losses: int | None = None  # so often it was lost with its worker since an attempt came to an end
    bar: Bar | None = None  # why it must not go, as the data said when it was claimed

    @property
    def doubted(self) -> bool:
        """Whether some earlier attempt may have been accepted without our knowing."""
        return self.doubted_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel(Docket):
    """A row in the hands of one worker: the facts and the frozen bytes."""

    raw: bytes
