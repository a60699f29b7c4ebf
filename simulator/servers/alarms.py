"""Waiting by an account's clock: time that passes counts, and so does time that a test skips.

Whatever a server does later in an account's time (a slow answer, a webhook, a step of a mail's fate) sleeps here,
so that moving the clock by an hour is an hour for all of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from simulator.clock import Clock


@dataclass(eq=False, slots=True)
class _Sleeper:
    waking: asyncio.Future[None] | None = None
    skipped_s: float = 0.0


@dataclass(slots=True)
class Alarms:
    """Whoever sleeps by an account's clock sleeps here; whoever moves a clock says so here."""

    clock: Clock
    _asleep: dict[str, set[_Sleeper]] = field(default_factory=dict)

    async def sleep(self, account: str, seconds: float) -> None:
        """Return when so many seconds have passed on the account's clock."""
        sleeper = _Sleeper()
        asleep = self._asleep.setdefault(account, set())
        asleep.add(sleeper)
        began = self.clock.monotonic()
        left_s = seconds
        try:
            while True:
                sleeper.waking = asyncio.ensure_future(self.clock.sleep(max(0.0, left_s)))
                await asyncio.wait({sleeper.waking})
                if not sleeper.waking.cancelled():
                    return
                left_s = seconds - sleeper.skipped_s - (self.clock.monotonic() - began)
        finally:
            if sleeper.waking is not None:
                sleeper.waking.cancel()
            asleep.discard(sleeper)
            if not asleep:
                self._asleep.pop(account, None)

    def moved(self, account: str, by_s: float) -> None:
        """The account's clock was moved ahead: its sleepers look how long they have still to sleep."""
        for sleeper in self._asleep.get(account, ()):
            sleeper.skipped_s += by_s
            if sleeper.waking is not None:
                sleeper.waking.cancel()
