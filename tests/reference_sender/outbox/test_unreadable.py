"""Rows that somebody edited by hand: parked with one sentence, and the others flow."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from reference_sender.life import State
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.gate import Gate, GateRules
from reference_sender.policy.routes import Mine
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW


def edit(outbox: SqlBench, changes: str) -> None:
    with outbox.store.engine.begin() as connection:
        connection.execute(text(f"UPDATE outgoing_email SET {changes} WHERE dedupe_key = 'order-1'"))


@pytest.mark.parametrize(
    ("column", "value", "of"),
    [
        ("if_not_sent", "'nonsense'", ""),
        ("expires_at", "'tomorrow'", "sqlite"),
        ("queued_at", "'29.11.2026'", "sqlite"),
        ("hold_until", "'3 days'", "sqlite"),
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


@pytest.mark.parametrize("value", ["x", "[[1]]", "5"])
def test_one_whose_attachments_are_no_list_is_parked_as_it_is(outbox: SqlBench, value: str) -> None:
    """Or no mail would go any more: every claim would come upon it."""
    for number in range(3):
        outbox.put(f"order-{number}")
    edit(outbox, f"attachments = '{value}'")
    gate = Gate(GateRules())
    found = outbox.store.claim(now=NOW, limit=9, lease_s=60, dedupes=True, gate=gate)
    assert [parcel.key for parcel in found] == ["order-0", "order-2"]
    row = outbox.row(2)
    assert (row.state, row.attachments) == (State.DEAD, value), (
        "whoever requeues it does not send half a mail"
    )
    assert "the column attachments cannot be read" in row.last_error


@pytest.mark.parametrize("dedupes", [True, False])
def test_one_that_waited_for_others_keeps_no_other_waiting(outbox: SqlBench, dedupes: bool) -> None:
    """They are let through together, and what that claim found was rolled back with it."""
    outbox.put("order-1", depends_on="order-0")
    outbox.put("order-2", depends_on="order-0")
    outbox.put("order-0")
    edit(outbox, "if_not_sent = 'nonsense'")
    (first,) = outbox.claim(dedupes=dedupes)
    outbox.store.settle(first, Decision(state=State.ACCEPTED, reason="250"), now=NOW)
    assert [parcel.key for parcel in outbox.claim(1, dedupes=dedupes)] == ["order-2"]
    row = outbox.row(1)
    assert (row.state, row.next_attempt_at) == (State.DEAD, None)
    assert "the column if_not_sent cannot be read" in row.last_error


def test_one_that_may_have_been_sent_is_unknown(outbox: SqlBench) -> None:
    for number in range(2):
        outbox.put(f"order-{number}")
    outbox.claim()
    edit(outbox, "if_not_sent = 'nonsense'")
    assert [parcel.key for parcel in outbox.claim(61)] == ["order-0"]
    row = outbox.row(2)
    assert (row.state, row.if_not_sent) == (State.UNKNOWN, State.DEAD)
    assert row.doubted_at is not None


def test_one_in_doubt_that_cannot_be_read_keeps_no_other_in_doubt(outbox: SqlBench) -> None:
    for number in range(3):
        outbox.put(f"order-{number}")
    for parcel in outbox.claim():
        parked = Decision(
            state=State.UNKNOWN,
            reason="silence",
            next_attempt_at=NOW,
            doubt=Doubt.NEW,
            if_not_sent=State.PENDING,
        )
        assert outbox.store.settle(parcel, parked, now=NOW)
    edit(outbox, "if_not_sent = 'nonsense'")
    mine = Mine(provider="main", providers=("main",))
    for _ in range(2):
        found = outbox.store.doubtful(now=NOW, limit=9, mine=mine)
        assert [docket.key for docket in found] == ["order-0", "order-2"]
    row = outbox.row(2)
    assert (row.state, row.if_not_sent, row.next_attempt_at) == (State.UNKNOWN, State.DEAD, None)
    assert "the column if_not_sent cannot be read" in row.last_error
