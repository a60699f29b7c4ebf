"""A mail's history as a timeline: one moment after the other, in words.

Pure: a `History` in, `Moment`s out. Must not hold: colours, clocks, databases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from reference_sender.life import State
from reference_sender.outbox.histories import History, Tried


class Kind(StrEnum):
    """What sort of moment it is."""

    ENQUEUED = "enqueued"
    ATTEMPT = "attempt"  # a worker tried, and this is how it ended
    LATE = "late"  # so did one that had lost the mail meanwhile; it changed nothing
    LOST = "lost"  # a worker was lost with the mail in its hands
    RECONCILED = "reconciled"
    PERSON = "person"  # somebody moved it by hand
    EVENT = "event"  # the provider told something afterwards
    READ = "read"  # an operator looked at it, or did something to it
    ERASED = "erased"
    AHEAD = "ahead"  # has not happened yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One entry."""

    at: datetime
    kind: Kind
    what: str
    because: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """For programs; without those that are not known."""


def timeline(history: History, *, now: datetime) -> list[Moment]:
    """All that happened, in order, and what is to come."""
    moments = [_enqueued(history)]
    number = 0
    for tried in history.tried:
        if tried.phase is not None and not tried.late:
            number += 1
        moments.append(_tried(tried, number))
    moments += [
        Moment(
            at=told.happened_at,
            kind=Kind.EVENT,
            what=told.kind,
            because=told.detail,
            facts={"event": told.kind},
        )
        for told in history.told
    ]
    moments += [
        Moment(
            at=access.at,
            kind=Kind.READ,
            what=f"{access.operator}: {access.action}",
            because=access.detail,
            facts={"operator": access.operator, "action": access.action},
        )
        for access in history.accesses
    ]
    if history.erased_at is not None:
        moments.append(
            Moment(
                at=history.erased_at,
                kind=Kind.ERASED,
                what="address and words were erased",
                facts=_known(content_hash=history.content_hash),
            )
        )
    # Sorted by time alone: what has the same moment stays in the order in which it was written down.
    moments.sort(key=lambda moment: moment.at)
    return moments + _ahead(history, now)


def _enqueued(history: History) -> Moment:
    parts = [f"class {history.mail_class}"]
    if history.priority:
        parts.append(f"priority {history.priority}")
    if history.template:
        parts.append(f"template {history.template}")
    return Moment(
        at=history.created_at,
        kind=Kind.ENQUEUED,
        what="enqueued",
        because=", ".join(parts),
        facts=_known(
            mail_class=history.mail_class,
            priority=history.priority,
            template=history.template,
            traceparent=history.traceparent,
        ),
    )


def _tried(tried: Tried, number: int) -> Moment:
    seconds = None if tried.started_at is None else (tried.ended_at - tried.started_at).total_seconds()
    facts = _known(
        token=tried.token,
        started_at=None if tried.started_at is None else tried.started_at.isoformat(),
        seconds=seconds,
        provider=tried.provider,
        phase=tried.phase,
        code=tried.code,
        enhanced=tried.enhanced,
        trouble=tried.trouble,
        answer=tried.answer,
        provider_id=tried.provider_id,
        decision=tried.decision,
        reason=tried.reason,
    )
    actor, _, reason = tried.reason.partition(": ")
    match actor:
        case "person":
            return Moment(
                at=tried.ended_at,
                kind=Kind.PERSON,
                what=f"a person → {tried.decision}",
                because=reason,
                facts=facts,
            )
        case "reconciler":
            return Moment(
                at=tried.ended_at,
                kind=Kind.RECONCILED,
                what=f"reconciler → {tried.decision}",
                because=reason,
                facts=facts,
            )
        case _ if tried.phase is not None:
            name = "a late result" if tried.late else f"attempt {number}"
            ended = "kept as evidence" if tried.late else f"→ {tried.decision}"
            return Moment(
                at=tried.ended_at,
                kind=Kind.LATE if tried.late else Kind.ATTEMPT,
                what=f"{name}: {_seen(tried)} {ended}",
                because=None if tried.reason == tried.decision else tried.reason,
                facts=facts,
            )
        case _ if tried.started_at is None:
            return Moment(
                at=tried.ended_at,
                kind=Kind.LOST,
                what=f"worker lost → {'claimed again' if tried.decision == State.SENDING else tried.decision}",
                because=tried.reason,
                facts=facts,
            )
        case _:
            return Moment(
                at=tried.ended_at,
                kind=Kind.ATTEMPT,
                what=f"not tried → {tried.decision}",
                because=tried.reason,
                facts=facts,
            )


def _seen(tried: Tried) -> str:
    """What an attempt saw: how far it came, and the answer."""
    if tried.code is not None:
        return " ".join(filter(None, (str(tried.code), tried.enhanced)))
    return f"no answer, came as far as {tried.phase}" + (f" ({tried.trouble})" if tried.trouble else "")


def _ahead(history: History, now: datetime) -> list[Moment]:
    """What is still to come, by what the row says."""
    ahead: list[tuple[datetime | None, str]] = []
    match history.state:
        case State.PENDING:
            ahead = [
                (history.next_attempt_at, "next attempt"),
                (history.expires_at, "expires, if it has not been sent by then"),
            ]
        case State.SENDING:
            ahead = [(history.lease_until, "the lease of its worker ends")]
        case State.UNKNOWN:
            ahead = [(history.next_attempt_at, "the reconciler looks again")]
    return [
        Moment(at=at, kind=Kind.AHEAD, what=what if at > now else f"{what} (since then it is due)")
        for at, what in sorted((at, what) for at, what in ahead if at is not None)
    ]


def _known(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
