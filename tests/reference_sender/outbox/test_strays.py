"""Rows that nobody takes, on every database: the contract."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text

from reference_sender.life import State
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.strays_contract import StraysContract
from tests.reference_sender.samples import NOW


class TestStraysOnADatabase(StraysContract):
    """The contract."""


@pytest.mark.parametrize(
    ("column", "state"),
    [("lease_until", "sending"), ("next_attempt_at", "pending"), ("next_attempt_at", "unknown")],
)
def test_a_time_that_is_none_is_one_that_never_comes(outbox: SqlBench, column: str, state: str) -> None:
    """What each database lets in: a lease that is over tomorrow, for ever."""
    value = {"sqlite": "tomorrow", "postgresql": "infinity", "mysql": "9999-12-31"}
    outbox.put()
    with outbox.store.engine.begin() as connection:
        never = value[connection.dialect.name]
        connection.execute(text(f"UPDATE outgoing_email SET {column} = '{never}', state = '{state}'"))
    assert outbox.store.has_doubts(now=NOW, dedupes=True)
    assert outbox.store.park_lost(now=NOW, dedupes=True) == [1]
    assert outbox.row().state is State.UNKNOWN


@pytest.mark.parametrize(
    "value",
    ["'tomorrow'", "'3 days'", "'2999-13-41 12:00:00.000000'", "'2999-11-29 noon'", "''", "x'ff'", "5"],
)
def test_a_doubt_whose_next_look_is_no_time_is_looked_at_and_so_are_the_others(
    outbox: SqlBench, value: str
) -> None:
    """Whatever is written there, before or behind all times: SQLite keeps it."""
    if outbox.store.engine.dialect.name != "sqlite":
        pytest.skip("servers know what a time is")
    for number in range(3):
        outbox.put(f"order-{number}")
    with outbox.store.engine.begin() as connection:
        connection.execute(text("UPDATE outgoing_email SET state = 'unknown', doubted_at = queued_at"))
        connection.execute(text(f"UPDATE outgoing_email SET next_attempt_at = {value} WHERE id = 2"))
    assert outbox.store.has_doubts(now=NOW, dedupes=True)
    assert outbox.store.park_lost(now=NOW, dedupes=True) == [2]
    row = outbox.row(2)
    assert (row.state, row.if_not_sent, row.token) == (State.UNKNOWN, State.DEAD, 1)
    assert row.last_error.startswith("it was `unknown` without a next look that comes")
    assert [each.id for each in outbox.store.doubtful(now=NOW, limit=9)] == [1, 2, 3]
    assert outbox.store.park_lost(now=NOW, dedupes=True) == []


def test_a_doubt_that_waits_for_a_person_or_for_its_time_is_no_stray(outbox: SqlBench) -> None:
    for number in range(2):
        outbox.put(f"order-{number}")
    outbox.edit(1, state=State.UNKNOWN, next_attempt_at=None)
    outbox.edit(2, state=State.UNKNOWN, next_attempt_at=NOW + timedelta(days=31))
    assert not outbox.store.has_doubts(now=NOW, dedupes=True)
    assert outbox.store.park_lost(now=NOW, dedupes=True) == []
