"""What a look-up at the provider can say, and when "not found" proves something.

Made too early, a negative look-up proves nothing: the request may still be under way, and the provider's index may
lag. Forgetting that is the classic way to send twice with a look-up in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from reference_sender.life import FINAL, Docket, State
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.settings import Policy, Settings

# A parked row is looked at again now and then: somebody may have changed the policy or added a look-up. It waits for a
# person anyway, who can requeue it at once, so an hour more or less is nobody's trouble.
PARKED_LOOK_S = 3_600.0


_PROVED = "the look-up proves that nothing was accepted"
# Where a mail that was not sent can go.
_ENDS = FINAL - {State.ACCEPTED} | {State.PENDING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The provider has accepted it."""

    provider_id: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """The provider does not know it (yet)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """The question could not be answered now."""

    reason: str


LookedUp = Found | NotFound | Unavailable


def after_lookup(answer: LookedUp, docket: Docket, settings: Settings, now: datetime) -> Decision:
    """What becomes of an unknown row after this look-up."""
    match answer:
        case Found(provider_id=provider_id):
            return Decision(state=State.ACCEPTED, reason="the look-up found it", provider_id=provider_id)
        case Unavailable(reason=reason):
            return _look_again(docket, reason, now + timedelta(seconds=settings.reconcile_s))
        case NotFound():
            doubted_at = docket.doubted_at or now
            counts_from = doubted_at + timedelta(seconds=settings.negative_counts_after_s)
            if now < counts_from:
                return _look_again(docket, "not found, but too early to count", counts_from)
            end = docket.if_not_sent or State.PENDING
            if end not in _ENDS:
                end = State.DEAD  # edited by hand: a person decides
            return Decision(
                state=end,
                # Why it goes nowhere else matters more than how it is known that it was not sent.
                reason=f"{docket.last_error}; {_PROVED}" if docket.last_error and end in FINAL else _PROVED,
                next_attempt_at=now if end is State.PENDING else None,
                doubt=Doubt.CLEAR,
            )
        case _:
            assert_never(answer)


def without_lookup(docket: Docket, settings: Settings, now: datetime) -> Decision:
    """What the policy says about an unknown row that nobody can look up: repeat it, or leave it to a person."""
    parked = _look_again(docket, "parked for a person", now + timedelta(seconds=PARKED_LOOK_S))
    if docket.if_not_sent is not State.PENDING:
        # It would not be sent anyway (refused, expired, too old); only a person can say what became of it.
        return parked
    match settings.policy:
        case Policy.AT_MOST_ONCE:
            return parked
        case Policy.AT_LEAST_ONCE:
            return Decision(
                state=State.PENDING,
                reason="repeated, perhaps a second copy: that is the policy",
                next_attempt_at=now,
                may_repeat=True,
            )
        case Policy.RESEND_SAME_KEY:
            first = docket.first_attempt_at
            if first is None or (now - first).total_seconds() >= settings.key_window_s:
                return parked
            return Decision(state=State.PENDING, reason="repeated with the same key", next_attempt_at=now)
        case _:
            assert_never(settings.policy)


def _look_again(docket: Docket, reason: str, at: datetime) -> Decision:
    return Decision(
        state=State.UNKNOWN,
        reason=reason,
        next_attempt_at=at,
        if_not_sent=docket.if_not_sent or State.PENDING,
    )
