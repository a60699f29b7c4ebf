"""Doubtful rows, as far as only SQL can ask; what is promised about them is in the contract."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event

from reference_sender.outbox.store import Store
from tests.reference_sender.samples import NOW


def test_where_nothing_is_lost_parking_is_one_look(store: Store) -> None:
    statements: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    try:
        assert store.park_lost(now=NOW, dedupes=False) == []
    finally:
        event.remove(store.engine, "before_cursor_execute", _seen)
    assert [s.split()[0] for s in statements] == ["SELECT"]
    assert "FOR UPDATE" not in statements[0]
