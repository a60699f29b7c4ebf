"""How deep the queues are: unfinished mails and those that want a person, by state and class.

One query a state, each by the index of that state, so that a million finished rows cost nothing.
Must not hold: anything that writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, case, func, select

from reference_sender.life import Docket, State
from reference_sender.outbox.rows import AT, DOCKET_COLUMNS, facts_of, in_state
from reference_sender.outbox.schema import outgoing_email, webhook_event
from reference_sender.outbox.transactions import Transactions

_row = outgoing_email.c

#: The states that are looked at: somebody still has to do something about a mail in one of them.
DEEP = (State.PENDING, State.SENDING, State.UNKNOWN, State.FAILED, State.DEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """One queue."""

    state: State
    mail_class: str
    count: int
    due: int
    """So many of them may be sent now (pending ones) or looked after (unknown ones)."""
    oldest_s: float
    """Since the oldest was put in (or queued again)."""
    overdue_s: float
    """Since the earliest next attempt, if that is in the past."""
    next_in_s: float | None = None
    """Until the earliest next attempt, if all of them are planned for later. None: one is due, or none has a time."""
    last_s: float = 0.0
    """Since one of them last moved: of failed ones, since the last refusal."""


_DEPTHS = {
    state: select(
        _row.mail_class,
        func.count().label("mails"),
        func.min(_row.queued_at).label("oldest"),
        func.min(_row.next_attempt_at).label("due_at"),
        func.sum(case((_row.next_attempt_at <= AT, 1), else_=0)).label("due"),
        func.max(_row.updated_at).label("moved_at"),
    )
    .where(in_state(state))
    .group_by(_row.mail_class)
    .order_by(_row.mail_class)
    for state in DEEP
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDepth:
    """What the provider told afterwards and nobody has dealt with yet."""

    waiting: int
    oldest_s: float
    """Since the oldest of them came."""
    last_s: float | None
    """Since the newest of all came. None: there is none."""


_event = webhook_event.c
_WAITING_EVENTS = select(func.count().label("events"), func.min(_event.received_at).label("oldest")).where(
    _event.next_look_at.is_not(None)
)
_LAST_EVENT = select(_event.received_at).order_by(_event.id.desc()).limit(1)

_OLDEST = {
    state: select(*DOCKET_COLUMNS)
    .where(in_state(state))
    .order_by(_row.queued_at, _row.id)
    .limit(bindparam("most"))
    for state in DEEP
}


_NEWEST = {
    state: select(*DOCKET_COLUMNS)
    .where(in_state(state))
    .order_by(_row.updated_at.desc(), _row.id.desc())
    .limit(bindparam("most"))
    for state in DEEP
}


_SENTENCES = {
    state: select(_row.last_error, func.count().label("mails"))
    .where(in_state(state))
    .group_by(_row.last_error)
    for state in DEEP
}


class Depths(Transactions):
    """What alarms look at."""

    def depths(self, *, now: datetime) -> list[Depth]:
        """Every queue that is not empty."""
        found: list[Depth] = []
        with self._read() as connection:
            for state, query in _DEPTHS.items():
                for row in connection.execute(query, {"at": now}):
                    found.append(
                        Depth(
                            state=state,
                            mail_class=row.mail_class,
                            count=row.mails,
                            due=int(row.due),
                            oldest_s=_since(row.oldest, now),
                            overdue_s=_since(row.due_at, now),
                            next_in_s=_until(row.due_at, now),
                            last_s=_since(row.moved_at, now),
                        )
                    )
        return found

    def event_depth(self, *, now: datetime) -> EventDepth:
        """How far the processing of events is behind, and whether any come."""
        with self._read() as connection:
            waiting = connection.execute(_WAITING_EVENTS).one()
            last = connection.execute(_LAST_EVENT).scalar()
        return EventDepth(
            waiting=waiting.events,
            oldest_s=_since(waiting.oldest, now),
            last_s=None if last is None else _since(last, now),
        )

    def oldest(self, state: State, *, limit: int) -> list[Docket]:
        """The mails that have been in a queue for longest."""
        return self._dockets(_OLDEST[state], limit)

    def newest(self, state: State, *, limit: int) -> list[Docket]:
        """The mails that came into a state last, the last one first."""
        return self._dockets(_NEWEST[state], limit)

    def sentences(self, state: State) -> dict[str | None, int]:
        """What the mails of a state say of why they are in it, and how many say so."""
        with self._read() as connection:
            return {row.last_error: row.mails for row in connection.execute(_SENTENCES[state])}

    def _dockets(self, query: Select[Any], limit: int) -> list[Docket]:
        with self._read() as connection:
            rows = connection.execute(query, {"most": limit}).all()
        return [Docket(**facts_of(row)) for row in rows]


def _until(then: datetime | None, now: datetime) -> float | None:
    return (then - now).total_seconds() if then is not None and then > now else None


def _since(then: datetime | None, now: datetime) -> float:
    return 0.0 if then is None else max((now - then).total_seconds(), 0.0)
