"""Whom an event names: written down by a hash, so that an erasure finds it without reading what everybody was told.

An event is noted when it is settled. Those of former versions are noted by the first erasure; what names more
addresses than it may is not noted at all, and each erasure reads it.
Must not hold: what an address looks like (`policy.addresses`), what is erased.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, bindparam, select, update

from reference_sender.outbox.engine import inserting
from reference_sender.outbox.schema import event_address, webhook_event
from reference_sender.outbox.transactions import Transactions
from reference_sender.policy.addresses import addresses_in, digest_of
from reference_sender.sealing import is_sealed

_event = webhook_event.c

#: So many addresses of one event are written down. Whoever can mail the door for bounces could name a million.
MOST = 200
# So many rows go into one INSERT: databases take only so many parameters at once.
_AT_ONCE = 500

_NOTED = (
    update(webhook_event)
    .where(_event.id == bindparam("noted"))
    .values({_event.named_at: bindparam("at", type_=_event.named_at.type)})
)


class Named(Transactions):
    """Events that are not noted yet."""

    def note_events(self, address: str, *, now: datetime, after: int, limit: int) -> tuple[int, int | None]:
        """Note events behind this number; how many cannot be read for want of a key, and where to go on.

        Of one that names too many, `address` is noted if it is among them.
        """
        with self._write() as connection:
            rows = connection.execute(
                select(_event.id, _event.raw)
                .where(_event.named_at.is_(None), _event.id > after)
                .order_by(_event.id)
                .limit(limit)
                .with_for_update()
            ).all()
            events = [(row.id, bytes(row.raw)) for row in rows]
            note_addresses(connection, events, now, sought=digest_of(address))
        shut = sum(is_sealed(raw) for _, raw in events)
        return shut, rows[-1].id if len(rows) == limit else None


def note_addresses(
    connection: Connection, events: Iterable[tuple[int, bytes]], now: datetime, *, sought: str | None = None
) -> None:
    """Note whom these events (number, bytes) name, as far as they can be read."""
    noted: list[int] = []
    found: list[dict[str, object]] = []
    for event_id, raw in events:
        if is_sealed(raw):
            continue
        digests = {digest_of(address) for address in addresses_in(raw)}
        if len(digests) <= MOST:
            noted.append(event_id)
        else:
            digests &= {sought}
        found += [{"digest": digest, "event_id": event_id} for digest in sorted(digests)]
    for begin in range(0, len(found), _AT_ONCE):
        connection.execute(
            inserting(connection.dialect.name, event_address, ("digest", "event_id")),
            found[begin : begin + _AT_ONCE],
        )
    if noted:
        connection.execute(_NOTED, [{"noted": each, "at": now} for each in noted])
