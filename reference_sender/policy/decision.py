"""From outcome to decision: the next state of the row, when to try again, and what happens to doubt.

Doubt is the thread through this file: once an attempt may have been accepted, no later refusal, cap or expiry of
the same mail may call it not sent. Such a row is `unknown` and remembers in `if_not_sent` where it would have gone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, assert_never

from reference_sender.life import Docket, State
from reference_sender.policy.backoff import backoff_s, parse_retry_after
from reference_sender.policy.bars import BARRED
from reference_sender.policy.caps import overdue, too_many, too_old
from reference_sender.policy.evidence import Accepted, Evidence, Outcome, Refused, TryLater, Unknown
from reference_sender.policy.settings import Policy, Settings
from reference_sender.policy.suspects import is_suspect, lost_in_company


class Doubt(StrEnum):
    """What a decision does to the row's memory of attempts in doubt."""

    KEEP = "keep"
    NEW = "new"  # this attempt ended in doubt
    CLEAR = "clear"  # proved: nothing was accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of the row now."""

    state: State
    reason: str  # for logs and people; holds no address and nothing the provider wrote
    next_attempt_at: datetime | None = None  # pending: next try; unknown: next look
    refund: bool = False  # this attempt does not count against the cap
    doubt: Doubt = Doubt.KEEP
    may_repeat: bool = False  # from here on the recipient may get a second copy
    if_not_sent: State | None = None
    provider_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One attempt that is over: whose it was, what becomes of the row, and what was seen."""

    docket: Docket  # as it was claimed
    decision: Decision
    evidence: Evidence | None = None  # None: the attempt ended before it began
    started_at: datetime | None = None


class Backoff(Protocol):
    """How long to wait; `backoff_s` is ours."""

    def __call__(
        self,
        *,
        tries: int,
        base_s: float,
        cap_s: float,
        rng: random.Random,
        retry_after_s: float | None = None,
    ) -> float: ...


def before_sending(docket: Docket, settings: Settings, now: datetime) -> Decision | None:
    """Reasons not to begin an attempt that was just claimed; None means: go."""
    if docket.bar is not None:
        barred = BARRED[docket.bar]
        if barred.state is not State.PENDING:
            return _end(docket, barred.state, barred.reason, now)
    if reason := overdue(docket, now):
        return _end(docket, State.EXPIRED, reason, now)
    if reason := too_old(docket, now, settings):
        return _end(docket, State.DEAD, reason, now)
    if docket.bar is not None:
        # Its time has not come, and that is nobody's fault: the attempt is not counted.
        again = now + timedelta(seconds=barred.again_after_s)
        return Decision(state=State.PENDING, reason=barred.reason, next_attempt_at=again, refund=True)
    # The claim has counted the attempt that we are asked about: one above the cap is one too many. This is what
    # stops a mail that kills its worker each time. If others were lost with it, it may have been one of them.
    if docket.attempts > settings.max_attempts and not lost_in_company(docket.losses):
        how = ", the last one lost with its worker" if is_suspect(docket.losses) else ""
        return _end(docket, State.DEAD, f"{docket.attempts - 1} attempts spent{how}", now)
    if not docket.doubted:
        return None
    match settings.policy:
        case Policy.RESEND_SAME_KEY:
            first = docket.first_attempt_at
            if first is not None and (now - first).total_seconds() >= settings.key_window_s:
                return _park(
                    State.PENDING, "in doubt, and the provider may have forgotten the key", now, Doubt.KEEP
                )
            return None
        case Policy.AT_MOST_ONCE:
            return _park(State.PENDING, "in doubt, and never to be repeated", now, Doubt.KEEP)
        case Policy.AT_LEAST_ONCE:
            return None
        case _:
            assert_never(settings.policy)


def decide(
    outcome: Outcome,
    evidence: Evidence,
    docket: Docket,
    settings: Settings,
    *,
    now: datetime,
    rng: random.Random,
    backoff: Backoff = backoff_s,
) -> Decision:
    """What becomes of the row after an attempt with this outcome."""
    match outcome:
        case Accepted(reason=reason, provider_id=provider_id):
            return Decision(state=State.ACCEPTED, reason=reason, provider_id=provider_id)
        case Refused(reason=reason):
            # Rule 1: a rejection after doubt is not a failure. The first attempt may have been accepted.
            return _end(docket, State.FAILED, reason, now)
        case TryLater(reason=reason, doubt=doubt):
            free = outcome.channel or outcome.throttled
            new_doubt = Doubt.NEW if doubt else Doubt.KEEP
            spent = too_old(docket, now, settings) or (None if free else too_many(docket, settings))
            if spent:
                return _end(docket, State.DEAD, f"{reason}; {spent}", now, new_doubt)
            return Decision(
                state=State.PENDING,
                reason=reason,
                next_attempt_at=_next(evidence, docket, settings, now, rng, backoff),
                refund=free,
                doubt=new_doubt,
            )
        case Unknown(reason=reason, futile=True):
            # If it was not taken, it is not refused either: two mails have one key, and that is for a person to look at.
            return _park(State.DEAD, reason, now, Doubt.NEW)
        case Unknown(reason=reason):
            return _doubtful(reason, evidence, docket, settings, now, rng, backoff)
        case _:
            assert_never(outcome)


def _doubtful(
    reason: str,
    evidence: Evidence,
    docket: Docket,
    settings: Settings,
    now: datetime,
    rng: random.Random,
    backoff: Backoff,
) -> Decision:
    spent = too_old(docket, now, settings) or too_many(docket, settings)
    if spent:
        return _park(State.DEAD, f"{reason}; {spent}", now, Doubt.NEW)
    match settings.policy:
        case Policy.AT_MOST_ONCE:
            return _park(State.PENDING, reason, now, Doubt.NEW)
        case Policy.RESEND_SAME_KEY | Policy.AT_LEAST_ONCE:
            return Decision(
                state=State.PENDING,
                reason=reason,
                next_attempt_at=_next(evidence, docket, settings, now, rng, backoff),
                doubt=Doubt.NEW,
                may_repeat=settings.policy is Policy.AT_LEAST_ONCE,
            )
        case _:
            assert_never(settings.policy)


def _end(docket: Docket, state: State, reason: str, now: datetime, doubt: Doubt = Doubt.KEEP) -> Decision:
    """End the row in this state – or park it, if some attempt may have been accepted after all."""
    if docket.doubted or doubt is Doubt.NEW:
        return _park(state, f"{reason}, but another attempt is in doubt", now, doubt)
    return Decision(state=state, reason=reason)


def _park(if_not_sent: State, reason: str, now: datetime, doubt: Doubt) -> Decision:
    return Decision(
        state=State.UNKNOWN, reason=reason, next_attempt_at=now, doubt=doubt, if_not_sent=if_not_sent
    )


def _next(
    evidence: Evidence,
    docket: Docket,
    settings: Settings,
    now: datetime,
    rng: random.Random,
    backoff: Backoff,
) -> datetime:
    wait_s = backoff(
        # Not the attempts: a long outage must back off although it burns none. Not the token: it never starts anew,
        # and who requeues a mail by hand does not want to wait for the old trouble.
        tries=docket.tries,
        base_s=settings.backoff_base_s,
        cap_s=settings.backoff_cap_s,
        rng=rng,
        retry_after_s=parse_retry_after(evidence.retry_after, now, most_s=settings.retry_after_max_s),
    )
    return now + timedelta(seconds=wait_s)
