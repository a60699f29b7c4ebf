"""The store without a file keeps bodies as long as its process lives."""

from __future__ import annotations

from simulator.provider.ledger import Wiped
from simulator.store.memory import MemoryStore
from tests.simulator.store.test_sqlite import booked, tried


def test_bodies_can_be_fetched_until_they_are_wiped() -> None:
    """A reset forgets the bodies of one account only."""
    store = MemoryStore()
    store.append([booked(1), booked(1, "shop"), tried()])

    assert store.raw("msg_default_1") == booked().raw
    store.append([Wiped(account="default"), booked(2)])
    assert store.raw("msg_default_1") is None
    assert store.raw("msg_default_2") == booked().raw
    assert store.raw("msg_shop_1") == booked().raw


def test_nothing_is_there_from_before() -> None:
    """And after `close` nothing is left."""
    store = MemoryStore()
    store.append([booked()])

    assert list(store.load()) == []
    store.close()
    assert store.raw("msg_default_1") is None
