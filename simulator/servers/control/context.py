"""What the endpoints work with: one running service, as seen from the control API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from simulator.clock import Clock
from simulator.metrics import Metrics
from simulator.provider.provider import Account, Provider
from simulator.servers.alarms import Alarms
from simulator.servers.archive import Archive
from simulator.servers.control.moves import Moves
from simulator.servers.couriers import Couriers
from simulator.servers.feed import Feed
from simulator.servers.returns import Returns
from simulator.servers.webhooks import Webhooks
from simulator.servers.wire import Holds
from simulator.store.committer import Committer


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts of a service that endpoints read and command."""

    provider: Provider
    holds: Holds
    archive: Archive
    committer: Committer
    moves: Moves
    clock: Clock
    alarms: Alarms
    feed: Feed
    couriers: Couriers
    webhooks: Webhooks
    returns: Returns
    metrics: Metrics
    is_serving: Callable[[], bool]
    """Whether every listener is up and the stop has not begun."""

    def now(self) -> datetime:
        return self.clock.now()

    def named(self, name: str) -> Account:
        """Return the account of this name; naming one is what makes it."""
        if name not in self.provider.accounts:
            self.committer.soon()
        return self.provider.name(name, self.now())

    def again(self, account: Account) -> Account:
        """Return the account of this name as it is now: a reset puts another one in its place."""
        return self.provider.account(account.name, self.now())
