"""The simulator's only clock and only dice: everything else is handed what it needs of them.

Nothing else in `simulator` may read the time, sleep or roll a die; a test of the house sees to it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what people read and keys expire by, monotonic time for waiting."""

    def now(self) -> datetime:
        """Return the wall time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never step back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    # Itself, not a method around it: sessions ask with each command.
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def fresh_seed() -> int:
    """Return a seed for a run that was given none; whoever uses it prints it."""
    return secrets.randbelow(2**31)
