"""Many rows in one statement: the same on each database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import event, select

from reference_sender.life import State
from reference_sender.outbox.bulk import insert_all, update_all
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.transactions import record_of
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW

#: What JSON, SQL and arrays have words of their own for.
STRANGE = 'say "no" \\ {1,2} \n\t é 日本 𝄞 NULL null :told %s %(told)s'


def test_values_come_back_as_they_were(outbox: SqlBench) -> None:
    ids = [outbox.put(f"order-{number}")[0] for number in range(3)]
    records = [
        record_of(
            row_id,
            7,
            ended_at=NOW + timedelta(microseconds=row_id),
            decision=State.ACCEPTED,
            reason=STRANGE,
            started_at=None if row_id == ids[0] else NOW,
            late=row_id == ids[1],
        )
        for row_id in ids
    ]
    changes: list[dict[str, Any]] = [
        {
            "id": row_id,
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
        insert_all(connection, email_attempt, records)
        update_all(connection, outgoing_email, "id", changes)
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
        with outbox.store.engine.begin() as connection:
            update_all(connection, outgoing_email, "id", [{"id": i, "tries": i} for i in ids])
    finally:
        event.remove(outbox.store.engine, "before_cursor_execute", _seen)
    assert seen == [connection.dialect.name != "postgresql"]
