"""One running service, as the endpoints see it."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import Mock

from simulator.metrics import Metrics
from simulator.provider.provider import Provider
from simulator.servers.alarms import Alarms
from simulator.servers.archive import Archive
from simulator.servers.control.context import Context
from simulator.servers.control.moves import Moves
from simulator.servers.couriers import Couriers
from simulator.servers.feed import Feed
from simulator.servers.returns import Returns
from simulator.servers.webhooks import Webhooks
from simulator.servers.wire import Holds
from simulator.store.committer import Committer
from simulator.store.memory import MemoryStore

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_an_account_is_looked_up_again_after_a_reset() -> None:
    """A reset puts another one in its place; whoever waited must not look at the forgotten one."""
    provider, store = Provider(now=NOW), MemoryStore()
    committer = Committer(provider.records, store)
    context = Context(
        provider=provider,
        holds=Holds(),
        archive=Archive(provider, store, committer),
        committer=committer,
        moves=Mock(Moves),
        clock=Mock(now=lambda: NOW),
        alarms=Mock(Alarms),
        feed=Feed("life"),
        couriers=Mock(Couriers),
        webhooks=Mock(Webhooks),
        returns=Mock(Returns),
        metrics=Mock(Metrics),
        is_serving=lambda: True,
    )
    before = provider.account("shop", NOW)
    provider.reset("shop", NOW)

    assert context.again(before) is provider.accounts["shop"]
    assert context.again(before) is not before
