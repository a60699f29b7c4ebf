"""Reading the outbox: rows by event or state, all of them as the outside may see them, counts.

Must not hold: anything that writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, func, select

from reference_sender.life import Docket, State
from reference_sender.outbox.rows import DOCKET_COLUMNS, facts_of
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.transactions import Transactions

_row = outgoing_email.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One row as the outside may see it."""

    id: int
    key: str
    recipient: str
    state: State
    attempts: int
    provider_id: str | None
    message_id: str
    may_repeat: bool
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many rows are in a state, and since when the oldest of them exists."""

    state: State
    count: int
    oldest: datetime


class Reading(Transactions):
    """What people and alarms look at."""

    def find(
        self, *, key: str | None = None, ids: Sequence[int] = (), states: Sequence[State] = ()
    ) -> list[Docket]:
        """Rows of an event, by number, or in a state."""
        wanted = [_row.dedupe_key == key] if key is not None else []
        wanted += [_row.id.in_(list(ids))] if ids else []
        wanted += [_row.state.in_(list(states))] if states else []
        with self._read() as connection:
            rows = connection.execute(select(*DOCKET_COLUMNS).where(and_(*wanted)).order_by(_row.id)).all()
        # MySQL takes no notice of blanks at the end of a text.
        return [Docket(**facts_of(row)) for row in rows if key is None or row.key == key]

    def standings(self) -> list[Standing]:
        """Every row, oldest first, as the outside may see it."""
        with self._read() as connection:
            rows = connection.execute(
                select(
                    _row.id,
                    _row.dedupe_key.label("key"),
                    _row.recipient,
                    _row.state,
                    _row.attempts,
                    _row.provider_id,
                    _row.message_id,
                    _row.may_repeat,
                    _row.last_error,
                ).order_by(_row.id)
            ).all()
        return [Standing(**row._mapping) for row in rows]

    def tallies(self) -> list[Tally]:
        """Counts per state, for people and alarms."""
        with self._read() as connection:
            rows = connection.execute(
                select(_row.state, func.count().label("count"), func.min(_row.created_at).label("oldest"))
                .group_by(_row.state)
                .order_by(_row.state)
            ).all()
        return [Tally(**row._mapping) for row in rows]
