"""The only place of the sender that reads a clock or makes dice.

Everything else is handed a `Clock` and a `random.Random`, so that a test (or a simulated world) owns both.
Must not hold: any decision about when something is due.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Alarm(Protocol):
    """What will go off, unless somebody cancels it."""

    def cancel(self) -> object:
        """Don't go off. One that went off already is left alone."""
        ...


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for what is measured, and the two ways to wait."""

    def now(self) -> datetime:
        """The wall clock, always in UTC and aware."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""
        ...

    def alarm(self, seconds: float, call: Callable[[], object]) -> Alarm:
        """Call in this many seconds, in the running loop: for those who wait for other things as well."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def alarm(self, seconds: float, call: Callable[[], object]) -> Alarm:
        return asyncio.get_running_loop().call_later(seconds, call)


def random_source(seed: int | None = None) -> random.Random:
    """The one source of chance. With a seed it repeats itself; without one the system seeds it."""
    return random.Random(seed)


def unforeseeable(octets: int) -> bytes:
    """Chance for ciphers: from the system, never from a seed."""
    return os.urandom(octets)
