"""An outbox on a database, as the contract wants it: with the ways in that are not the worker's."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Row, select, update

from reference_sender.message import Mail
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.store import Enqueued, enqueue
from tests.reference_sender.outbox.contract import Bench


class SqlBench(Bench):
    """A store on a database."""

    def begin(self) -> AbstractContextManager[Any]:
        return self.store.engine.begin()

    def enqueue(self, transaction: Any, mail: Mail, **more: Any) -> Enqueued:
        return enqueue(transaction, mail, **more)

    def row(self, row_id: int = 1) -> Row[Any]:
        with self.store.engine.connect() as connection:
            return connection.execute(select(outgoing_email).where(outgoing_email.c.id == row_id)).one()

    def edit(self, row_id: int, **columns: Any) -> None:
        with self.begin() as connection:
            connection.execute(update(outgoing_email).where(outgoing_email.c.id == row_id).values(**columns))

    def attempts(self) -> list[Row[Any]]:
        with self.store.engine.connect() as connection:
            return list(connection.execute(select(email_attempt).order_by(email_attempt.c.id)))
