"""Letting go what has outlived its period, in small transactions. Unfinished mail is out of reach of every statement.

Must not hold: how long something is kept.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from sqlalchemy import Select, case, delete, exists, select, update

from reference_sender.life import FINAL, State
from reference_sender.outbox.schema import (
    email_attachment,
    email_attachment_use,
    email_attempt,
    operator_access,
    ordering_lane,
    outgoing_email,
    webhook_event,
)
from reference_sender.outbox.transactions import Transactions

_row = outgoing_email.c
_attempt = email_attempt.c

_FINISHED = _row.state.in_(sorted(FINAL))
#: When the last thing happened to a mail, as far as periods go. What was told of it may bear any date, also one from
#: before it was sent: a mail is no older for that.
_last_thing = case((_row.last_event_at > _row.updated_at, _row.last_event_at), else_=_row.updated_at)


class Purging(Transactions):
    """What goes, and only what may go: the conditions stand in every statement that writes, not only in the one that looks."""

    def purge_mails(
        self, state: State, *, before: datetime, after: int, limit: int
    ) -> tuple[int, int | None]:
        """Delete mails in this final state, with their attempts and facts."""
        assert state in FINAL, state
        old = (_row.state == state, _last_thing < before)
        with self._write() as connection:
            ids = list(connection.execute(_walk(_row.id, old, after, limit)).scalars())
            gone = 0
            if ids:
                # Their attempts, facts and uses of attachments go with them (ON DELETE CASCADE).
                gone = connection.execute(delete(outgoing_email).where(_row.id.in_(ids), *old)).rowcount
        return gone, _further(ids, limit)

    def purge_words(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]:
        """Empty what finished mails said; a hash of it stays. Whoever has seen one before is fenced out of it."""
        old = (_FINISHED, _last_thing < before, _row.content_hash.is_(None))
        with self._write() as connection:
            found = connection.execute(_walk(_row.id, old, after, limit, _row.raw)).all()
            for row in found:
                connection.execute(
                    update(outgoing_email)
                    .where(_row.id == row.id, *old)
                    .values(
                        raw=b"",
                        parameters=None,
                        attachments=None,
                        content_hash=hash_of(row.raw),
                        token=_row.token + 1,
                    )
                )
            ids = [row.id for row in found]
            if ids:
                connection.execute(
                    delete(email_attachment_use).where(email_attachment_use.c.email_id.in_(ids))
                )
        return len(ids), _further(ids, limit)

    def purge_answers(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]:
        """Forget what the provider answered to finished mails, word by word; codes and decisions stay."""
        finished = exists().where(_row.id == _attempt.email_id, _FINISHED)
        old = (_attempt.answer.is_not(None), _attempt.ended_at < before, finished)
        with self._write() as connection:
            found = connection.execute(_walk(_attempt.id, old, after, limit, _attempt.email_id)).all()
            ids = [row.id for row in found]
            if ids:
                connection.execute(update(email_attempt).where(_attempt.id.in_(ids)).values(answer=None))
                connection.execute(
                    update(outgoing_email)
                    .where(_row.id.in_({row.email_id for row in found}), _FINISHED, _row.updated_at < before)
                    .values(raw_answer=None)
                )
        return len(ids), _further(ids, limit)

    def purge_events(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]:
        """Delete events that are done with; the facts that they became stay with their mails."""
        event = webhook_event.c
        old = (event.settled_at.is_not(None), event.settled_at < before)
        with self._write() as connection:
            ids = list(connection.execute(_walk(event.id, old, after, limit)).scalars())
            if ids:
                connection.execute(delete(webhook_event).where(event.id.in_(ids), *old))
        return len(ids), _further(ids, limit)

    def purge_attachments(self, *, before: datetime, limit: int) -> int:
        """Delete contents that no mail names any more."""
        content = email_attachment.c
        unused = ~exists().where(email_attachment_use.c.digest == content.digest)
        with self._write() as connection:
            digests = list(
                connection.execute(
                    select(content.digest)
                    .where(content.used_at < before, unused)
                    .order_by(content.digest)
                    .limit(limit)
                    .with_for_update(skip_locked=True)
                ).scalars()
            )
            if not digests:
                return 0
            return connection.execute(
                delete(email_attachment).where(content.digest.in_(digests), content.used_at < before, unused)
            ).rowcount

    def purge_lanes(self, *, before: datetime, limit: int) -> int:
        """Delete ordering keys under which nothing waits; who enqueues under one makes it anew."""
        lane = ordering_lane.c
        idle = ~exists().where(_row.ordering_key == lane.ordering_key, ~_FINISHED)
        with self._write() as connection:
            keys = list(
                connection.execute(
                    select(lane.ordering_key)
                    .where(lane.enqueued_at < before, idle)
                    .order_by(lane.ordering_key)
                    .limit(limit)
                    .with_for_update(skip_locked=True)
                ).scalars()
            )
            if not keys:
                return 0
            return connection.execute(
                delete(ordering_lane).where(lane.ordering_key.in_(keys), lane.enqueued_at < before, idle)
            ).rowcount

    def purge_accesses(self, *, before: datetime, after: int, limit: int) -> tuple[int, int | None]:
        """Delete lines of the access log."""
        access = operator_access.c
        with self._write() as connection:
            ids = list(connection.execute(_walk(access.id, (access.at < before,), after, limit)).scalars())
            if ids:
                connection.execute(delete(operator_access).where(access.id.in_(ids)))
        return len(ids), _further(ids, limit)


def hash_of(raw: bytes) -> str:
    """What stays of words that are gone: hex SHA-256."""
    return hashlib.sha256(bytes(raw)).hexdigest()


def _walk(number: Any, old: tuple[Any, ...], after: int, limit: int, *more: Any) -> Select[Any]:
    """The next rows that are old, along the primary key: one pass over the table, however many steps."""
    return (
        select(number.label("id"), *more)
        .where(number > after, *old)
        .order_by(number)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )


def _further(ids: list[int], limit: int) -> int | None:
    return ids[-1] if len(ids) == limit else None
