"""The clock room: UTC, never backwards, and dice that repeat themselves when seeded."""

from __future__ import annotations

import asyncio
from datetime import UTC

from reference_sender.clock import SystemClock, random_source, unforeseeable


def test_the_wall_clock_is_aware_and_in_utc() -> None:
    assert UTC is SystemClock().now().tzinfo


def test_monotonic_time_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()


def test_sleeping_takes_at_least_that_long() -> None:
    clock = SystemClock()
    began = clock.monotonic()
    asyncio.run(clock.sleep(0.01))
    assert clock.monotonic() - began >= 0.009


def test_the_same_seed_gives_the_same_dice() -> None:
    assert random_source(7).random() == random_source(7).random()


def test_without_a_seed_two_sources_differ() -> None:
    assert random_source().random() != random_source().random()


def test_chance_for_ciphers_is_never_the_same() -> None:
    assert len({unforeseeable(12) for _ in range(100)}) == 100
    assert len(unforeseeable(12)) == 12
