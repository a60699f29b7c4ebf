"""The only place of the sender that reads a clock or makes dice.

Everything else is handed a `Clock` and a `random.Random`, so that a test (or a simulated world) owns both.
Must not hold: any decision about when something is due.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for what is measured, and the one way to wait."""

    def now(self) -> datetime:
        """The wall clock, always in UTC and aware."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def random_source(seed: int | None = None) -> random.Random:
    """The one source of chance. With a seed it repeats itself; without one the system seeds it."""
    return random.Random(seed)


def unforeseeable(octets: int) -> bytes:
    """Chance for ciphers: from the system, never from a seed."""
    return os.urandom(octets)
