"""The token bucket: how many mails may go now, so that the rate holds over time and a burst may go at once.

Workers share a bucket by storing it; whoever takes tokens holds the lock on it meanwhile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

# About what a claim takes, with the database and all.
_CLAIM_S = 0.05
# Many small sums come out a hair below a whole token.
_HAIR = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A limit."""

    per_s: float
    burst: int = 1
    reserve: float = 0.0  # so many tokens are for urgent mail only; less than the burst

    def kept(self, *, urgent: bool) -> float:
        """Tokens that such mail must leave in the bucket."""
        return 0.0 if urgent else min(self.reserve, max(self.burst - 1.0, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What was in it, and when."""

    tokens: float
    at: datetime


def full(rate: Rate, now: datetime) -> Bucket:
    """A bucket that nobody has used."""
    return Bucket(tokens=float(rate.burst), at=now)


def refilled(bucket: Bucket, rate: Rate, now: datetime) -> Bucket:
    """The bucket as it is now. A clock that is behind the one before takes nothing out."""
    passed_s = max((now - bucket.at).total_seconds(), 0.0)
    return Bucket(
        tokens=min(float(rate.burst), bucket.tokens + passed_s * rate.per_s), at=max(now, bucket.at)
    )


def room(bucket: Bucket, rate: Rate, *, urgent: bool) -> int:
    """How many mails may go. The bucket must be refilled."""
    return max(math.floor(bucket.tokens - rate.kept(urgent=urgent) + _HAIR), 0)


def spent(bucket: Bucket, count: int) -> Bucket:
    """So many have been taken out."""
    return Bucket(tokens=bucket.tokens - count, at=bucket.at)


def next_at(bucket: Bucket, rate: Rate, *, urgent: bool) -> datetime:
    """When it is worth coming again, if nobody takes anything until then: for one mail, or for as many as a fast rate
    lets through in the time of a claim. One by one, a claim a mail would be the limit."""
    count = min(max(rate.per_s * _CLAIM_S, 1.0), float(rate.burst))
    missing = max(count + rate.kept(urgent=urgent) - bucket.tokens, 0.0)
    return bucket.at + timedelta(seconds=missing / rate.per_s)
