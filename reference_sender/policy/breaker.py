"""The circuit breaker: whether a provider is asked at all, and how few ask first when it may be well again.

One breaker a provider, shared by all workers: they store what these functions return. It counts what says something
about the provider or the line (`standing`), never what is wrong with one mail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from reference_sender.policy.evidence import OUR_OWN, Accepted, Evidence, Outcome, Refused, TryLater, Unknown


class Position(StrEnum):
    """Where the breaker stands."""

    CLOSED = "closed"  # mail flows
    OPEN = "open"  # nobody asks, until the pause is over
    HALF_OPEN = "half-open"  # a few ask, and everybody waits for what they hear


class Standing(StrEnum):
    """What an attempt says about the provider, whatever it says about the mail."""

    GOOD = "good"
    BAD = "bad"
    SHUT = "shut"  # bad, and waiting for more of it is pointless: only a person can mend it
    NONE = "none"  # nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRules:
    """When it opens, for how long, and how it closes. Times in seconds."""

    failures: int = 5  # in a row; 0: there is no breaker
    rate: float = 0.5  # or this share of the attempts in a window
    least: int = 20  # … if there are so many of them
    window_s: float = 60.0
    pause_s: float = 5.0  # the first pause; each in a row is twice as long
    pause_cap_s: float = 300.0
    probes: int = 1  # may ask at a time when the pause is over, and so many yeses close it
    probe_s: float = 120.0  # a probe that says nothing for so long is lost: the length of a lease

    @property
    def on(self) -> bool:
        """Whether there is a breaker at all."""
        return self.failures > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What is remembered between attempts."""

    position: Position = Position.CLOSED
    in_a_row: int = 0  # failures
    good: int = 0  # in the window that began at `since`
    bad: int = 0
    since: datetime | None = None  # half-open: when this round of probes began
    until: datetime | None = None  # open: end of the pause; half-open: when probes without a word are lost
    trips: int = 0  # pauses in a row
    probes: int = 0  # half-open: so many are out
    passed: int = 0  # half-open: so many came back well

    @property
    def clean(self) -> bool:
        """Whether there is nothing that a success would change."""
        return self.position is Position.CLOSED and self.in_a_row == 0


CLOSED = Breaker()


def standing(outcome: Outcome, evidence: Evidence) -> Standing:
    """What this attempt says about the provider.

    A refusal is the word of a provider that works, also one of a key that it knows. "Too fast" is back-pressure and no outage. Silence after the last
    byte, a success that cannot be read and a 500 are the provider's trouble, although the mail may have been taken.
    """
    if evidence.trouble in OUR_OWN:
        return Standing.NONE
    match outcome:
        case Accepted() | Refused() | Unknown(futile=True):
            return Standing.GOOD
        case Unknown():
            return Standing.BAD
        case TryLater(throttled=True):
            return Standing.GOOD
        case TryLater(channel=True, lasting=True):
            return Standing.SHUT
        case TryLater(channel=channel):
            return Standing.BAD if channel or evidence.code is None else Standing.GOOD


def room(breaker: Breaker, rules: BreakerRules, now: datetime) -> int | None:
    """How many may ask now. None: as many as like."""
    if not rules.on or breaker.position is Position.CLOSED:
        return None
    if breaker.until is None or now >= breaker.until:
        return rules.probes
    return 0 if breaker.position is Position.OPEN else max(rules.probes - breaker.probes, 0)


def taken(breaker: Breaker, rules: BreakerRules, count: int, now: datetime) -> Breaker:
    """So many begin to ask, within the room there is."""
    if not rules.on or breaker.position is Position.CLOSED or count == 0:
        return breaker
    if breaker.position is Position.HALF_OPEN and breaker.until is not None and now < breaker.until:
        return replace(breaker, probes=breaker.probes + count)
    # The pause is over, or the probes of the last round were lost with their worker.
    return replace(
        breaker,
        position=Position.HALF_OPEN,
        probes=count,
        passed=0,
        since=now,
        until=now + timedelta(seconds=rules.probe_s),
    )


def went(
    breaker: Breaker,
    rules: BreakerRules,
    news: Standing,
    *,
    now: datetime,
    began_at: datetime,
    good_before: int = 0,
) -> Breaker:
    """What an attempt that began at `began_at` changes. `good_before`: successes that nobody has told yet."""
    if not rules.on:
        return breaker
    match breaker.position:
        case Position.OPEN:
            # From before it opened. A late failure must not prolong the pause, nor a late success end it.
            return breaker
        case Position.HALF_OPEN:
            if breaker.since is not None and began_at < breaker.since:
                return breaker
            return _probed(breaker, rules, news, now)
        case Position.CLOSED if news is Standing.NONE:
            return breaker
        case Position.CLOSED:
            return _counted(breaker, rules, news, now, good_before)


def _probed(breaker: Breaker, rules: BreakerRules, news: Standing, now: datetime) -> Breaker:
    if news is Standing.NONE:
        # It did not come to an attempt: somebody else may probe.
        return replace(breaker, probes=max(breaker.probes - 1, 0))
    if news is not Standing.GOOD:
        return _opened(breaker, rules, now)
    if breaker.passed + 1 >= rules.probes:
        return CLOSED
    return replace(breaker, probes=max(breaker.probes - 1, 0), passed=breaker.passed + 1)


def _counted(
    breaker: Breaker, rules: BreakerRules, news: Standing, now: datetime, good_before: int
) -> Breaker:
    fresh = breaker.since is None or now >= breaker.since + timedelta(seconds=rules.window_s)
    good, bad = (0, 0) if fresh else (breaker.good, breaker.bad)
    good += good_before + (news is Standing.GOOD)
    bad += news is not Standing.GOOD
    # Successes that nobody knew of broke the row of failures that others have told.
    row = 0 if good_before else breaker.in_a_row
    in_a_row = 0 if news is Standing.GOOD else row + 1
    counted = replace(breaker, in_a_row=in_a_row, good=good, bad=bad, since=now if fresh else breaker.since)
    often = good + bad >= rules.least and bad >= rules.rate * (good + bad)
    if news is Standing.SHUT or in_a_row >= rules.failures or (news is Standing.BAD and often):
        return _opened(counted, rules, now)
    return counted


def _opened(breaker: Breaker, rules: BreakerRules, now: datetime) -> Breaker:
    # The exponent is bounded, or the power would not fit a float.
    pause_s = min(rules.pause_cap_s, rules.pause_s * 2.0 ** min(breaker.trips, 60))
    return Breaker(position=Position.OPEN, until=now + timedelta(seconds=pause_s), trips=breaker.trips + 1)
