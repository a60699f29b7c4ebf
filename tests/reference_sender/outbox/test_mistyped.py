"""Values of a wrong kind, where the database lets them in: their rows are parked, and the others flow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from reference_sender.life import State
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.sealed import SealedBytes
from reference_sender.policy.bucket import Rate
from reference_sender.policy.decision import Decision
from reference_sender.policy.gate import Gate, GateRules
from reference_sender.policy.suspects import Suspects
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW

GATES: dict[str, Any] = {
    "no gate": lambda: None,
    "a gate": lambda: Gate(GateRules()),
    "domains": lambda: Gate(GateRules(domains={"*": 5})),
    "a rate": lambda: Gate(GateRules(rates=(("main", Rate(per_s=1.0, burst=20, reserve=5.0)),))),
}


def edit(outbox: SqlBench, changes: str) -> None:
    with outbox.store.engine.begin() as connection:
        connection.execute(text(f"UPDATE outgoing_email SET {changes} WHERE dedupe_key = 'order-1'"))


def claim(outbox: SqlBench, gate: Gate | None, at_s: float = 0.0, bulk: int = 9) -> list[str]:
    now = NOW + timedelta(seconds=at_s)
    # What is lost again and again is left lying: it would be all that a claim takes.
    told = Suspects(may_take=False, first=False)
    found = outbox.store.claim(
        now=now, limit=9, lease_s=60, dedupes=True, gate=gate, bulk=bulk, suspects=told
    )
    return [parcel.key for parcel in found]


def test_servers_let_none_in(outbox: SqlBench) -> None:
    if outbox.store.engine.dialect.name == "sqlite":
        pytest.skip("SQLite lets all in")
    outbox.put("order-1")
    with pytest.raises(DBAPIError):
        edit(outbox, "priority = 'high'")


@pytest.mark.parametrize(
    ("gate", "bulk"), [("no gate", 9), ("a gate", 9), ("a gate", 3), ("domains", 9), ("a rate", 3)]
)
@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("priority", "'high'", "it is 'high' and should be a number"),
        ("priority", "x'ff'", "it is X'FF' and should be a number"),
        ("raw", "'To: ann@example.com'", "it is 'To: ann@example.com' and should be octets"),
        ("queued_at", "5", "it is 5 and should be a time"),
        ("hold_until", "5", "it is 5 and should be a time"),
    ],
)
def test_one_with_a_value_of_another_kind_is_parked_and_the_others_flow(
    loose: SqlBench, gate: str, bulk: int, column: str, value: str, shown: str
) -> None:
    edit(loose, f"{column} = {value}")
    assert claim(loose, GATES[gate](), bulk=bulk) == ["order-0", "order-2"]
    row = loose.row(2)
    assert (row.state, row.next_attempt_at, row.lease_until) == (State.DEAD, None, None)
    assert row.last_error == f"the column {column} cannot be read ({shown}); the row was edited by hand"
    assert [each.reason for each in loose.attempts()] == [row.last_error]
    # Nobody stumbles over it any more, and a person finds it.
    assert claim(loose, GATES[gate](), 61) != []
    assert [docket.key for docket in loose.store.find(states=[State.DEAD])] == ["order-1"]


#: The key names the row here, and states have a check of their own.
COLUMNS = [each for each in outgoing_email.columns if each.name not in ("id", "dedupe_key", "state")]


@pytest.mark.parametrize("gate", ["no gate", "a gate"])
@pytest.mark.parametrize("value", ["'x'", "x'ff'", "5"])
def test_whatever_stands_wherever_the_others_flow(loose: SqlBench, value: str, gate: str) -> None:
    """As with any other row: one that can be sent is sent, one that cannot is parked or waits for a person."""
    for column in COLUMNS:
        if isinstance(column.type, SealedBytes) and value == "x'ff'":
            continue  # that is what belongs there
        with loose.store.engine.begin() as connection:
            connection.execute(outgoing_email.delete())
        for number in range(3):
            loose.put(f"order-{number}")
        edit(loose, f"{column.name} = {value}")
        for at_s in (0.0, 61.0):
            taken = claim(loose, GATES[gate](), at_s)
            assert {"order-0", "order-2"} <= set(taken), f"{column.name} = {value} at {at_s}"


def test_one_that_may_have_been_sent_is_unknown_and_nobody_can_write_to_it(loose: SqlBench) -> None:
    (held, *_) = loose.claim(limit=9)
    edit(loose, "priority = 'high'")
    assert claim(loose, Gate(GateRules())) == [], "whoever holds it may be sending it"
    assert loose.row(2).state is State.SENDING
    assert claim(loose, Gate(GateRules()), 61) == ["order-0", "order-2"]
    row = loose.row(2)
    assert (row.state, row.if_not_sent, row.priority) == (State.UNKNOWN, State.DEAD, 0)
    assert row.doubted_at == NOW + timedelta(seconds=61)
    again = Decision(state=State.PENDING, reason="later", next_attempt_at=NOW)
    assert held.token == 1
    (parked,) = loose.store.find(key="order-1")
    assert loose.store.requeue(parked, again, now=NOW)


def test_a_fence_that_is_none_is_put_above_every_claim_that_there_was(loose: SqlBench) -> None:
    loose.claim(limit=9)
    edit(loose, "token = 'x', priority = 'high'")
    claim(loose, None, 61)
    assert loose.row(2).token >= 2
