"""How many mails a worker has under way: fewer when answers get slower, one more at a time when they do not.

Additive increase, multiplicative decrease, like TCP. A rising latency often comes before the errors, and with less
under way the provider has a chance to keep up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceRules:
    """The numbers of it."""

    most: int = 8  # the concurrency that was configured; the pace never goes beyond
    least: int = 1
    samples: int = 20  # answers that are looked at together
    tolerance: float = 2.0  # p95 may be so many times what is usual; 0: the pace never changes
    floor_s: float = 0.5  # … if it is more than this: twice nothing is nothing
    factor: float = 0.7  # what is left after a slow-down
    memory: float = 0.2  # how fast the usual follows what is seen

    @property
    def on(self) -> bool:
        """Whether latency is looked at at all."""
        return self.tolerance > 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What is remembered: the limit now, what is usual, and the answers of this round."""

    limit: float
    usual_s: float | None = None  # p95 of a round, smoothed
    seen_s: tuple[float, ...] = ()

    @property
    def most(self) -> int:
        """So many may be under way."""
        return max(int(self.limit), 1)


def begin(rules: PaceRules) -> Pace:
    """A worker that has seen nothing yet."""
    return Pace(limit=float(rules.most))


def answered(pace: Pace, rules: PaceRules, latency_s: float) -> Pace:
    """An answer took so long."""
    if not rules.on:
        return pace
    seen = (*pace.seen_s, latency_s)
    if len(seen) < rules.samples:
        return Pace(limit=pace.limit, usual_s=pace.usual_s, seen_s=seen)
    p95 = quantile(seen, 0.95)
    if pace.usual_s is None:
        return replace(pace, usual_s=p95, seen_s=())
    if p95 > max(rules.tolerance * pace.usual_s, rules.floor_s):
        # What is usual follows slowly: a provider that has become slower for good is believed after a while.
        slower = pace.usual_s * (1.0 + rules.memory)
        return Pace(limit=max(pace.limit * rules.factor, float(rules.least)), usual_s=slower)
    usual_s = pace.usual_s + rules.memory * (p95 - pace.usual_s)
    return Pace(limit=min(pace.limit + 1.0, float(rules.most)), usual_s=usual_s)


def troubled(pace: Pace, rules: PaceRules) -> Pace:
    """The channel is in trouble: begin anew at the least, so that a recovery is not run over."""
    return replace(pace, limit=float(rules.least), seen_s=()) if rules.on else pace


def quantile(values: tuple[float, ...], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ranked = sorted(values)
    return ranked[max(math.ceil(share * len(ranked)), 1) - 1]
