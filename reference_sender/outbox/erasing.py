"""Taking a person out of the outbox: addresses and words go; numbers, times, outcomes and a hash stay as the proof.

Must not hold: who is to be erased, what may be erased.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, LargeBinary, Select, delete, exists, func, select, type_coerce, update

from reference_sender.life import FINAL, Actor, State, may_move
from reference_sender.outbox.purging import hash_of
from reference_sender.outbox.schema import (
    delivery_fact,
    email_attachment,
    email_attachment_use,
    email_attempt,
    event_address,
    ordering_lane,
    outgoing_email,
    suppression,
    webhook_event,
)
from reference_sender.outbox.transactions import Transactions
from reference_sender.policy.addresses import digest_of

_row = outgoing_email.c
_event = webhook_event.c
_use = email_attachment_use.c

#: What a business may have made from an address.
_NAMES = (_row.dedupe_key, _row.idempotency_key, _row.depends_on, _row.ordering_key, _row.slot)

#: What stands where an address stood.
NOBODY = "erased"
_WITHHELD = "withheld: the recipient is being erased"


class Erasing(Transactions):
    """The steps of an erasure; each is one transaction, and taking one again does nothing."""

    def mails_to(self, address: str) -> list[tuple[int, State, bool]]:
        """Every mail to this address: number, state, whether an attempt is in doubt. It reads the whole table."""
        wanted = func.lower(_row.recipient) == address.lower()
        with self._read() as connection:
            rows = connection.execute(
                select(_row.id, _row.state, _row.doubted_at).where(wanted).order_by(_row.id)
            )
            return [(row.id, row.state, row.doubted_at is not None) for row in rows]

    def withhold(self, ids: Sequence[int], *, now: datetime) -> list[int]:
        """Do not send these any more; those that a worker has not taken meanwhile."""
        assert may_move(Actor.PERSON, State.PENDING, State.SUPPRESSED)

        def act(connection: Connection) -> list[int]:
            held: list[int] = []
            for number in ids:
                token = connection.execute(select(_row.token).where(_row.id == number)).scalar()
                values = {
                    "state": State.SUPPRESSED,
                    "token": _row.token + 1,
                    "next_attempt_at": None,
                    "hold_until": None,
                    "last_error": _WITHHELD,
                    "updated_at": now,
                }
                untouched = (
                    _row.id == number,
                    _row.token == token,
                    _row.state == State.PENDING,
                    _row.doubted_at.is_(None),
                )
                if connection.execute(update(outgoing_email).where(*untouched).values(values)).rowcount == 1:
                    held.append(number)
                    self._record(
                        connection,
                        number,
                        token or 0,
                        ended_at=now,
                        decision=State.SUPPRESSED,
                        reason=f"{Actor.PERSON.value}: {_WITHHELD}",
                    )
            return held

        return self._in_one(act)

    def erase_mails(self, ids: Sequence[int], *, address: str, now: datetime) -> int:
        """Empty finished mails and what is kept about them; how many were. Whoever has seen one before is fenced out of it."""

        def act(connection: Connection) -> int:
            count = 0
            rows = connection.execute(
                select(_row.id, _row.raw, _row.content_hash, *_NAMES)
                .where(_row.id.in_(ids), _row.state.in_(sorted(FINAL)))
                .order_by(_row.id)
                # Who requeues one just then comes before us, and it is left, or after us, and is fenced out.
                .with_for_update()
            ).all()
            for row in rows:
                values = {
                    "recipient": NOBODY,
                    "raw": b"",
                    "parameters": None,
                    "attachments": None,
                    "raw_answer": None,
                    "erased_at": now,
                    "token": _row.token + 1,
                    "content_hash": row.content_hash or hash_of(row.raw),
                    **_anonymous_names(row, address),
                }
                unfinished = _row.state.in_(sorted(FINAL))
                count += connection.execute(
                    update(outgoing_email).where(_row.id == row.id, unfinished).values(values)
                ).rowcount
            found = [row.id for row in rows]
            lanes = {row.ordering_key for row in rows if "ordering_key" in _anonymous_names(row, address)}
            if lanes:
                connection.execute(delete(ordering_lane).where(ordering_lane.c.ordering_key.in_(lanes)))
            if found:
                connection.execute(
                    update(email_attempt).where(email_attempt.c.email_id.in_(found)).values(answer=None)
                )
                connection.execute(
                    update(delivery_fact).where(delivery_fact.c.email_id.in_(found)).values(detail=None)
                )
                digests = list(
                    connection.execute(select(_use.digest).where(_use.email_id.in_(found))).scalars()
                )
                connection.execute(delete(email_attachment_use).where(_use.email_id.in_(found)))
                if digests:
                    # Who enqueues a mail with one of them holds it: its name is there once we have waited for that.
                    mine = email_attachment.c.digest.in_(digests)
                    connection.execute(
                        select(email_attachment.c.digest)
                        .where(mine)
                        .order_by(email_attachment.c.digest)
                        .with_for_update()
                    ).all()
                    others = exists().where(_use.digest == email_attachment.c.digest)
                    connection.execute(delete(email_attachment).where(mine, ~others))
            return count

        return self._in_one(act)

    def erase_events(self, address: str, ids: Sequence[int], *, limit: int) -> int:
        """Empty events that name the address or are about these mails, of those that are done with; how many.

        They must have been noted (`named`). What is emptied is not found again: 0 is the end.
        """
        with self._write() as connection:
            hit: dict[int, int | None] = {}
            for found in _of_person(address, ids):
                query = found.where(_event.settled_at.is_not(None)).limit(limit)
                hit |= {row.id: row.email_id for row in connection.execute(query)}
            if hit:
                connection.execute(
                    update(webhook_event).where(_event.id.in_(hit)).values(raw=b"", reason=None)
                )
                connection.execute(delete(event_address).where(event_address.c.event_id.in_(hit)))
                # What came after its mail was erased: that mail bears no address any more by which it could be found.
                erased = exists().where(_row.id == delivery_fact.c.email_id, _row.erased_at.is_not(None))
                about = {email_id for email_id in hit.values() if email_id is not None}
                connection.execute(
                    update(delivery_fact)
                    .where(delivery_fact.c.email_id.in_(about), erased)
                    .values(detail=None)
                )
        return len(hit)

    def events_left(self, address: str, ids: Sequence[int]) -> set[int]:
        """Events that name the address or are about these mails, and that nobody has dealt with yet."""
        left: set[int] = set()
        with self._read() as connection:
            for found in _of_person(address, ids):
                left |= set(connection.execute(found.where(_event.settled_at.is_(None))).scalars())
        return left

    def wordless(self, ids: Sequence[int]) -> list[int]:
        """Those of these mails whose words are gone: they cannot be sent again."""
        with self._read() as connection:
            return list(
                connection.execute(
                    select(_row.id)
                    .where(_row.id.in_(list(ids)), _row.content_hash.is_not(None))
                    .order_by(_row.id)
                ).scalars()
            )

    def forget_suppression(self, address: str) -> int:
        """Take the address from the suppression list."""
        with self._write() as connection:
            return connection.execute(
                delete(suppression).where(suppression.c.address == address.lower())
            ).rowcount


def _of_person(address: str, ids: Sequence[int]) -> tuple[Select[Any], ...]:
    """Queries for the events that name this address, and for those about these mails."""
    named = (
        select(_event.id, _event.email_id)
        .join(event_address, event_address.c.event_id == _event.id)
        .where(event_address.c.digest == digest_of(address))
    )
    about = select(_event.id, _event.email_id).where(
        _event.email_id.in_(list(ids)), func.length(type_coerce(_event.raw, LargeBinary)) > 0
    )
    return (named, about) if ids else (named,)


def _anonymous_names(row: Any, address: str) -> dict[str, str]:
    """Names that were made from the address lose it; all others stay, they are the way to the event."""
    spelled = (address.lower(), re.sub(r"[^a-z0-9._-]+", "-", address.lower()))
    names = {column.name: row._mapping[column.name] for column in _NAMES}
    return {
        column: f"{NOBODY}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        for column, name in names.items()
        if name is not None and any(each in name.lower() for each in spelled)
    }
