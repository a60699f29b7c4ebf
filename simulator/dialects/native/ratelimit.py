"""How limits are told over HTTP: the fields of the IETF's draft, and the older ones that services still send.

Draft: draft-ietf-httpapi-ratelimit-headers-10 (`RateLimit-Policy`, `RateLimit`, structured fields of RFC 9651).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from simulator.provider.meters import Standing

Fields = tuple[tuple[str, str], ...]


def rate_fields(form: str, standings: Sequence[Standing], now: datetime) -> Fields:
    """Return the header fields that tell how the limits stand, in one of `simulator.provider.api.RATE_FIELDS`."""
    return FORMS[form](standings, now) if standings else ()


def _ietf(standings: Sequence[Standing], now: datetime) -> Fields:
    """Every limit has its policy and its state. A quota that is not for whole seconds is rounded up."""
    policies = [f"{_string(each.name)};q={each.quota};w={max(1, _up(each.window_s))}" for each in standings]
    states = [f"{_string(each.name)};r={each.remaining};t={_up(each.reset_s)}" for each in standings]
    return ("RateLimit-Policy", ", ".join(policies)), ("RateLimit", ", ".join(states))


def _draft6(standings: Sequence[Standing], now: datetime) -> Fields:
    """One limit only, and seconds: the fields of the draft's sixth version."""
    each = _tightest(standings)
    return (
        ("RateLimit-Limit", str(each.quota)),
        ("RateLimit-Remaining", str(each.remaining)),
        ("RateLimit-Reset", str(_up(each.reset_s))),
    )


def _x_seconds(standings: Sequence[Standing], now: datetime) -> Fields:
    return tuple((f"X-{name}", value) for name, value in _draft6(standings, now))


def _x_epoch(standings: Sequence[Standing], now: datetime) -> Fields:
    """The same names as `x_seconds`, and a reset in seconds since 1970: who takes it for a delay waits for ever."""
    *fields, _ = _x_seconds(standings, now)
    reset = math.ceil(now.timestamp() + _tightest(standings).reset_s)
    return (*fields, ("X-RateLimit-Reset", str(reset)))


#: Form -> how it is written; the names are those of `simulator.provider.api.RATE_FIELDS`.
FORMS: Mapping[str, Callable[[Sequence[Standing], datetime], Fields]] = {
    "ietf": _ietf,
    "draft6": _draft6,
    "x_seconds": _x_seconds,
    "x_epoch": _x_epoch,
    "none": lambda standings, now: (),
}


def _tightest(standings: Sequence[Standing]) -> Standing:
    return min(standings, key=lambda each: (each.remaining, -each.reset_s))


def _up(seconds: float) -> int:
    # A hair above a whole second is a whole second: many small sums made it.
    return math.ceil(seconds - 1e-9)


def _string(name: str) -> str:
    """Return a String of RFC 9651: printable ASCII in double quotes."""
    sound = "".join(char if " " <= char <= "~" else "?" for char in name)
    return '"' + sound.replace("\\", "\\\\").replace('"', '\\"') + '"'
