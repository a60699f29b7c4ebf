"""The outbox in memory keeps the contract of the SQL stores, and dies like them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select

from reference_sender.message import Mail
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.store import Enqueued
from scenarios.simulation.byteless.loop import OutOfReach
from scenarios.simulation.byteless.outbox import Outbox, Shelf, Transaction, put
from tests.reference_sender.outbox.contract import Bench, Contract
from tests.reference_sender.outbox.manners_contract import MannersContract
from tests.reference_sender.outbox.strays_contract import StraysContract
from tests.reference_sender.outbox.suspects_contract import SuspectsContract


class ShelfBench(Bench):
    """A store on a shelf."""

    def begin(self) -> AbstractContextManager[Any]:
        return Transaction(self.shelf)

    def enqueue(self, transaction: Any, mail: Mail, **more: Any) -> Enqueued:
        return put(transaction, mail, **more)

    def row(self, row_id: int = 1) -> Any:
        return SimpleNamespace(**self.shelf.emails[row_id])

    def edit(self, row_id: int, **columns: Any) -> None:
        with Transaction(self.shelf) as transaction:
            transaction.write(row_id, columns)

    def attempts(self) -> list[Any]:
        return [SimpleNamespace(**each) for each in self.shelf.attempts]

    @property
    def shelf(self) -> Shelf:
        shelf: Shelf = self.store.engine  # type: ignore[assignment] # it stands in the engine's place
        return shelf


@pytest.fixture
def outbox() -> ShelfBench:
    return ShelfBench(Outbox(Shelf()))


class TestOnAShelf(Contract, MannersContract, StraysContract, SuspectsContract):
    """The contract."""


def test_a_row_has_every_column_of_the_schema(outbox: ShelfBench) -> None:
    """A column that is added to the tables is missed here, not in a search."""
    outbox.put()
    outbox.claim()
    outbox.claim(61)

    assert set(outbox.shelf.emails[1]) == {column.name for column in outgoing_email.columns}
    assert set(outbox.shelf.attempts[0]) == {column.name for column in email_attempt.columns}


def test_a_copy_goes_its_own_way(outbox: ShelfBench) -> None:
    """A world is put back by copying a shelf: nothing that happens in one is seen in the other."""
    outbox.put()
    copy = outbox.shelf.copy()
    outbox.claim()
    outbox.claim(61)

    assert copy.emails[1]["attempts"] == 0
    assert copy.attempts == []


def test_a_part_that_speaks_sql_is_told_so(outbox: ShelfBench) -> None:
    """Not an `Exception`: those are caught by a sender, which would go on and be judged for it."""
    with pytest.raises(OutOfReach, match="in SQL"):
        outbox.store.engine.begin()
    with pytest.raises(OutOfReach, match="in SQL"), outbox.store._read() as connection:
        connection.execute(select(outgoing_email))
    assert not issubclass(OutOfReach, Exception)
