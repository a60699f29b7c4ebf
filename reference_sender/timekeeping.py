"""One time for all: the clock of the database, as far as this process can tell it.

Leases, retries and expiries are compared between hosts, and hosts disagree. So this process asks the database now and
then what time it is, and in between lets a clock go on that never jumps; its own wall clock, wrong or set right in the
middle of a lease, does not matter any more. How far it is off is said in the log.
Must not hold: SQL, decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from reference_sender.clock import Alarm, Clock
from reference_sender.log import Log, quiet

#: A quartz drifts by some ten microseconds a second: less than a millisecond from one look to the next.
_LOOK_S = 60.0
#: Differences below it are nobody's trouble.
_TOLERATED_S = 1.0
#: The moment of the answer is known no better than this; a slower answer is asked for again with the next claim.
_SLOW_S = 0.5


class SharedClock:
    """The time of the database; until it was asked for the first time, that of this host."""

    def __init__(self, own: Clock, ask: Callable[[], datetime], *, log: Log = quiet) -> None:
        self._own = own
        self._ask = ask
        self._log = log
        self._told: tuple[datetime, float] | None = None
        """What the database said, and when that was on our clock that never jumps."""
        self._look_at_s = 0.0
        self._said_s = 0.0
        """The difference that was said last."""

    def now(self) -> datetime:
        if self._told is None:
            return self._own.now()
        told, at_s = self._told
        return told + timedelta(seconds=self._own.monotonic() - at_s)

    def monotonic(self) -> float:
        return self._own.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._own.sleep(seconds)

    def alarm(self, seconds: float, call: Callable[[], object]) -> Alarm:
        return self._own.alarm(seconds, call)

    async def check(self) -> None:
        """Ask the database, if it is time to. What it raises goes to the caller, who cannot work then anyway."""
        if self._told is not None and self._own.monotonic() < self._look_at_s:
            return
        told, began_s, ended_s = await asyncio.to_thread(self._asked)
        took_s = ended_s - began_s
        # Sometime between question and answer: in the middle we are wrong by half of it at most.
        self._told = told, began_s + took_s / 2
        self._look_at_s = ended_s + (_LOOK_S if took_s < _SLOW_S else 0.0)
        self._say_skew()

    def _asked(self) -> tuple[datetime, float, float]:
        """What the database said, and when it was asked and had answered.

        Measured where it is asked: a busy loop hears of it later, and our time would be behind by half of that. What was
        committed just now would not be due yet, and whoever is woken for it would find nothing.
        """
        began_s = self._own.monotonic()
        told = self._ask()
        return told, began_s, self._own.monotonic()

    def _say_skew(self) -> None:
        skew_s = (self._own.now() - self.now()).total_seconds()
        if abs(skew_s - self._said_s) >= _TOLERATED_S:
            self._said_s = skew_s
            self._log("clock_skew", seconds=round(skew_s, 3))
