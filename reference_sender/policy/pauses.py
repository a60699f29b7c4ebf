"""For how long a provider wants nobody to come: Retry-After, and the fields that tell how much more may come.

What is heard here holds for every mail and every worker of the channel, not for the mail that happened to hear it.
Fields: Retry-After (RFC 9110 section 10.2.3); `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10), its older
`RateLimit-Remaining` and `RateLimit-Reset`, and the same with `X-` in front or inside, whose reset is in seconds with
some services and since 1970 with others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from reference_sender.policy.backoff import parse_retry_after
from reference_sender.policy.evidence import Evidence, Outcome, TryLater

# Nobody limits anybody for thirty years: a number like this is a time since 1970.
_SINCE_1970 = 1_000_000_000.0
_PARAMETER = re.compile(r";\s*([a-z*][a-z0-9_.*-]*)\s*=\s*(\d{1,12})")
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?\Z")


def pause_s(
    outcome: Outcome,
    evidence: Evidence,
    now: datetime,
    *,
    throttles: int,
    base_s: float,
    cap_s: float,
    most_s: float,
) -> float:
    """Seconds for which nobody should come to this provider; 0: it said nothing of the kind.

    `throttles` counts how often in a row it has called us too fast without naming a time, or with one that is over: then
    the pause begins at `base_s` and doubles up to `cap_s`. A time that it names counts up to `most_s`.
    """
    pause = used_up_s(evidence.limits, now, most_s=most_s)
    if isinstance(outcome, TryLater) and outcome.channel:
        named = parse_retry_after(evidence.retry_after, now, most_s=most_s)
        if not named and outcome.throttled and pause == 0.0:
            named = min(cap_s, base_s * 2.0 ** min(max(throttles, 0), 60))
        pause = max(pause, named or 0.0)
    return pause


def used_up_s(fields: tuple[tuple[str, str], ...], now: datetime, *, most_s: float) -> float:
    """Seconds until there is quota again, at most `most_s`, if the fields say that there is none left; else 0."""
    pause = 0.0
    told: dict[str, str] = {}
    for name, value in fields:
        plain = name.lower()
        if plain == "ratelimit":
            pause = max([pause, *(_seconds(reset, now) for reset in _empty_items(value))])
        elif plain.endswith(("-remaining", "-reset")):
            told[plain] = value.strip()
    for name, value in told.items():
        if name.endswith("-remaining") and _is_zero(value):
            pause = max(pause, _seconds(told.get(f"{name.removesuffix('-remaining')}-reset", ""), now))
    return min(pause, most_s)


def _empty_items(value: str) -> list[str]:
    """The `t` of every item whose `r` is 0. A list of structured fields, read generously: names may hold commas."""
    resets = []
    for item in re.split(r",(?=\s*[\"a-zA-Z*])", value):
        parameters: Mapping[str, str] = dict(_PARAMETER.findall(item))
        if _is_zero(parameters.get("r", "")):
            resets.append(parameters.get("t", ""))
    return resets


def _is_zero(text: str) -> bool:
    return _NUMBER.match(text) is not None and float(text) == 0.0


def _seconds(text: str, now: datetime) -> float:
    if _NUMBER.match(text) is None:
        return 0.0
    number = float(text)
    return max(number - now.timestamp(), 0.0) if number >= _SINCE_1970 else number
