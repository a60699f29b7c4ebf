"""How long to wait before the next attempt: exponential, full jitter, capped, never shorter than Retry-After.

Full jitter, so that a thousand mails that failed together do not come back together.
"""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def backoff_s(
    *, tries: int, base_s: float, cap_s: float, rng: random.Random, retry_after_s: float | None = None
) -> float:
    """Seconds to wait after the `tries`-th try (1 is the first).

    Between 0 and min(cap, base * 2**(tries-1)); a Retry-After is a minimum, and the jitter comes on top of it.
    """
    # The exponent is bounded, or 2**5000 would not fit a float.
    ceiling_s = min(cap_s, base_s * 2.0 ** min(max(tries, 1) - 1, 60))
    return (retry_after_s or 0.0) + rng.uniform(0.0, ceiling_s)


def parse_retry_after(value: str | None, now: datetime, *, most_s: float) -> float | None:
    """Seconds from a Retry-After header: delay-seconds or HTTP-date (RFC 9110 section 10.2.3).

    Garbage and negative numbers count as absent, a date in the past as zero. A provider (or a
    broken proxy) that asks for a year is not taken at its word: what is longer than `most_s` is cut there.
    """
    if value is None:
        return None
    text = value.strip()
    if re.fullmatch(r"[0-9]+", text):
        # Longer than any sensible number, and than any that is allowed as the longest.
        return most_s if len(text) > 9 else min(float(text), most_s)
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), most_s)
