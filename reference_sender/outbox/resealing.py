"""Sealing what is stored with the newest key: what was never sealed, and what an older key sealed.

Must not hold: keys, ciphers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, LargeBinary, Text, select, type_coerce, update

from reference_sender.outbox import attachments
from reference_sender.outbox.schema import email_attachment, outgoing_email, webhook_event
from reference_sender.outbox.sealed import TEXT_MARK, vault_behind
from reference_sender.outbox.transactions import Transactions
from reference_sender.sealing import Vault, is_sealed, key_of

_row = outgoing_email.c
_content = email_attachment.c
_event = webhook_event.c


class Resealing(Transactions):
    """Small steps over everything that holds words; the words stay what they are, so it may go on while mail is sent."""

    def reseal_mails(self, *, after: int, limit: int) -> tuple[int, list[int], int | None]:
        """Mails behind this number: how many were sealed anew, which cannot be opened, and where to go on."""
        vault = self._vault()

        def act(connection: Connection) -> tuple[int, list[int], int | None]:
            rows = connection.execute(
                select(
                    _row.id,
                    _row.raw,
                    _row.parameters,
                    type_coerce(_row.raw, LargeBinary).label("stored"),
                    type_coerce(_row.parameters, Text).label("stored_text"),
                )
                .where(_row.id > after)
                .order_by(_row.id)
                .limit(limit)
                .with_for_update()
            ).all()
            done, shut = 0, list[int]()
            for row in rows:
                if not row.stored or _is_current(vault, bytes(row.stored), row.stored_text):
                    continue
                if is_sealed(bytes(row.raw)):
                    shut.append(row.id)
                    continue
                connection.execute(
                    update(outgoing_email)
                    .where(_row.id == row.id)
                    .values(raw=bytes(row.raw), parameters=row.parameters)
                )
                done += 1
            return done, shut, rows[-1].id if len(rows) == limit else None

        # Workers settle some of these rows meanwhile, in an order of their own.
        return self._in_one(act)

    def reseal_attachments(self, *, after: str, limit: int) -> tuple[int, list[str], str | None]:
        """The same for contents of attachments, along their digests."""
        vault = self._vault()
        with self._write() as connection:
            rows: Sequence[Any] = connection.execute(
                select(
                    _content.digest,
                    _content.content,
                    type_coerce(_content.content, LargeBinary).label("stored"),
                )
                .where(_content.digest > after)
                .order_by(_content.digest)
                .limit(limit)
                .with_for_update()
            ).all()
            done, shut = 0, list[str]()
            for row in rows:
                if _is_current(vault, bytes(row.stored), None):
                    continue
                if is_sealed(bytes(row.content)):
                    shut.append(row.digest)
                    continue
                first, *rest = attachments.pieces_of(connection, bytes(row.content))
                connection.execute(
                    update(email_attachment).where(_content.digest == row.digest).values(content=first)
                )
                attachments.append(connection, row.digest, rest)
                done += 1
        return done, shut, rows[-1].digest if len(rows) == limit else None

    def reseal_events(self, *, after: int, limit: int) -> tuple[int, list[int], int | None]:
        """The same for what the provider told."""
        vault = self._vault()
        with self._write() as connection:
            rows = connection.execute(
                select(_event.id, _event.raw, type_coerce(_event.raw, LargeBinary).label("stored"))
                .where(_event.id > after)
                .order_by(_event.id)
                .limit(limit)
                .with_for_update()
            ).all()
            done, shut = 0, list[int]()
            for row in rows:
                if not row.stored or _is_current(vault, bytes(row.stored), None):
                    continue
                if is_sealed(bytes(row.raw)):
                    shut.append(row.id)
                    continue
                connection.execute(
                    update(webhook_event).where(_event.id == row.id).values(raw=bytes(row.raw))
                )
                done += 1
        return done, shut, rows[-1].id if len(rows) == limit else None

    def _vault(self) -> Vault:
        vault = vault_behind(self.engine)
        assert vault is not None, "who has no key has nothing to seal with"
        return vault


def _is_current(vault: Vault, stored: bytes, text: str | None) -> bool:
    sealed = is_sealed(stored) and key_of(stored) == vault.current
    return sealed and (text is None or text.startswith(TEXT_MARK))
