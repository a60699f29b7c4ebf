"""What the provider told afterwards: kept as it came, taken up one by one, and what it means for a mail.

Each method is one transaction. What an event does to its mail, to the list of suppressed addresses and to itself is
written together or not at all, so that a processor may be killed anywhere, and two may run side by side.
Must not hold: how an event is read, what it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, func, or_, select, update

from reference_sender.life import Actor, Docket
from reference_sender.message import InvalidMail
from reference_sender.outbox.engine import insert_unless_there, inserting
from reference_sender.outbox.named import note_addresses
from reference_sender.outbox.rows import DOCKET_COLUMNS, facts_of
from reference_sender.outbox.schema import delivery_fact, outgoing_email, webhook_event
from reference_sender.outbox.suppression import suppress
from reference_sender.outbox.transactions import Transactions
from reference_sender.policy.hearing import Fact, Fate, Settled, Told

_row = outgoing_email.c
_event = webhook_event.c
_fact = delivery_fact.c

# So many rows go into one INSERT: databases take only so many parameters at once.
_AT_ONCE = 500
# So far, in seconds, the clock of whoever tells us something may be ahead. What bears a later date is no newer for that:
# its mail would never outlive its period.
_AHEAD_S = 86_400.0
# Of one name. Two are one too many already; more would only be read for nothing.
_MOST_NAMESAKES = 3

_DUE = (
    select(_event.id, _event.source, _event.event_id, _event.raw, _event.received_at, _event.looks)
    .where(_event.next_look_at <= bindparam("at", type_=_event.next_look_at.type))
    .order_by(_event.next_look_at, _event.id)
    .limit(bindparam("most"))
)

# Spelled once: to put a statement together again for each event took longer than to ask the database. One by one: each
# has its index, and no database is asked to think about an OR.
_BY_NAME = {
    column.name: select(*DOCKET_COLUMNS)
    .where(column == bindparam("name", type_=column.type))
    .limit(_MOST_NAMESAKES)
    for column in (_row.provider_id, _row.idempotency_key, _row.message_id)
}
_ENDS = (
    update(webhook_event)
    .where(_event.id == bindparam("told"), _event.looks == bindparam("seen"))
    .values(
        {
            each: bindparam(f"to_{each.name}", type_=each.type)
            for each in (
                _event.state,
                _event.reason,
                _event.looks,
                _event.next_look_at,
                _event.email_id,
                _event.settled_at,
            )
        }
    )
)
_at = bindparam("at", type_=_row.last_event_at.type)
# The guard is in the UPDATE: what came late does not make the newest older.
_NEWEST = (
    update(outgoing_email)
    .where(
        _row.id == bindparam("mail"),
        or_(_row.last_event_at.is_(None), _row.last_event_at < _at),
    )
    .values({_row.last_event_at: _at})
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRow:
    """One fact of one mail, as it is stored."""

    kind: str
    happened_at: datetime
    detail: str | None


class _OutOfDate(Exception):
    """Somebody else was faster: roll back."""


class Events(Transactions):
    """Events that were told, and the facts they became."""

    # -- the door ---------------------------------------------------------------------------------------------

    def receive(self, items: Sequence[tuple[str, bytes]], *, source: str, now: datetime) -> int:
        """Keep events (id, bytes); how many of them are new. When this returns, a 2xx may be said."""
        new = 0
        rows = [
            {
                "source": source,
                "event_id": event_id,
                "raw": raw,
                "received_at": now,
                "state": Fate.NEW.value,
                "looks": 0,
                "next_look_at": now,
            }
            # A batch may hold the same event twice.
            for event_id, raw in dict(items).items()
        ]
        with self._write() as connection:
            for begin in range(0, len(rows), _AT_ONCE):
                new += connection.execute(
                    insert_unless_there(
                        connection.dialect.name,
                        rows[begin : begin + _AT_ONCE],
                        table=webhook_event,
                        key=("source", "event_id"),
                    ),
                    execution_options={"preserve_rowcount": True},
                ).rowcount
        return new

    # -- the processor ----------------------------------------------------------------------------------------

    def due_events(self, *, now: datetime, limit: int) -> list[Told]:
        """Events that should be looked at now, those that wait longest first."""
        with self._read() as connection:
            rows = connection.execute(_DUE, {"at": now, "most": limit}).all()
        return [Told(**{**row._mapping, "raw": bytes(row.raw)}) for row in rows]

    def about(self, *, provider_id: str | None, message_id: str | None, key: str | None) -> list[Docket]:
        """The mails that go by one of these names. More than one: the names do not lead to the same mail."""
        names = {"provider_id": provider_id, "idempotency_key": key, "message_id": message_id}
        found: dict[int, Docket] = {}
        with self._read() as connection:
            for column, name in names.items():
                if name is None:
                    continue
                for row in connection.execute(_BY_NAME[column], {"name": name}):
                    found[row.id] = Docket(**facts_of(row))
        return [found[number] for number in sorted(found)]

    def conclude(self, told: Told, settled: Settled, *, now: datetime) -> bool:
        """Write what an event came to. False: event or mail have moved meanwhile, and nothing was written."""
        try:
            with self._write() as connection:
                self._end(connection, told, settled, now)
                if settled.move is not None and settled.docket is not None:
                    moved = self._move(connection, settled.docket, settled.move, now, Actor.EVENTS, {})
                    if not moved:
                        raise _OutOfDate
                if settled.fact is not None and settled.docket is not None:
                    self._note(connection, settled.docket.id, settled.fact, now)
                if settled.suppress is not None:
                    self._list(connection, *settled.suppress, told, now)
        except _OutOfDate:
            return False
        return True

    @staticmethod
    def _end(connection: Connection, told: Told, settled: Settled, now: datetime) -> None:
        done = connection.execute(
            _ENDS,
            {
                "told": told.id,
                "seen": told.looks,
                "to_state": settled.fate.value,
                "to_reason": settled.reason,
                "to_looks": told.looks + 1,
                "to_next_look_at": settled.look_again_at,
                "to_email_id": None if settled.docket is None else settled.docket.id,
                "to_settled_at": None if settled.look_again_at is not None else now,
            },
        )
        if done.rowcount != 1:
            raise _OutOfDate
        if settled.look_again_at is None:
            note_addresses(connection, [(told.id, told.raw)], now)

    @staticmethod
    def _note(connection: Connection, email_id: int, fact: Fact, now: datetime) -> None:
        row = {
            "email_id": email_id,
            "kind": fact.kind,
            "happened_at": fact.happened_at,
            "provider_id": fact.provider_id,
            "detail": fact.detail,
            "recorded_at": now,
        }
        connection.execute(
            inserting(connection.dialect.name, delivery_fact, ("email_id", "kind", "happened_at")), row
        )
        happened_at = min(fact.happened_at, now + timedelta(seconds=_AHEAD_S))
        connection.execute(_NEWEST, {"mail": email_id, "at": happened_at})

    @staticmethod
    def _list(connection: Connection, address: str, reason: str, told: Told, now: datetime) -> None:
        source = f"{told.source} {told.event_id}"[:255]
        try:
            suppress(connection, address, reason=reason, source=source, now=now)
        except InvalidMail:
            # No address that we could write to, so nobody who must be spared.
            return

    # -- the reconciler ---------------------------------------------------------------------------------------

    def told_of(self, docket: Docket) -> str | None:
        """The provider's name for a mail of which it has told something, "" if it told none; None: it told nothing."""
        with self._read() as connection:
            known, provider_id = connection.execute(
                select(func.count(), func.max(_fact.provider_id)).where(_fact.email_id == docket.id)
            ).one()
        return None if known == 0 else provider_id or ""

    # -- people -----------------------------------------------------------------------------------------------

    def facts(self, email_ids: Sequence[int]) -> dict[int, list[FactRow]]:
        """What is known of these mails, oldest first."""
        found: dict[int, list[FactRow]] = {}
        with self._read() as connection:
            for row in connection.execute(
                select(_fact.email_id, _fact.kind, _fact.happened_at, _fact.detail)
                .where(_fact.email_id.in_(list(email_ids)))
                .order_by(_fact.happened_at, _fact.id)
            ):
                fact = FactRow(kind=row.kind, happened_at=row.happened_at, detail=row.detail)
                found.setdefault(row.email_id, []).append(fact)
        return found

    def kinds_told(self) -> dict[int, list[str]]:
        """What is known of every mail of which anything was told: kinds of facts, oldest first."""
        found: dict[int, list[str]] = {}
        with self._read() as connection:
            for row in connection.execute(
                select(_fact.email_id, _fact.kind).order_by(_fact.email_id, _fact.happened_at, _fact.id)
            ):
                found.setdefault(row.email_id, []).append(row.kind)
        return found
