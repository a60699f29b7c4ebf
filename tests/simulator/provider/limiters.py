"""Limiters for tests, and somebody who comes to them."""

from __future__ import annotations

from simulator.provider.limiter import Limiter, Occasion
from simulator.provider.limits import Limit, Scope
from tests.simulator.provider.mails import BOB, after

EVERY = tuple(Scope)
SOMEBODY = Occasion(ip="10.0.0.1", sender="shop@example.org", recipients=(BOB,))


def limiter(*limits: Limit) -> Limiter:
    return Limiter(limits=limits)


def waits(it: Limiter, at_s: float = 0.0, who: Occasion = SOMEBODY) -> float | None:
    """Let somebody in; return what he hears: None, or how long to wait."""
    excess = it.take(EVERY, who, after(at_s))
    return None if excess is None else excess.wait_s
