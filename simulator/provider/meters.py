"""What counts mails: a token bucket that refills continuously, and a count per minute, hour or day of the account's clock.

Each says after how many seconds it is worth coming back, and who waits so long is not refused for it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from simulator.provider.limits import Limit

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a limit stands for somebody, in the terms of the RateLimit fields (draft-ietf-httpapi-ratelimit-headers)."""

    name: str
    quota: int
    window_s: float
    """The quota is for so long."""
    remaining: int
    reset_s: float
    """So long until there is more than `remaining` again; 0 if nothing is used up."""


class Meter(Protocol):
    """Counts one thing for one scope."""

    def wait_s(self, now: datetime) -> float:
        """Return how long until one more may come; 0: now."""
        ...

    def take(self, amount: int, now: datetime) -> None:
        """Let so much in, also where that is more than there is: it is owed then."""
        ...

    def standing(self, name: str, now: datetime) -> Standing:
        """Say how it stands."""
        ...


@dataclass(slots=True)
class Bucket:
    """A token bucket; `tokens` counts mails that may come right now."""

    rate_per_s: float
    burst: int
    tokens: float
    at: datetime

    @classmethod
    def full(cls, rate_per_s: float, burst: int, now: datetime) -> Bucket:
        return cls(rate_per_s=rate_per_s, burst=burst, tokens=float(burst), at=now)

    def wait_s(self, now: datetime) -> float:
        self._fill(now)
        # Many small sums miss a whole by a hair; who waited as told must not be refused for it.
        return 0.0 if self.tokens >= 1.0 - 1e-9 else (1.0 - self.tokens) / self.rate_per_s

    def take(self, amount: int, now: datetime) -> None:
        self._fill(now)
        left = self.tokens - amount
        self.tokens = 0.0 if -1e-9 <= left < 0.0 else left

    def standing(self, name: str, now: datetime) -> Standing:
        self._fill(now)
        remaining = max(0, int(self.tokens + 1e-9))
        missing = min(self.burst - self.tokens, remaining + 1 - self.tokens)
        return Standing(
            name=name,
            quota=self.burst,
            window_s=self.burst / self.rate_per_s,
            remaining=remaining,
            reset_s=max(0.0, missing) / self.rate_per_s,
        )

    def _fill(self, now: datetime) -> None:
        # A clock that steps back must not take tokens away.
        passed_s = max(0.0, (now - self.at).total_seconds())
        self.tokens = min(float(self.burst), self.tokens + passed_s * self.rate_per_s)
        self.at = max(self.at, now)


@dataclass(slots=True)
class Window:
    """A count per minute, hour or day; windows begin with the minute, the hour, and at midnight UTC."""

    length_s: int
    quota: int
    begin: datetime
    used: int = 0

    @classmethod
    def fresh(cls, length_s: int, quota: int, now: datetime) -> Window:
        return cls(length_s=length_s, quota=quota, begin=_begin_of(length_s, now))

    def wait_s(self, now: datetime) -> float:
        self._turn(now)
        return 0.0 if self.used < self.quota else self._left_s(now)

    def take(self, amount: int, now: datetime) -> None:
        self._turn(now)
        self.used += amount

    def standing(self, name: str, now: datetime) -> Standing:
        self._turn(now)
        return Standing(
            name=name,
            quota=self.quota,
            window_s=float(self.length_s),
            remaining=max(0, self.quota - self.used),
            reset_s=self._left_s(now) if self.used else 0.0,
        )

    def _left_s(self, now: datetime) -> float:
        return max(0.0, (self.begin - now).total_seconds() + self.length_s)

    def _turn(self, now: datetime) -> None:
        begin = _begin_of(self.length_s, now)
        if begin > self.begin:
            self.begin, self.used = begin, 0


def _begin_of(length_s: int, now: datetime) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (now - epoch) // timedelta(seconds=length_s) * timedelta(seconds=length_s)


#: The parts of a limit that count mails: how they are called, and the length of their window.
_WINDOWS = (("per_minute", MINUTE_S), ("per_hour", HOUR_S), ("per_day", DAY_S))


def meters_of(limit: Limit, now: datetime) -> dict[str, Meter]:
    """Return what counts for one scope of a limit, by the parts of the limit; each as if nobody had come yet."""
    meters: dict[str, Meter] = {}
    if limit.rate_per_s is not None:
        meters["rate_per_s"] = Bucket.full(limit.rate_per_s, limit.burst, now)
    for part, length_s in _WINDOWS:
        quota: int | None = getattr(limit, part)
        if quota is not None:
            meters[part] = Window.fresh(length_s, quota, now)
    return meters
