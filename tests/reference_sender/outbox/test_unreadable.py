"""Rows that somebody edited by hand: parked with one sentence, and the others flow."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from reference_sender.life import State
from tests.reference_sender.outbox.benches import SqlBench


def edit(outbox: SqlBench, changes: str) -> None:
    with outbox.store.engine.begin() as connection:
        connection.execute(text(f"UPDATE outgoing_email SET {changes} WHERE dedupe_key = 'order-1'"))


@pytest.mark.parametrize(
    ("column", "value", "of"),
    [
        ("if_not_sent", "'nonsense'", ""),
        ("expires_at", "'tomorrow'", "sqlite"),
        ("queued_at", "'29.11.2026'", "sqlite"),
    ],
)
def test_one_that_cannot_be_read_is_parked_and_the_others_flow(
    outbox: SqlBench, column: str, value: str, of: str
) -> None:
    if of not in ("", outbox.store.engine.dialect.name):
        pytest.skip("this database knows what a time is")
    for number in range(3):
        outbox.put(f"order-{number}")
    edit(outbox, f"{column} = {value}")
    assert [parcel.key for parcel in outbox.claim()] == ["order-0", "order-2"]
    row = outbox.row(2)
    assert (row.state, row.next_attempt_at, row.lease_until) == (State.DEAD, None, None)
    assert f"the column {column} cannot be read" in row.last_error
    assert "edited by hand" in row.last_error
    assert [each.reason for each in outbox.attempts()] == [row.last_error]
    # Nobody stumbles over it any more, and a person finds it.
    assert outbox.claim(61) != []
    assert [docket.key for docket in outbox.store.find(states=[State.DEAD])] == ["order-1"]


def test_one_that_may_have_been_sent_is_unknown(outbox: SqlBench) -> None:
    for number in range(2):
        outbox.put(f"order-{number}")
    outbox.claim()
    edit(outbox, "if_not_sent = 'nonsense'")
    assert [parcel.key for parcel in outbox.claim(61)] == ["order-0"]
    row = outbox.row(2)
    assert (row.state, row.if_not_sent) == (State.UNKNOWN, State.DEAD)
    assert row.doubted_at is not None
