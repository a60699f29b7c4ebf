"""Taking a person out of the outbox: addresses and words go; numbers, times, outcomes and a hash stay as the proof.

Must not hold: who is to be erased, what may be erased.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, exists, func, select, update

from reference_sender.life import FINAL, Actor, State, may_move
from reference_sender.outbox.purging import hash_of
from reference_sender.outbox.schema import (
    delivery_fact,
    email_attachment,
    email_attachment_use,
    email_attempt,
    ordering_lane,
    outgoing_email,
    suppression,
    webhook_event,
)
from reference_sender.outbox.transactions import Transactions

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
        held: list[int] = []
        with self._write() as connection:
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

    def erase_mails(self, ids: Sequence[int], *, address: str, now: datetime) -> int:
        """Empty finished mails and what is kept about them; how many were."""
        count = 0
        with self._write() as connection:
            rows = connection.execute(
                select(_row.id, _row.raw, _row.content_hash, *_NAMES).where(
                    _row.id.in_(ids), _row.state.in_(sorted(FINAL))
                )
            ).all()
            for row in rows:
                values = {
                    "recipient": NOBODY,
                    "raw": b"",
                    "parameters": None,
                    "attachments": None,
                    "raw_answer": None,
                    "erased_at": now,
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
                    others = exists().where(_use.digest == email_attachment.c.digest)
                    connection.execute(
                        delete(email_attachment).where(email_attachment.c.digest.in_(digests), ~others)
                    )
        return count

    def erase_events(
        self, address: str, ids: Sequence[int], *, after: int, limit: int
    ) -> tuple[int, int | None]:
        """Empty events that are about these mails or name the address; of those that are done with."""
        mails, needle = set(ids), address.lower().encode()
        with self._write() as connection:
            rows = connection.execute(
                select(_event.id, _event.email_id, _event.raw)
                .where(_event.id > after, _event.settled_at.is_not(None))
                .order_by(_event.id)
                .limit(limit)
            ).all()
            hit = [
                row.id
                for row in rows
                if bytes(row.raw) and (row.email_id in mails or needle in bytes(row.raw).lower())
            ]
            if hit:
                connection.execute(
                    update(webhook_event).where(_event.id.in_(hit)).values(raw=b"", reason=None)
                )
        return len(hit), rows[-1].id if len(rows) == limit else None

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


def _anonymous_names(row: Any, address: str) -> dict[str, str]:
    """Names that were made from the address lose it; all others stay, they are the way to the event."""
    spelled = (address.lower(), re.sub(r"[^a-z0-9._-]+", "-", address.lower()))
    names = {column.name: row._mapping[column.name] for column in _NAMES}
    return {
        column: f"{NOBODY}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        for column, name in names.items()
        if name is not None and any(each in name.lower() for each in spelled)
    }
