"""Decisions: doubt is never forgotten, and every policy does what its name says."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender.life import Actor, Docket, State, may_move
from reference_sender.policy.decision import Decision, Doubt, before_sending, decide
from reference_sender.policy.evidence import (
    Accepted,
    Evidence,
    Outcome,
    Phase,
    Refused,
    TryLater,
    Unknown,
    Wire,
)
from reference_sender.policy.lookup import without_lookup
from reference_sender.policy.settings import Policy, Settings
from tests.reference_sender.samples import NOW, docket, settings

ANSWER = Evidence(wire=Wire.HTTP, phase=Phase.SENT)
YES = Accepted(reason="yes", provider_id="m1")
LATER = TryLater(reason="later")
CHANNEL = TryLater(reason="down", channel=True)
IN_FLIGHT = TryLater(reason="in flight", doubt=True)
NO = Refused(reason="no")
DUNNO = Unknown(reason="silence")
KEY_TAKEN = Unknown(reason="the key is known", futile=True)
DOUBTED = NOW - timedelta(seconds=10)


def after(
    outcome: Outcome,
    row: Docket | None = None,
    rules: Settings | None = None,
    evidence: Evidence = ANSWER,
) -> Decision:
    return decide(outcome, evidence, row or docket(), rules or settings(), now=NOW, rng=random.Random(1))


def test_accepted_is_accepted_also_after_doubt() -> None:
    assert after(YES, docket(doubted_at=DOUBTED)).state is State.ACCEPTED


def test_a_refusal_is_final() -> None:
    assert after(NO).state is State.FAILED


def test_a_refusal_after_doubt_is_unknown_and_never_failed() -> None:
    decision = after(NO, docket(doubted_at=DOUBTED))
    assert (decision.state, decision.if_not_sent, decision.doubt) == (State.UNKNOWN, State.FAILED, Doubt.KEEP)


def test_later_waits_and_counts() -> None:
    decision = after(LATER)
    assert decision.state is State.PENDING
    assert decision.next_attempt_at is not None
    assert decision.next_attempt_at >= NOW
    assert not decision.refund


def test_trouble_of_the_channel_burns_no_attempt_but_backs_off_all_the_same() -> None:
    decision = after(CHANNEL, docket(attempts=99, token=99), settings(max_attempts=3))
    assert (decision.state, decision.refund) == (State.PENDING, True)


@pytest.mark.parametrize("tries", [1, 7])
def test_the_wait_grows_with_the_tries_since_it_was_queued_and_not_with_the_token(tries: int) -> None:
    asked: list[int] = []

    def backoff(*, tries: int, **_: Any) -> float:
        asked.append(tries)
        return 1.0

    row = docket(token=99, attempts=1, tries=tries)
    decide(CHANNEL, ANSWER, row, settings(), now=NOW, rng=random.Random(1), backoff=backoff)
    assert asked == [tries]


def test_trouble_of_the_channel_ends_with_age() -> None:
    old = docket(queued_at=NOW - timedelta(days=9))
    assert after(CHANNEL, old).state is State.DEAD


def test_the_last_attempt_ends_dead() -> None:
    assert after(LATER, docket(attempts=3), settings(max_attempts=3)).state is State.DEAD


def test_the_last_attempt_after_doubt_ends_unknown() -> None:
    decision = after(LATER, docket(attempts=3, doubted_at=DOUBTED), settings(max_attempts=3))
    assert (decision.state, decision.if_not_sent) == (State.UNKNOWN, State.DEAD)


def test_a_key_in_flight_is_a_new_doubt() -> None:
    assert after(IN_FLIGHT).doubt is Doubt.NEW
    decision = after(IN_FLIGHT, docket(attempts=3), settings(max_attempts=3))
    assert (decision.state, decision.if_not_sent) == (State.UNKNOWN, State.DEAD)


def test_a_wait_that_the_provider_names_is_kept_for_as_long_as_the_operator_says() -> None:
    told = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=429, retry_after="7200")
    for most_s, kept_s in ((3_600.0, 3_600.0), (86_400.0, 7_200.0)):
        decision = after(CHANNEL, evidence=told, rules=settings(retry_after_max_s=most_s))
        assert decision.next_attempt_at is not None
        # What comes on top is the first jitter.
        assert kept_s <= (decision.next_attempt_at - NOW).total_seconds() <= kept_s + 2


def test_retry_after_is_a_minimum() -> None:
    decision = after(CHANNEL, evidence=Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=429, retry_after="30"))
    assert decision.next_attempt_at is not None
    assert decision.next_attempt_at >= NOW + timedelta(seconds=30)


@pytest.mark.parametrize(
    ("policy", "state", "may_repeat"),
    [
        (Policy.RESEND_SAME_KEY, State.PENDING, False),
        (Policy.AT_LEAST_ONCE, State.PENDING, True),
        (Policy.AT_MOST_ONCE, State.UNKNOWN, False),
    ],
)
def test_silence_is_answered_by_the_policy(policy: Policy, state: State, may_repeat: bool) -> None:
    decision = after(DUNNO, rules=settings(policy))
    assert (state, may_repeat, Doubt.NEW) == (decision.state, decision.may_repeat, decision.doubt)


@pytest.mark.parametrize("policy", list(Policy))
def test_silence_at_the_last_attempt_is_unknown_under_every_policy(policy: Policy) -> None:
    decision = after(DUNNO, docket(attempts=3), settings(policy, max_attempts=3))
    assert (decision.state, decision.if_not_sent) == (State.UNKNOWN, State.DEAD)


@pytest.mark.parametrize("policy", list(Policy))
def test_bytes_that_meet_the_same_answer_again_are_not_sent_again_under_any_policy(policy: Policy) -> None:
    """Nor by the reconciler without a look-up: what would not be sent anyway stays parked."""
    decision = after(KEY_TAKEN, rules=settings(policy))
    assert (
        decision.state,
        decision.if_not_sent,
        decision.doubt,
        decision.next_attempt_at,
        decision.reason,
    ) == (State.UNKNOWN, State.DEAD, Doubt.NEW, NOW, "the key is known")
    assert not decision.may_repeat
    parked = docket(doubted_at=NOW, if_not_sent=decision.if_not_sent)
    assert without_lookup(parked, settings(policy), NOW).state is State.UNKNOWN


def test_nothing_stands_against_a_first_attempt() -> None:
    assert before_sending(docket(), settings(), NOW) is None


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"expires_at": NOW}, State.EXPIRED),
        ({"queued_at": NOW - timedelta(days=9)}, State.DEAD),
        ({"attempts": 13}, State.DEAD),
    ],
)
def test_before_sending_caps_and_expiry_are_looked_at(changes: dict[str, Any], state: State) -> None:
    decision = before_sending(docket(**changes), settings(), NOW)
    assert decision is not None
    assert decision.state is state
    doubted = before_sending(docket(doubted_at=DOUBTED, **changes), settings(), NOW)
    assert doubted is not None
    assert (State.UNKNOWN, state) == (doubted.state, doubted.if_not_sent)


def test_the_last_allowed_attempt_is_made() -> None:
    assert before_sending(docket(attempts=12), settings(), NOW) is None


@pytest.mark.parametrize(
    ("policy", "goes"),
    [(Policy.RESEND_SAME_KEY, True), (Policy.AT_LEAST_ONCE, True), (Policy.AT_MOST_ONCE, False)],
)
def test_a_doubted_mail_goes_out_again_only_where_the_policy_allows_it(policy: Policy, goes: bool) -> None:
    assert goes == (before_sending(docket(doubted_at=DOUBTED), settings(policy), NOW) is None)


def test_a_doubted_mail_does_not_go_out_when_the_provider_may_have_forgotten_its_key() -> None:
    row = docket(doubted_at=DOUBTED, first_attempt_at=NOW - timedelta(hours=23))
    decision = before_sending(row, settings(), NOW)
    assert decision is not None
    assert (decision.state, decision.if_not_sent, decision.doubt) == (
        State.UNKNOWN,
        State.PENDING,
        Doubt.KEEP,
    )
    assert before_sending(row, settings(key_window_s=24 * 3_600.0), NOW) is None


outcomes = st.sampled_from([YES, LATER, CHANNEL, IN_FLIGHT, NO, DUNNO, KEY_TAKEN])
rows = st.builds(
    docket,
    attempts=st.integers(1, 20),
    token=st.integers(1, 2_000),
    doubted_at=st.none() | st.just(DOUBTED),
    queued_at=st.sampled_from([NOW, NOW - timedelta(days=9)]),
)


@given(outcomes, rows, st.sampled_from(Policy))
def test_no_decision_calls_a_doubtful_mail_not_sent(outcome: Outcome, row: Docket, policy: Policy) -> None:
    decision = after(outcome, row, settings(policy))
    assert may_move(Actor.WORKER, State.SENDING, decision.state)
    doubtful = row.doubted or outcome in (DUNNO, KEY_TAKEN, IN_FLIGHT)
    if doubtful:
        assert decision.state in {State.ACCEPTED, State.PENDING, State.UNKNOWN}
        assert decision.doubt is not Doubt.CLEAR
    assert (decision.next_attempt_at is not None) == (decision.state in {State.PENDING, State.UNKNOWN})
    assert (decision.if_not_sent is not None) == (decision.state is State.UNKNOWN)
