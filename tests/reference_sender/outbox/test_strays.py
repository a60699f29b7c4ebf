"""Rows that nobody takes, on every database: the contract."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from reference_sender.life import State
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.strays_contract import StraysContract
from tests.reference_sender.samples import NOW


class TestStraysOnADatabase(StraysContract):
    """The contract."""


@pytest.mark.parametrize("column", ["lease_until", "next_attempt_at"])
def test_a_time_that_is_none_is_one_that_never_comes(outbox: SqlBench, column: str) -> None:
    """What each database lets in: a lease that is over tomorrow, for ever."""
    value = {"sqlite": "tomorrow", "postgresql": "infinity", "mysql": "9999-12-31"}
    state = {"lease_until": "sending", "next_attempt_at": "pending"}[column]
    outbox.put()
    with outbox.store.engine.begin() as connection:
        never = value[connection.dialect.name]
        connection.execute(text(f"UPDATE outgoing_email SET {column} = '{never}', state = '{state}'"))
    assert outbox.store.has_doubts(now=NOW, dedupes=True)
    assert outbox.store.park_lost(now=NOW, dedupes=True) == [1]
    assert outbox.row().state is State.UNKNOWN
