"""What the endpoints work with: one running service, as seen from the control API."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

from simulator.clock import Clock
from simulator.metrics import Metrics
from simulator.provider.provider import Account, Provider
from simulator.servers.alarms import Alarms
from simulator.servers.archive import Archive
from simulator.servers.control.moves import Moves
from simulator.servers.control.problems import Refusal
from simulator.servers.couriers import Couriers
from simulator.servers.feed import Feed
from simulator.servers.returns import Returns
from simulator.servers.webhooks import Webhooks
from simulator.servers.wire import Holds
from simulator.store.committer import Committer

#: So many names a sentence lists.
MOST_LISTED = 5


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
    was_reset: Callable[[], None] = lambda: None
    """To be called when an account has been reset: what it held for the whole service is not forgotten."""

    def now(self) -> datetime:
        return self.clock.now()

    def known(self, name: str) -> Account:
        """Return the account of this name. Raises `Refusal` (404) if there is none: nobody makes one by asking."""
        account = self.provider.accounts.get(name)
        if account is None:
            raise Refusal(404, _nobody(name, self.provider.accounts))
        return account

    def named(self, name: str) -> Account:
        """Return the account of this name; it is made if there is none, and is there after a restart, too."""
        if name not in self.provider.accounts:
            self.committer.soon()
        return self.provider.name(name, self.now())

    def again(self, account: Account) -> Account:
        """Return the account of this name as it is now: a reset puts another one in its place."""
        return self.provider.account(account.name, self.now())


def _nobody(name: str, known: Collection[str]) -> str:
    """Say that there is no such account, and which one may have been meant."""
    shown = repr(name if len(name) <= 40 else f"{name[:39]}…")
    if near := get_close_matches(name, known, n=3):
        meant = f"did you mean {' or '.join(map(repr, near))}?"
    else:
        more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
        meant = f"there are {', '.join(map(repr, sorted(known)[:MOST_LISTED]))}{more}"
    return f"there is no account {shown}; {meant} (PUT account makes one, and so does setting it up)"
