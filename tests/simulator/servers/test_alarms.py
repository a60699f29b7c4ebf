"""Who sleeps by an account's clock wakes when time has passed, and also when it was skipped."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from simulator.servers.alarms import Alarms


class HandClock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.at = 0.0
        self._asleep: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            waking = asyncio.get_running_loop().create_future()
            self._asleep.append((self.at + seconds, waking))
            await waking

    async def go(self, seconds: float) -> None:
        self.at += seconds
        for due, waking in self._asleep:
            if due <= self.at and not waking.done():
                waking.set_result(None)
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_time_that_passes_wakes() -> None:
    async def play() -> None:
        clock = HandClock()
        sleeping = asyncio.ensure_future(Alarms(clock).sleep("a", 10))
        await settle()
        await clock.go(9)
        assert not sleeping.done()
        await clock.go(1)
        assert sleeping.done()

    asyncio.run(play())


def test_time_that_is_skipped_wakes_and_what_passed_before_counts() -> None:
    async def play() -> None:
        clock = HandClock()
        alarms = Alarms(clock)
        sleeping = asyncio.ensure_future(alarms.sleep("a", 100))
        await settle()
        await clock.go(30)
        alarms.moved("a", 60)
        await settle()
        assert not sleeping.done()
        await clock.go(9)
        assert not sleeping.done()
        await clock.go(1)
        assert sleeping.done()

    asyncio.run(play())


def test_several_moves_at_once_add_up() -> None:
    async def play() -> None:
        alarms = Alarms(HandClock())
        sleeping = asyncio.ensure_future(alarms.sleep("a", 100))
        await settle()
        for _ in range(4):
            alarms.moved("a", 25)
        await settle()
        assert sleeping.done()

    asyncio.run(play())


def test_the_clock_of_another_account_wakes_nobody() -> None:
    async def play() -> None:
        alarms = Alarms(HandClock())
        sleeping = asyncio.ensure_future(alarms.sleep("a", 10))
        await settle()
        alarms.moved("b", 100)
        await settle()
        assert not sleeping.done()
        sleeping.cancel()
        await asyncio.gather(sleeping, return_exceptions=True)
        alarms.moved("a", 100)  # Nobody sleeps here any more.

    asyncio.run(play())
