"""The one clock of the suite: what time it is, and waiting for facts with a deadline.

Everything else in `scenarios` asks here. A wait looks at a fact again and again until it holds or the
deadline has passed; nothing sleeps in the hope that something has happened meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

Fact = TypeVar("Fact")

#: Seconds between two looks at a fact. Short against every timing we judge, long against the cost of a look.
LOOK_EVERY_S = 0.05


def now() -> datetime:
    """Return the wall clock, in UTC."""
    return datetime.now(UTC)


def monotonic_s() -> float:
    """Return seconds that never run backwards."""
    return time.monotonic()


def wait_s(seconds: float) -> None:
    """Let time pass. Only for pacing (a poll, a backoff); never as a sign that something has happened."""
    time.sleep(max(0.0, seconds))


def wait_until(
    look: Callable[[], Fact | None], *, timeout_s: float, every_s: float = LOOK_EVERY_S
) -> Fact | None:
    """Look until there is something to see, and return it; None if there was nothing within `timeout_s`."""
    deadline = monotonic_s() + timeout_s
    while True:
        seen = look()
        if seen is not None:
            return seen
        left_s = deadline - monotonic_s()
        if left_s <= 0:
            return None
        wait_s(min(every_s, left_s))


def cpu_s() -> float:
    """Return the CPU time this process has used, in seconds: what speed is measured in."""
    return time.process_time()
