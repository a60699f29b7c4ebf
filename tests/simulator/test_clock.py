"""Tests of the simulator's clock: UTC, monotonic, and seeds that can be told."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from simulator.clock import Clock, SystemClock, fresh_seed


def test_the_wall_clock_is_in_utc() -> None:
    """What is written into a ledger means the same everywhere."""
    assert SystemClock().now().utcoffset() == timedelta(0)


def test_monotonic_time_never_steps_back() -> None:
    """Differences of it are what waiting is measured in."""
    clock: Clock = SystemClock()
    readings = [clock.monotonic() for _ in range(100)]

    assert readings == sorted(readings)


def test_sleeping_takes_at_least_its_time() -> None:
    """A wait is never shorter than it was asked for."""
    clock = SystemClock()

    async def wait() -> float:
        begun = clock.monotonic()
        await clock.sleep(0.01)
        return clock.monotonic() - begun

    assert asyncio.run(wait()) >= 0.0099


def test_a_fresh_seed_is_a_small_number() -> None:
    """It fits on a line and into every generator."""
    assert all(0 <= fresh_seed() < 2**31 for _ in range(100))
    assert len({fresh_seed() for _ in range(20)}) > 1
