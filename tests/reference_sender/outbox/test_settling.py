"""Settling, as far as only SQL can ask; what it promises is in the contract."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event

from reference_sender.outbox.store import Store
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.contract import ACCEPTED
from tests.reference_sender.samples import NOW


def test_a_settled_attempt_costs_one_update_and_one_insert(outbox: SqlBench, store: Store) -> None:
    outbox.put()
    (parcel,) = outbox.claim()
    statements: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement.split()[0])

    try:
        assert store.settle(parcel, ACCEPTED, now=NOW)
    finally:
        event.remove(store.engine, "before_cursor_execute", _seen)
    assert statements == ["UPDATE", "INSERT"]
