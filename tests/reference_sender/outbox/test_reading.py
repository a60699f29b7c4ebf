"""Reading, as far as only SQL can ask; what it promises is in the contract."""

from __future__ import annotations

from reference_sender.outbox.store import Store
from tests.reference_sender.outbox.benches import SqlBench


def test_a_key_is_found_with_its_blanks(outbox: SqlBench, store: Store) -> None:
    """MySQL compares texts without the blanks at their end."""
    for key in ("order-1", "order-1 "):
        outbox.put(key)
    assert [docket.key for docket in store.find(key="order-1 ")] == ["order-1 "]
