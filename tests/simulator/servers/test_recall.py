"""After a start the keys of former mails are known, and nobody asks the store for a new one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from simulator.provider.acceptance import Acceptance
from simulator.provider.provider import Provider, Setup
from simulator.servers import recall
from simulator.store import StoreError
from simulator.store.memory import MemoryStore
from tests.simulator.store.records import booked

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Counting(MemoryStore):
    """Counts who asks for a key."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.is_broken = False

    def with_key(self, account: str, key: str) -> list[Acceptance]:
        self.asked.append(key)
        return super().with_key(account, key)

    def keys(self, account: str, after: str = "", limit: int = 100) -> list[str]:
        if self.is_broken:
            raise StoreError("the ledger cannot be read")
        return super().keys(account, after, limit)


@pytest.fixture
def store() -> Counting:
    store = Counting()
    store.append([booked(number, key=f"order-{number:02}") for number in range(1, 21)])
    return store


@pytest.fixture
def provider(store: Counting) -> Provider:
    """One that has begun anew, with the two newest mails in mind."""
    provider = Provider(seed=7, setup=Setup(), now=NOW, past=store)
    provider.restore([booked(number, key=f"order-{number:02}") for number in (19, 20)], NOW)
    return provider


def latest(provider: Provider, key: str) -> int | None:
    found = provider.accounts["default"].ledger.latest_with_key(key)
    return None if found is None else found.number


def test_a_new_key_is_not_looked_up(
    store: Counting, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "AT_ONCE", 7)
    assert latest(provider, "new") is None
    assert store.asked == ["new"]

    asyncio.run(recall.recall_keys(provider, store, lambda: False))

    assert latest(provider, "newer") is None
    assert store.asked == ["new"]
    assert [latest(provider, f"order-{number:02}") for number in range(1, 21)] == list(range(1, 21))


@pytest.mark.parametrize("trouble", ["over", "broken"])
def test_half_of_the_keys_are_none(store: Counting, provider: Provider, trouble: str) -> None:
    """Where not all of them can be read, each is looked up as before."""
    store.is_broken = trouble == "broken"
    asyncio.run(recall.recall_keys(provider, store, lambda: trouble == "over"))

    assert latest(provider, "new") is None
    assert latest(provider, "order-01") == 1
    assert store.asked == ["new", "order-01"]
