"""The store without a file: everything as long as its process lives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulator.provider.retention import Retention
from simulator.store import Durability, Store
from simulator.store.memory import MemoryStore
from tests.simulator.store.contract import StoreContract
from tests.simulator.store.records import at, booked


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = MemoryStore()
        yield store
        store.close()

    def bounded(self, retention: Retention) -> Store:
        return MemoryStore(now=lambda: at(100), retention=retention)


def test_nothing_is_there_from_before() -> None:
    """And after `close` nothing is left."""
    store = MemoryStore()
    store.append([booked()])

    assert list(store.load()) == []
    store.close()
    assert store.body("default", "msg_default_1") is None
    assert (store.durability, store.is_quick) == (Durability.NOTHING, True)
