"""The couriers of a service: who has one, and what all of them have carried out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator

from simulator.clock import Clock
from simulator.provider.deliveries import OVER, State
from simulator.provider.provider import Provider, Setup
from simulator.servers.alarms import Alarms
from simulator.servers.courier import Channel, Courier
from simulator.store.committer import Committer


class Couriers:
    """The couriers of a service. `moved` is called whenever one has done something."""

    def __init__(
        self,
        provider: Provider,
        committer: Committer,
        clock: Clock,
        alarms: Alarms,
        moved: Callable[[], None],
    ) -> None:
        self.provider = provider
        self.committer = committer
        self.clock = clock
        self.alarms = alarms
        self.moved = moved
        self.counts: Counter[tuple[str, ...]] = Counter()
        """Deliveries that are over, by channel and state."""
        self.attempts: Counter[str] = Counter()
        """Attempts that are over, by channel."""
        self.begun = asyncio.Event()
        self._channels: list[Channel] = []
        self._couriers: dict[tuple[str, str], Courier] = {}
        self._idle: dict[str, Setup] = {}
        """The accounts of which nobody is to be told anything, and the setup that says so."""
        self._closing: set[asyncio.Task[None]] = set()

    def open(self, *channels: Channel) -> None:
        """Give the accounts that have something to tell their couriers: what happens from here on is told."""
        self._channels += channels
        for name in list(self.provider.accounts):
            self.refresh(name)

    def begin(self) -> None:
        """Let the couriers go. Call it when everything is up: whoever is told something may ask us at once."""
        self.begun.set()

    def mind(self) -> None:
        """Mail was taken and is about to be kept: with it, who has to tell of it, if that is somebody new."""
        for name in tuple(self.provider.stirring):
            account = self.provider.accounts.get(name)
            if account is None or self._idle.get(name) is not account.setup:
                if self._has(name):
                    continue
                self.refresh(name, from_the_start=True)
                if self._has(name):
                    continue
            self.provider.calm(name)  # Nobody is to be told: nobody need look again.

    def stir(self) -> None:
        """Mail was taken somewhere: whoever carries its events may have something to do."""
        if self.provider.stirring:
            for name in self.provider.stirred():
                self.refresh(name, from_the_start=True)

    def _has(self, name: str) -> bool:
        return any(known == name for known, _ in self._couriers)

    def refresh(self, name: str, *, from_the_start: bool = False) -> None:
        """Something about this account changed: where its events go, or what happened.

        `from_the_start`: where they go did not, so that a new account's first mail is told of, too.
        """
        account = self.provider.accounts.get(name)
        for channel in self._channels:
            courier = self._couriers.get((name, channel.name))
            if courier is not None and courier.account is not account:
                self._let_go(courier)
                courier = None
            wanted = account is not None and channel.terms(account) is not None
            if courier is None and wanted:
                assert account is not None
                courier = self._couriers[name, channel.name] = Courier(
                    account, channel, self, from_the_start=from_the_start
                )
            elif courier is not None and not wanted:
                courier.end("nobody is to be told any more")
                self._let_go(courier)
            if courier is not None:
                courier.wake()
        if account is None or self._has(name):
            self._idle.pop(name, None)
        else:
            self._idle[name] = account.setup

    def of(self, name: str, channel: str) -> Courier | None:
        """Return the courier of an account, if it has one."""
        return self._couriers.get((name, channel))

    def all(self) -> Iterator[Courier]:
        yield from self._couriers.values()

    async def close(self) -> None:
        """Stop all of them; there will be no others."""
        self._channels.clear()
        for courier in list(self._couriers.values()):
            self._let_go(courier)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def count(self, channel: str, state: State) -> None:
        """A delivery has come into this state."""
        if state in OVER:
            self.counts[channel, state.value] += 1

    def waiting(self) -> Counter[str]:
        """Return how many deliveries are not over, by channel."""
        found: Counter[str] = Counter()
        for courier in self.all():
            found[courier.channel.name] += courier.deliveries.waiting
        return found

    def _let_go(self, courier: Courier) -> None:
        self._couriers.pop((courier.account.name, courier.channel.name), None)
        closing = asyncio.get_running_loop().create_task(courier.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
