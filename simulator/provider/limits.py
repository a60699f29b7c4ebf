"""How much a provider takes: sizes, recipients, and a rate as a token bucket.

The bucket refills continuously; a refusal tells after how many seconds the next token is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of an account. None: no limit."""

    max_size_bytes: int | None = 40 * 1024 * 1024
    max_recipients: int | None = 1_000
    rate_per_s: float | None = None
    """Accepted mails per second, on average."""
    burst: int = 1
    """How many may come at once."""


@dataclass(slots=True)
class Bucket:
    """A token bucket; `tokens` counts mails that may come right now."""

    tokens: float
    at: datetime

    @classmethod
    def full(cls, limits: Limits, now: datetime) -> Bucket:
        return cls(tokens=float(limits.burst), at=now)

    def take(self, limits: Limits, now: datetime) -> float | None:
        """Take a token. Return None if there was one, else the seconds until the next one."""
        if limits.rate_per_s is None:
            return None
        # A clock that steps back must not take tokens away.
        passed_s = max(0.0, (now - self.at).total_seconds())
        self.tokens = min(float(limits.burst), self.tokens + passed_s * limits.rate_per_s)
        self.at = max(self.at, now)
        # Many small sums miss a whole by a hair; who waited as told must not be refused for it.
        if self.tokens >= 1.0 - 1e-9:
            self.tokens = max(0.0, self.tokens - 1.0)
            return None
        return (1.0 - self.tokens) / limits.rate_per_s
