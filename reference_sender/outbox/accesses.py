"""The access log: who looked at whose mail, or changed something by hand.

It is written before anything is shown, so that what cannot be logged cannot be seen.
Must not hold: names of people whose mail it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select

from reference_sender.outbox.schema import operator_access
from reference_sender.outbox.transactions import Transactions

_access = operator_access.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One line of the log."""

    at: datetime
    operator: str
    action: str
    email_id: int | None
    """None: not one mail, but all of them (or many)."""
    detail: str | None


class Accesses(Transactions):
    """What operators did."""

    def note_access(
        self,
        operator: str,
        action: str,
        *,
        now: datetime,
        email_ids: Sequence[int] = (),
        detail: str | None = None,
    ) -> None:
        """Write down what an operator is about to see or do: a line for each mail, or one for all of them."""
        with self._write() as connection:
            connection.execute(
                insert(operator_access),
                [
                    {"at": now, "operator": operator, "action": action, "email_id": one, "detail": detail}
                    for one in (email_ids or (None,))
                ],
            )

    def accesses(
        self, *, email_ids: Sequence[int] | None = None, limit: int = 100, operator: str | None = None
    ) -> list[Access]:
        """The newest lines, newest first: of these mails, of this operator, or all."""
        wanted: list[Any] = [] if email_ids is None else [_access.email_id.in_(list(email_ids))]
        wanted += [] if operator is None else [_access.operator == operator]
        query = (
            select(_access.at, _access.operator, _access.action, _access.email_id, _access.detail)
            .where(*wanted)
            .order_by(_access.id.desc())
            .limit(limit)
        )
        with self._read() as connection:
            return [Access(**row._mapping) for row in connection.execute(query)]
