"""The time of the database, kept by a process whose own clock is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from reference_sender.timekeeping import SharedClock
from tests.reference_sender.samples import NOW, ManualClock


class Bench:
    """A database and a host whose clocks are apart; asking takes as long as it is told."""

    def __init__(self, *, host_is_ahead_s: float = 0.0, asking_s: float = 0.0) -> None:
        self.own = ManualClock(NOW + timedelta(seconds=host_is_ahead_s))
        self.asking_s = asking_s
        self.asked = 0
        self.said: list[tuple[str, dict[str, object]]] = []
        self.clock = SharedClock(self.own, self.ask, log=self.log)

    def ask(self) -> datetime:
        self.asked += 1
        self.own.advance(self.asking_s / 2)
        told = NOW + timedelta(seconds=self.own.monotonic())
        self.own.advance(self.asking_s / 2)
        return told

    def log(self, event: str, /, **facts: object) -> None:
        self.said.append((event, facts))

    def check(self) -> None:
        asyncio.run(self.clock.check())


@pytest.mark.parametrize("ahead_s", [-600.0, 0.4, 600.0])
def test_a_host_whose_clock_is_wrong_goes_by_the_database(ahead_s: float) -> None:
    bench = Bench(host_is_ahead_s=ahead_s)
    assert bench.clock.now() == NOW + timedelta(seconds=ahead_s)
    bench.check()
    bench.own.advance(7.0)
    assert bench.clock.now() == NOW + timedelta(seconds=7.0)
    assert bench.said == ([("clock_skew", {"seconds": ahead_s})] if abs(ahead_s) >= 1.0 else [])


def test_it_asks_once_a_minute_and_says_a_difference_once() -> None:
    bench = Bench(host_is_ahead_s=30.0)
    for _ in range(10):
        bench.check()
        bench.own.advance(20.0)
    assert bench.asked == 4
    assert len(bench.said) == 1


def test_a_slow_answer_is_in_the_middle_and_asked_for_again() -> None:
    bench = Bench(asking_s=4.0)
    bench.check()
    assert bench.clock.now() == NOW + timedelta(seconds=4.0)
    bench.asking_s = 0.0
    bench.check()
    bench.check()
    assert bench.asked == 2


def test_how_long_a_busy_loop_takes_to_hear_the_answer_is_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our time would be behind by half of that for a minute: what is committed now is not due then, and a wake-up is in vain."""
    bench = Bench()

    async def heard_late(act: Callable[[], Any]) -> Any:
        bench.own.advance(0.2)  # until a thread is free
        told = act()
        bench.own.advance(0.4)  # until the loop comes round
        return told

    monkeypatch.setattr(asyncio, "to_thread", heard_late)
    bench.check()
    assert bench.clock.now() == NOW + timedelta(seconds=0.6)


def test_a_database_that_does_not_answer_is_the_callers_trouble() -> None:
    def away() -> datetime:
        raise ConnectionError("away")

    clock = SharedClock(ManualClock(), away)
    with pytest.raises(ConnectionError):
        asyncio.run(clock.check())
    assert clock.now() == NOW
