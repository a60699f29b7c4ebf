"""What time it is for an account: real time, and how far a test has moved the clock ahead of it.

Keys, limits, rules, look-ups and everything else of an account that has to do with time read this clock. It is only
ever moved forward: what has expired cannot come back, as with any provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

#: The last year a clock can be moved to: windows and delays are added to it and must stay instants that Python has.
LAST_YEAR = 9000


class ClockError(ValueError):
    """A clock cannot be moved like this. The message is one sentence that says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMoved:
    """Record: from here on the account's clock is so far ahead of real time."""

    account: str
    ahead_s: float


@dataclass(slots=True)
class AccountClock:
    """The clock of one account."""

    ahead: timedelta = timedelta(0)

    def now(self, real: datetime) -> datetime:
        """Return what time it is here when it is `real` outside."""
        return real + self.ahead if self.ahead else real

    def advance(self, seconds: float, real: datetime) -> None:
        """Move ahead by so many seconds. Raises `ClockError` for a step back or beyond all time."""
        if not seconds >= 0:
            raise ClockError(f"the clock goes forward only; it cannot be advanced by {seconds:g} s")
        now = self.now(real)
        try:
            then = now + timedelta(seconds=seconds)
        except OverflowError:
            then = None
        if then is None or then.year > LAST_YEAR:
            raise ClockError(
                f"the clock ends with the year {LAST_YEAR}; it cannot be advanced by {seconds:g} s"
            )
        self.ahead += then - now

    def set(self, to: datetime, real: datetime) -> None:
        """Move ahead to an instant. Raises `ClockError` if it is past here already."""
        now = self.now(real)
        if to < now:
            raise ClockError(
                f"the clock goes forward only; it is {now.isoformat()} already and cannot be set to {to.isoformat()}"
                " (a reset begins anew, at the real time)"
            )
        self.advance((to - now).total_seconds(), real)
