"""Many rows in one statement: the same on each database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, select

from reference_sender.life import State
from reference_sender.outbox.bulk import Held, NotAllHeld, change_held, insert_all
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.transactions import record_of
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW

#: What JSON, SQL and arrays have words of their own for.
STRANGE = 'say "no" \\ {1,2} \n\t é 日本 𝄞 NULL null :told %s %(told)s'


PENDING = Held(table=outgoing_email, key=("id", "token"), also="state = 'pending'")


def record(row_id: int, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"ended_at": NOW, "decision": State.ACCEPTED, "reason": "accepted"} | more
    return record_of(row_id, 7, **given)


def change(outbox: SqlBench, rows: Sequence[dict[str, Any]], held: Held = PENDING) -> None:
    with outbox.store.engine.begin() as connection:
        change_held(connection, held, rows, email_attempt, [record(row["id"]) for row in rows])


def test_values_come_back_as_they_were(outbox: SqlBench) -> None:
    ids = [outbox.put(f"order-{number}")[0] for number in range(3)]
    records = [
        record(
            row_id,
            ended_at=NOW + timedelta(microseconds=row_id),
            reason=STRANGE,
            started_at=None if row_id == ids[0] else NOW,
            late=row_id == ids[1],
        )
        for row_id in ids
    ]
    changes: list[dict[str, Any]] = [
        {
            "id": row_id,
            "token": 0,
            "state": State.UNKNOWN,
            "if_not_sent": None if row_id == ids[0] else State.DEAD,
            "in_doubt": row_id == ids[2],
            "last_error": STRANGE,
            "doubted_at": NOW + timedelta(microseconds=1),
            "last_code": None,
            "attempts": row_id + 3,
        }
        for row_id in ids[:2]
    ]
    with outbox.store.engine.begin() as connection:
        insert_all(connection, email_attempt, records[2:])
        change_held(connection, PENDING, changes, email_attempt, records[:2])
        told = [
            {name: value for name, value in row._mapping.items() if name in records[0]}
            for row in connection.execute(select(email_attempt).order_by(email_attempt.c.email_id))
        ]
    assert told == records
    for change in changes:
        row = outbox.row(change["id"])._mapping
        assert {name: row[name] for name in change} == change
    assert outbox.row(ids[2]).state is State.PENDING


def test_on_postgresql_it_is_one_round_trip(outbox: SqlBench) -> None:
    ids = [outbox.put(f"order-{number}")[0] for number in range(3)]
    seen: list[bool] = []

    @event.listens_for(outbox.store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, _s: str, _p: Any, _x: Any, many: bool) -> None:
        seen.append(many)

    try:
        change(outbox, [{"id": i, "token": 0, "tries": i} for i in ids])
    finally:
        event.remove(outbox.store.engine, "before_cursor_execute", _seen)
    assert [outbox.row(i).tries for i in ids] == ids
    assert seen == ([False] if outbox.store.engine.dialect.name == "postgresql" else [True, True])


@pytest.mark.parametrize("wrong", [{"token": 1}, {"id": 999}], ids=["another token", "no such row"])
def test_what_is_not_held_is_not_changed_and_not_on_record(outbox: SqlBench, wrong: dict[str, int]) -> None:
    rows = [{"id": outbox.put(f"order-{number}")[0], "token": 0, "tries": 5} for number in range(2)]
    rows[0] |= wrong
    with pytest.raises(NotAllHeld):
        change(outbox, rows)
    assert [outbox.row(number).tries for number in (1, 2)] == [0, 0]
    assert outbox.attempts() == []


def test_what_is_in_another_state_is_not_held(outbox: SqlBench) -> None:
    rows = [{"id": outbox.put()[0], "token": 0, "tries": 5}]
    with pytest.raises(NotAllHeld):
        change(outbox, rows, replace(PENDING, also="state = 'sending'"))
    assert outbox.row().tries == 0
