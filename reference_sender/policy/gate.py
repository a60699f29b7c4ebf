"""The gate in front of a provider: how much mail may pass now, of which sort, and what an attempt changes about it.

Here everything comes together that is shared by all workers of a provider: breaker, pause, rates, what is under way.
`allow` says yes or no before a claim; `after` turns what an attempt saw into what the next ones may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from reference_sender.policy import breaker as breaking
from reference_sender.policy import bucket as buckets_of
from reference_sender.policy.breaker import Breaker, BreakerRules, Position, Standing
from reference_sender.policy.bucket import Bucket, Rate
from reference_sender.policy.evidence import Accepted, Evidence, Outcome, TryLater
from reference_sender.policy.pauses import pause_s
from reference_sender.policy.routes import Route, Share, share


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """What an operator has set for one provider. Times in seconds."""

    provider: str = "main"
    providers: tuple[str, ...] = ("main",)  # all of them, in their order
    routes: tuple[Route, ...] = ()
    breaker: BreakerRules = field(default_factory=BreakerRules)
    rates: tuple[tuple[str, Rate], ...] = ()  # by the name of the bucket; each must have room
    in_flight: int | None = None  # mails under way at this provider, of all workers
    domains: Mapping[str, int] = field(
        default_factory=dict
    )  # under way to a recipient domain, of all workers
    urgent_from: int = (
        50  # mail of this priority or higher is urgent: slots and tokens can be kept free for it
    )
    reserved: int = 0  # slots of each worker that only urgent mail may fill
    patient_to: int = (
        -100
    )  # mail of this priority or lower waits until the provider has been well for a while
    patient_s: float = 60.0  # … for so long: it never hurries to catch up
    fallback_from_s: float = (
        60.0  # others stand in for a provider that wants nobody to come for longer than that
    )
    throttle_pause_s: float = (
        1.0  # "too fast" without a time: the first pause, twice as long each time in a row
    )
    throttle_cap_s: float = 300.0
    retry_after_max_s: float = 86_400.0  # a time that the provider names holds for no longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all workers know of a provider."""

    breaker: Breaker = breaking.CLOSED
    throttles: int = 0  # so often in a row it said "too fast"
    paused_until: datetime | None = None  # it wants nobody to come before
    well_since: datetime | None = None  # when the breaker closed last
    reason: str | None = None  # why it is as it is, for people


NOTHING_KNOWN = Shared()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What may be claimed."""

    most: int
    bulk: int  # of them, mail that is not urgent


def shut(rules: GateRules, shared: Shared, now: datetime) -> bool:
    """Whether other providers stand in for one that is known to be like this."""
    if shared.breaker.position is not Position.CLOSED:
        return True
    until = shared.paused_until
    return until is not None and now + timedelta(seconds=rules.fallback_from_s) < until


def takes_now(rules: GateRules, known: Mapping[str, Shared], now: datetime) -> Share:
    """Which mail is this provider's now.

    It never counts itself as shut: what it may take as a probe is its own mail, whoever stands in for it.
    """
    others = {name for name, shared in known.items() if name != rules.provider and shut(rules, shared, now)}
    return share(rules.provider, rules.providers, rules.routes, others)


def counts(rules: GateRules, shared: Shared) -> bool:
    """Whether a claim counts something that two must not count at a time."""
    return (
        bool(rules.domains) or rules.in_flight is not None or shared.breaker.position is not Position.CLOSED
    )


def wants_probes(shared: Shared) -> bool:
    """Whether the next mail is a question how the provider is."""
    return shared.breaker.position is not Position.CLOSED


def asks_with_tried(shared: Shared) -> bool:
    """Whether the next probe is a mail that was tried before, if there is one: in every other round.

    Where the first answer about each mail gets lost, mail that was never tried says "bad" however well the provider is,
    and what is in doubt should get its answer first. Not in every round: a mail that fails for itself would go each time.
    """
    return wants_probes(shared) and shared.breaker.trips % 2 == 0


def patient_waits(rules: GateRules, shared: Shared, now: datetime) -> bool:
    """Whether patient mail still waits for the provider to be well. Probes it makes only where there is no other mail."""
    if not rules.breaker.on:
        return False
    if wants_probes(shared):
        return True
    well = shared.well_since
    return well is not None and now < well + timedelta(seconds=rules.patient_s)


def allow(
    rules: GateRules,
    shared: Shared,
    filled: Mapping[str, Bucket],
    *,
    under_way: int,
    room: int,
    bulk: int,
    now: datetime,
) -> Allowance:
    """How much may be claimed by a worker that has so much room. `filled`: the buckets as they are now."""
    if shared.paused_until is not None and now < shared.paused_until:
        return Allowance(most=0, bulk=0)
    probes = breaking.room(shared.breaker, rules.breaker, now)
    if probes is not None:
        room = min(room, probes)
    if rules.in_flight is not None:
        room = min(room, max(rules.in_flight - under_way, 0))
    for name, rate in rules.rates:
        room = min(room, buckets_of.room(filled[name], rate, urgent=True))
        bulk = min(bulk, buckets_of.room(filled[name], rate, urgent=False))
    return Allowance(most=room, bulk=min(bulk, room))


def lets_nobody_in(rules: GateRules, shared: Shared, now: datetime) -> bool:
    """Whether nothing may be claimed now, whatever there is and however much of it: paused, or no probe is wanted."""
    if shared.paused_until is not None and now < shared.paused_until:
        return True
    return breaking.room(shared.breaker, rules.breaker, now) == 0


def again_at(
    rules: GateRules, shared: Shared, filled: Mapping[str, Bucket], now: datetime
) -> datetime | None:
    """When it is worth asking again, once all that was allowed has been claimed. None: nobody knows yet."""
    times = [
        buckets_of.next_at(filled[name], rate, urgent=False) for name, rate in rules.rates if name in filled
    ]
    if shared.paused_until is not None:
        times.append(shared.paused_until)
    if rules.breaker.on and shared.breaker.position is Position.OPEN and shared.breaker.until is not None:
        times.append(shared.breaker.until)
    latest = max(times, default=now)
    return latest if latest > now else None


def after_claim(rules: GateRules, shared: Shared, count: int, now: datetime) -> Shared:
    """So many have been claimed. Whoever has no breaker forgets where it stood when there was one."""
    if not rules.breaker.on and shared.breaker.position is not Position.CLOSED:
        return replace(shared, breaker=breaking.CLOSED, reason=None)
    return replace(shared, breaker=breaking.taken(shared.breaker, rules.breaker, count, now))


def is_usual(shared: Shared, outcome: Outcome | None, evidence: Evidence | None) -> bool:
    """Whether an attempt was as nearly all are: accepted where all is well. Then it changes nothing."""
    calm = shared.breaker.clean and not shared.throttles
    return calm and isinstance(outcome, Accepted) and evidence is not None and not evidence.limits


def matters(
    rules: GateRules, shared: Shared, outcome: Outcome | None, evidence: Evidence | None, now: datetime
) -> bool:
    """Whether an attempt changes anything, as far as this worker knows; nothing is written otherwise."""
    return (
        not is_usual(shared, outcome, evidence)
        and after(rules, shared, outcome, evidence, now=now, began_at=now) != shared
    )


def after(
    rules: GateRules,
    shared: Shared,
    outcome: Outcome | None,
    evidence: Evidence | None,
    *,
    now: datetime,
    began_at: datetime,
    good_before: int = 0,
) -> Shared:
    """What an attempt that began at `began_at` changes for everybody. None: it did not come to an attempt."""
    news = Standing.NONE
    if outcome is not None and evidence is not None:
        news = breaking.standing(outcome, evidence)
    if news is Standing.NONE or outcome is None or evidence is None:
        # Whoever was to probe and did not leaves his place to another.
        breaker = breaking.went(shared.breaker, rules.breaker, Standing.NONE, now=now, began_at=began_at)
        return replace(shared, breaker=breaker)
    if news is Standing.GOOD and shared.breaker.clean:
        breaker = shared.breaker  # successes are counted by who sees them, and told with the next failure
    else:
        breaker = breaking.went(
            shared.breaker, rules.breaker, news, now=now, began_at=began_at, good_before=good_before
        )
    throttled = isinstance(outcome, TryLater) and outcome.channel and outcome.throttled
    pause = pause_s(
        outcome,
        evidence,
        now,
        throttles=shared.throttles,
        base_s=rules.throttle_pause_s,
        cap_s=rules.throttle_cap_s,
        most_s=rules.retry_after_max_s,
    )
    paused_until = shared.paused_until
    if pause > 0.0:
        until = now + timedelta(seconds=pause)
        paused_until = until if paused_until is None else max(paused_until, until)
    closed_now = breaker.position is Position.CLOSED and shared.breaker.position is not Position.CLOSED
    reason = shared.reason
    if pause > 0.0 or (breaker != shared.breaker and news is not Standing.GOOD):
        reason = outcome.reason
    return replace(
        shared,
        breaker=breaker,
        throttles=shared.throttles + 1 if throttled else 0,
        paused_until=paused_until,
        well_since=now if closed_now else shared.well_since,
        reason=None if closed_now else reason,
    )


class Gate:
    """What one worker knows of the gate of its provider: the rules, what was seen last, what it has not told yet."""

    def __init__(self, rules: GateRules) -> None:
        self.rules = rules
        self.seen = NOTHING_KNOWN
        self.again_at: datetime | None = None
        """When it is worth asking again, if less was allowed than there was room for."""
        self.is_full = False
        """Whether there may be more that could go: all that was allowed was taken."""
        self.good = 0
        """Successes since the last failure that was told."""

    def saw(
        self,
        shared: Shared,
        filled: Mapping[str, Bucket],
        *,
        now: datetime,
        limited: bool,
        is_full: bool,
    ) -> None:
        """A claim has been to the gate. `limited`: less was allowed than there was room for; `is_full`: all of it was taken."""
        self.seen = shared
        self.is_full = is_full
        self.again_at = again_at(self.rules, shared, filled, now) if limited else None

    def lets_in(self, shared: Shared, now: datetime) -> bool:
        """Whether a claim may come through; if not, it has been to the gate for all that it could do there."""
        if not lets_nobody_in(self.rules, shared, now):
            return True
        self.saw(shared, {}, now=now, limited=True, is_full=True)
        return False

    def saw_nothing(self) -> None:
        """A claim found nothing to claim, and did not come as far as the gate."""
        self.is_full, self.again_at = False, None

    def is_shut(self, now: datetime) -> bool:
        """Whether, as far as this worker knows, nothing should be sent now."""
        until = self.seen.paused_until
        return (until is not None and now < until) or self.seen.breaker.position is Position.OPEN
