"""Look-ups: a find settles it, an early "not found" proves nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reference_sender.life import State
from reference_sender.policy.decision import Doubt
from reference_sender.policy.lookup import Found, NotFound, Unavailable, after_lookup, without_lookup
from reference_sender.policy.settings import Policy
from tests.reference_sender.samples import NOW, docket, settings

RULES = settings(lookup_lag_s=60.0, in_flight_s=300.0)
ROW = docket(state=State.UNKNOWN, doubted_at=NOW, if_not_sent=State.PENDING)


def test_a_find_is_accepted() -> None:
    decision = after_lookup(Found(provider_id="m1"), ROW, RULES, NOW)
    assert (decision.state, decision.provider_id) == (State.ACCEPTED, "m1")


def test_not_found_too_early_only_means_look_again() -> None:
    decision = after_lookup(NotFound(), ROW, RULES, NOW + timedelta(seconds=359))
    assert (decision.state, decision.doubt) == (State.UNKNOWN, Doubt.KEEP)
    assert NOW + timedelta(seconds=360) == decision.next_attempt_at


@pytest.mark.parametrize("end", [State.PENDING, State.FAILED, State.DEAD, State.EXPIRED])
def test_not_found_late_enough_sends_the_row_where_it_would_have_gone(end: State) -> None:
    row = docket(state=State.UNKNOWN, doubted_at=NOW, if_not_sent=end)
    decision = after_lookup(NotFound(), row, RULES, NOW + timedelta(seconds=360))
    assert (end, Doubt.CLEAR) == (decision.state, decision.doubt)


@pytest.mark.parametrize("edited", [State.ACCEPTED, State.SENDING, State.UNKNOWN])
def test_not_found_sends_no_row_to_where_somebody_sent_it_by_hand(edited: State) -> None:
    row = docket(state=State.UNKNOWN, doubted_at=NOW, if_not_sent=edited)
    assert after_lookup(NotFound(), row, RULES, NOW + timedelta(seconds=360)).state is State.DEAD


def test_a_look_up_that_does_not_answer_proves_nothing() -> None:
    decision = after_lookup(Unavailable(reason="down"), ROW, RULES, NOW + timedelta(days=1))
    assert (decision.state, decision.doubt) == (State.UNKNOWN, Doubt.KEEP)


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        (Policy.AT_MOST_ONCE, State.UNKNOWN),
        (Policy.AT_LEAST_ONCE, State.PENDING),
        (Policy.RESEND_SAME_KEY, State.PENDING),
    ],
)
def test_without_a_look_up_the_policy_decides(policy: Policy, state: State) -> None:
    decision = without_lookup(ROW, settings(policy), NOW)
    assert state is decision.state
    assert decision.may_repeat == (policy is Policy.AT_LEAST_ONCE)


def test_a_forgotten_key_is_not_used_again() -> None:
    row = docket(state=State.UNKNOWN, doubted_at=NOW, if_not_sent=State.PENDING)
    assert without_lookup(row, settings(), NOW + timedelta(hours=23)).state is State.UNKNOWN


@pytest.mark.parametrize("policy", list(Policy))
def test_a_mail_that_would_not_be_sent_anyway_stays_parked(policy: Policy) -> None:
    row = docket(state=State.UNKNOWN, doubted_at=NOW, if_not_sent=State.FAILED)
    decision = without_lookup(row, settings(policy), NOW)
    assert (decision.state, decision.if_not_sent) == (State.UNKNOWN, State.FAILED)
    assert decision.next_attempt_at is not None
    assert decision.next_attempt_at > NOW
