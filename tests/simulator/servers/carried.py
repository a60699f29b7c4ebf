"""Couriers without a network: what they carry is written down here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from simulator.clock import SystemClock
from simulator.provider.deliveries import Delivery, Schedule, State, Try, keyed
from simulator.provider.events import Event
from simulator.provider.notices import Notice, notice_of
from simulator.provider.provider import Account, Provider, Record
from simulator.servers.alarms import Alarms
from simulator.servers.courier import Courier, Terms
from simulator.servers.couriers import Couriers
from simulator.store.committer import Committer
from simulator.store.memory import MemoryStore
from tests.simulator.provider.mails import NOW

PATIENCE_S = 10.0


class Post:
    """A channel that writes down what it is handed, and answers what it is told to."""

    name = "post"

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.statuses: list[int] = [200]
        self.on = True
        self.disable_after_s: float | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: Callable[[], None] = lambda: None

    def terms(self, account: Account) -> Terms | None:
        if not self.on:
            return None
        schedule = Schedule(delays_s=(60.0, 60.0))
        return Terms(target="post", schedule=schedule, connections=2, disable_after_s=self.disable_after_s)

    def notices(self, event: Event, account: Account) -> list[Notice]:
        return keyed([notice_of(event)])

    async def send(self, delivery: Delivery, account: Account) -> Try:
        self.sent.append(delivery.notices[0].event.type)
        self.asked()
        await self.gate.wait()
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return Try(at=NOW, took_s=0.0, status=status)


class StuckClock(SystemClock):
    """Real waiting, but the time stands still unless the account's clock is moved."""

    def now(self) -> datetime:
        return NOW


class Scene:
    """A provider with couriers around it."""

    def __init__(self, provider: Provider | None = None) -> None:
        self.provider = provider or Provider(now=NOW)
        self.store = MemoryStore()
        self.written: list[Record] = []
        clock = StuckClock()
        self.alarms = Alarms(clock)
        self.committer = Committer(self._records, self.store)
        self.moves = 0
        self.moved = asyncio.Event()
        self.couriers = Couriers(self.provider, self.committer, clock, self.alarms, self._moved)
        self.post = Post()
        self.post.asked = self._moved

    def _records(self) -> list[Record]:
        records = self.provider.records()
        self.written += records
        return records

    def _moved(self) -> None:
        self.moves += 1
        self.moved.set()
        self.moved = asyncio.Event()

    @property
    def courier(self) -> Courier:
        courier = self.couriers.of("default", "post")
        assert courier is not None
        return courier

    def states(self) -> list[State]:
        return [each.state for each in self.courier.deliveries.all.values()]

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                await self.moved.wait()

    def advance(self, seconds: float) -> None:
        self.provider.advance("default", seconds, NOW)
        self.alarms.moved("default", seconds)
        self.couriers.refresh("default")

    async def close(self) -> None:
        await self.couriers.close()
        await self.committer.close()


def play(story: Callable[[Scene], Awaitable[None]], provider: Provider | None = None) -> Scene:
    async def scenario() -> Scene:
        scene = Scene(provider)
        try:
            await story(scene)
        finally:
            await scene.close()
        return scene

    return asyncio.run(scenario())
