"""The suppression list: put on, taken off, asked – inside the caller's transaction, like an enqueue.

Must not hold: why somebody belongs there (`policy`), what becomes of a mail to him.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, exists, func, literal_column, or_, select

from reference_sender.outbox.engine import insert_or_update
from reference_sender.outbox.rows import AT
from reference_sender.outbox.schema import outgoing_email, suppression
from reference_sender.outbox.transactions import Transactions
from reference_sender.policy.classes import MailClass
from reference_sender.policy.suppression import Kind, Suppression, canonical

_row, _entry = outgoing_email.c, suppression.c


def suppress(
    connection: Connection,
    address: str,
    *,
    reason: str,
    source: str,
    now: datetime,
    kind: Kind = Kind.ALL,
    until: datetime | None = None,
) -> None:
    """Put an address onto the list. Whoever is there already stays, with what is said now. Raises `InvalidMail`.

    Mail to it that is waiting ends as `suppressed` when its turn comes.
    """
    entry = {
        "address": canonical(address),
        "kind": Kind(kind).value,
        "reason": reason,
        "source": source,
        "since": now,
        "until": until,
    }
    connection.execute(
        insert_or_update(
            connection.dialect.name,
            entry,
            table=suppression,
            key=("address", "kind"),
            update=("reason", "source", "since", "until"),
        )
    )


def suppressions_of(connection: Connection, addresses: Iterable[str]) -> dict[str, list[Suppression]]:
    """The entries of these addresses (given as `canonical` has them), by address."""
    found: dict[str, list[Suppression]] = {}
    wanted = select(suppression).where(_entry.address.in_(list(addresses))).order_by(_entry.kind)
    for row in connection.execute(wanted):
        found.setdefault(row.address, []).append(_suppression(row))
    return found


def is_suppressed() -> Any:
    """The condition that the recipient of a row must not be written to at `:at`."""
    return exists().where(
        _entry.address == func.lower(_row.recipient),
        or_(_entry.until.is_(None), _entry.until > AT),
        or_(
            _entry.kind == literal_column(f"'{Kind.ALL.value}'"),
            _row.mail_class == literal_column(f"'{MailClass.NEWSLETTER.value}'"),
        ),
    )


def _suppression(row: Any) -> Suppression:
    facts = dict(row._mapping)
    return Suppression(**facts | {"kind": Kind(facts["kind"])})


class Suppressions(Transactions):
    """The list as people use it."""

    def suppress(
        self,
        address: str,
        *,
        reason: str,
        source: str,
        now: datetime,
        kind: Kind = Kind.ALL,
        until: datetime | None = None,
    ) -> None:
        """Put an address onto the list, as the function does."""
        with self._write() as connection:
            suppress(connection, address, reason=reason, source=source, now=now, kind=kind, until=until)

    def unsuppress(self, address: str, *, kind: Kind | None = None) -> int:
        """Take an address off the list (of one kind, or wholly); how many entries there were."""
        wanted = [_entry.address == canonical(address)]
        wanted += [_entry.kind == kind.value] if kind is not None else []
        with self._write() as connection:
            return connection.execute(delete(suppression).where(*wanted)).rowcount

    def suppressions(self, *, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[Suppression]:
        """A page of the list, by address and kind."""
        address, kind = after
        with self._read() as connection:
            rows = connection.execute(
                select(suppression)
                .where(or_(_entry.address > address, and_(_entry.address == address, _entry.kind > kind)))
                .order_by(_entry.address, _entry.kind)
                .limit(limit)
            ).all()
        return [_suppression(row) for row in rows]
