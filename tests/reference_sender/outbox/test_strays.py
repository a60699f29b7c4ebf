"""Rows that nobody takes, on every database: the contract."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from reference_sender.life import State
from reference_sender.outbox.strays import LOOK_S
from reference_sender.outbox.waiting import HOLD_S
from reference_sender.policy.decision import Decision
from reference_sender.policy.gate import Gate, GateRules
from reference_sender.policy.routes import Mine
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


#: What somebody may write where a time belongs, before or behind all times, and how it is told: SQLite keeps it.
NO_TIMES = {
    "'tomorrow'": "'tomorrow'",
    "'3 days'": "'3 days'",
    "'2999-13-41 12:00:00.000000'": "'2999-13-41 12:00:00.000000'",
    "'2999-11-29 noon'": "'2999-11-29 noon'",
    "'2999-11-29'": "'2999-11-29'",
    "''": "''",
    "x'ff'": "X'FF'",
    "x''": "X''",
    "5": "5",
    "-1.5": "-1.5",
    "99999999999999999999": "1.0e+20",
}


@pytest.mark.parametrize("value", NO_TIMES)
@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ("state = 'unknown', doubted_at = queued_at", "next_attempt_at"),
        ("state = 'pending'", "next_attempt_at"),
        ("state = 'pending', depends_on = 'order-9', next_attempt_at = NULL", "hold_until"),
        ("state = 'sending'", "lease_until"),
    ],
    ids=["unknown", "pending", "waiting", "sending"],
)
def test_one_whose_time_is_none_is_parked_with_what_stands_there_and_the_others_flow(
    loose: SqlBench, changes: str, column: str, value: str
) -> None:
    with loose.store.engine.begin() as connection:
        connection.execute(
            text(f"UPDATE outgoing_email SET {changes}, {column} = {value} WHERE dedupe_key = 'order-1'")
        )
    assert loose.store.has_doubts(now=NOW, dedupes=True)
    assert loose.store.park_lost(now=NOW, dedupes=True) == [2]
    row = loose.row(2)
    assert (row.state, row.if_not_sent, row.token) == (State.UNKNOWN, State.DEAD, 1)
    assert (row.next_attempt_at, row.hold_until, row.lease_until) == (NOW, None, None)
    assert row.last_error == (
        f"the column {column} cannot be read (it is {NO_TIMES[value]} and should be a time like "
        "'2026-11-29 12:00:00.000000'); the row was edited by hand"
    )
    assert [(each.email_id, each.reason) for each in loose.attempts()] == [(2, row.last_error)]
    assert [each.id for each in loose.store.doubtful(now=NOW, limit=9)] == [2]
    assert loose.store.park_lost(now=NOW, dedupes=True) == []
    assert [parcel.key for parcel in loose.claim()] == ["order-0", "order-2"]


#: What a claim goes by, or reads.
DECIDING = (
    "priority",
    "expires_at",
    "attachments",
    "depends_on",
    "ordering_key",
    "slot",
    "campaign",
    "queued_at",
    "attempts",
    "tries",
    "next_attempt_at",
    "hold_until",
    "lease_until",
    "token",
    "in_doubt",
    "losses",
    "doubted_at",
    "may_repeat",
    "if_not_sent",
    "provider",
    "mail_class",
    "first_attempt_at",
)


@pytest.mark.parametrize("gated", [True, False], ids=["a gate", "no gate"])
@pytest.mark.parametrize("waits", [{}, {"depends_on": "order-9"}], ids=["due", "waiting"])
@pytest.mark.parametrize("column", DECIDING)
def test_nothing_that_stands_anywhere_is_passed_over_for_ever(
    loose: SqlBench, column: str, waits: dict[str, Any], gated: bool
) -> None:
    """By claims and looks together, until whatever waits has waited long enough."""
    ids = {value: loose.put(f"edited-{value}", **waits)[0] for value in NO_TIMES}
    for value, row_id in ids.items():
        with loose.store.engine.begin() as connection:
            connection.execute(text(f"UPDATE outgoing_email SET {column} = {value} WHERE id = {row_id}"))
    mine = Mine(provider="main", providers=("main",))
    gate = Gate(GateRules()) if gated else None
    sent: set[str] = set()
    for at_s in (0.0, 1.0, HOLD_S + 1, HOLD_S + 2, HOLD_S + 2 + LOOK_S, HOLD_S + 3 + LOOK_S):
        now = NOW + timedelta(seconds=at_s)
        # As often as workers would: what goes alone is taken one by one.
        while parcels := loose.store.claim(now=now, limit=30, lease_s=60.0, dedupes=True, gate=gate):
            for parcel in parcels:
                assert loose.store.settle(parcel, Decision(state=State.ACCEPTED, reason="250"), now=now)
                sent.add(parcel.key)
        loose.store.park_lost(now=now, dedupes=True, mine=mine)
        loose.store.doubtful(now=now, limit=30, mine=mine)
        if at_s == 1.0:
            assert {f"order-{number}" for number in range(3)} <= sent
    left = {value: loose.row(row_id) for value, row_id in ids.items()}
    assert {value for value, row in left.items() if row.state in (State.PENDING, State.SENDING)} == set()
    told = [row.last_error for value, row in left.items() if f"edited-{value}" not in sent]
    assert [each for each in told if "edited by hand" not in each or f" {column} " not in each] == []


def test_a_doubt_that_waits_for_a_person_or_for_its_time_is_no_stray(outbox: SqlBench) -> None:
    for number in range(2):
        outbox.put(f"order-{number}")
    outbox.edit(1, state=State.UNKNOWN, next_attempt_at=None)
    outbox.edit(2, state=State.UNKNOWN, next_attempt_at=NOW + timedelta(days=31))
    assert not outbox.store.has_doubts(now=NOW, dedupes=True)
    assert outbox.store.park_lost(now=NOW, dedupes=True) == []
