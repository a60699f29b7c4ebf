"""Whatever comes together: a decision says when to go on, where to, and why, in words for people.

A parked row without a next look would never be looked at again, and nobody would notice: the types allow it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from reference_sender.life import Docket, State
from reference_sender.policy.caps import overdue
from reference_sender.policy.classify import classify
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
from reference_sender.policy.lookup import (
    PARKED_LOOK_S,
    Found,
    NotFound,
    Unavailable,
    after_lookup,
    without_lookup,
)
from reference_sender.policy.settings import MOST, InvalidSettings, Policy
from tests.reference_sender.samples import NOW, docket, settings

ANSWER = Evidence(wire=Wire.HTTP, phase=Phase.SENT)
OUTCOMES: tuple[Outcome, ...] = (
    Accepted(reason="accepted", provider_id="m1"),
    Refused(reason="refused"),
    TryLater(reason="later"),
    TryLater(reason="down", channel=True),
    TryLater(reason="in flight", doubt=True),
    Unknown(reason="silence"),
)
DOUBTED = NOW - timedelta(seconds=10)
LONG_AGO = NOW - timedelta(days=30)


def rows() -> Iterator[Docket]:
    """Rows of every sort: fresh, doubted, overdue, too old, with all attempts spent."""
    for doubted_at, expires_at, queued_at, first_attempt_at, attempts in itertools.product(
        (None, DOUBTED), (None, LONG_AGO), (NOW, LONG_AGO), (NOW, LONG_AGO), (1, 12, 13)
    ):
        yield docket(
            doubted_at=doubted_at,
            expires_at=expires_at,
            queued_at=queued_at,
            first_attempt_at=first_attempt_at,
            attempts=attempts,
        )


def decisions() -> Iterator[Decision]:
    """Every decision there is, for rows of every sort and every policy."""
    for policy, row in itertools.product(Policy, rows()):
        rules = settings(policy)
        if (before := before_sending(row, rules, NOW)) is not None:
            yield before
        for outcome in OUTCOMES:
            yield decide(outcome, ANSWER, row, rules, now=NOW, rng=random.Random(1))
        for end in (None, State.PENDING, State.FAILED, State.EXPIRED, State.DEAD):
            parked = docket(
                state=State.UNKNOWN,
                doubted_at=row.doubted_at,
                if_not_sent=end,
                first_attempt_at=row.first_attempt_at,
            )
            yield without_lookup(parked, rules, NOW)
            for answer in (Found(provider_id="m1"), NotFound(), Unavailable(reason="the look-up is away")):
                for now in (NOW, NOW + timedelta(days=1)):
                    yield after_lookup(answer, parked, rules, now)


def in_words(reason: object) -> bool:
    """A text that begins small, like the middle of a sentence: it stands behind a colon in a log."""
    return isinstance(reason, str) and (reason[0].islower() or reason[0].isdigit())


def test_every_decision_says_why() -> None:
    assert [each for each in decisions() if not in_words(each.reason)] == []


def test_what_goes_on_says_when_and_what_has_ended_does_not() -> None:
    goes_on = {State.PENDING, State.UNKNOWN}
    assert [
        each for each in decisions() if (each.state in goes_on) != (each.next_attempt_at is not None)
    ] == []


def test_nothing_is_due_in_the_past() -> None:
    assert [each for each in decisions() if each.next_attempt_at and each.next_attempt_at < NOW] == []


def test_what_is_parked_knows_where_it_would_have_gone() -> None:
    assert [each for each in decisions() if each.state is State.UNKNOWN and each.if_not_sent is None] == []


def test_every_decision_says_what_becomes_of_doubt() -> None:
    assert {each.doubt for each in decisions()} == set(Doubt)


def test_what_is_accepted_has_a_name() -> None:
    assert [each for each in decisions() if each.state is State.ACCEPTED and not each.provider_id] == []


@pytest.mark.parametrize("policy", list(Policy))
def test_a_doubt_at_the_end_is_a_new_doubt(policy: Policy) -> None:
    spent = docket(attempts=12)
    decision = decide(
        Unknown(reason="silence"), ANSWER, spent, settings(policy), now=NOW, rng=random.Random(1)
    )
    assert (decision.state, decision.doubt, decision.if_not_sent) == (State.UNKNOWN, Doubt.NEW, State.DEAD)


def test_the_attempt_that_was_not_made_is_not_counted() -> None:
    decision = before_sending(docket(attempts=13), settings(max_attempts=12), NOW)
    assert decision is not None
    assert (decision.state, decision.reason) == (State.DEAD, "12 attempts spent")


def test_who_is_parked_before_an_attempt_is_looked_at_now() -> None:
    parked = before_sending(docket(doubted_at=DOUBTED), settings(Policy.AT_MOST_ONCE), NOW)
    assert parked is not None
    assert (parked.if_not_sent, parked.next_attempt_at, parked.doubt) == (State.PENDING, NOW, Doubt.KEEP)


def test_who_is_parked_because_the_key_is_forgotten_is_looked_at_now() -> None:
    parked = before_sending(docket(doubted_at=DOUBTED, first_attempt_at=LONG_AGO), settings(), NOW)
    assert parked is not None
    assert (parked.if_not_sent, parked.next_attempt_at, parked.doubt) == (State.PENDING, NOW, Doubt.KEEP)


def test_a_date_to_come_back_at_is_counted_from_now() -> None:
    told = Evidence(
        wire=Wire.HTTP,
        phase=Phase.SENT,
        retry_after=format_datetime(NOW + timedelta(seconds=500), usegmt=True),
    )
    decision = decide(TryLater(reason="later"), told, docket(), settings(), now=NOW, rng=random.Random(1))
    assert decision.next_attempt_at is not None
    assert NOW + timedelta(seconds=500) <= decision.next_attempt_at <= NOW + timedelta(seconds=502)


def test_a_look_up_that_is_away_is_tried_at_the_next_round() -> None:
    parked = docket(state=State.UNKNOWN, doubted_at=NOW, if_not_sent=State.PENDING)
    decision = after_lookup(
        Unavailable(reason="the look-up is away"), parked, settings(reconcile_s=15.0), NOW
    )
    assert NOW + timedelta(seconds=15) == decision.next_attempt_at


def test_what_is_proved_not_sent_is_due_at_once() -> None:
    parked = docket(state=State.UNKNOWN, doubted_at=NOW, if_not_sent=State.PENDING)
    later = NOW + timedelta(days=1)
    assert later == after_lookup(NotFound(), parked, settings(), later).next_attempt_at


@pytest.mark.parametrize("policy", [Policy.AT_LEAST_ONCE, Policy.RESEND_SAME_KEY])
def test_what_the_policy_repeats_is_due_at_once(policy: Policy) -> None:
    parked = docket(state=State.UNKNOWN, doubted_at=NOW, if_not_sent=State.PENDING)
    assert without_lookup(parked, settings(policy), NOW).next_attempt_at == NOW


def test_what_waits_for_a_person_is_looked_at_now_and_then() -> None:
    parked = docket(state=State.UNKNOWN, doubted_at=NOW, if_not_sent=State.PENDING)
    decision = without_lookup(parked, settings(Policy.AT_MOST_ONCE), NOW)
    assert NOW + timedelta(seconds=PARKED_LOOK_S) == decision.next_attempt_at


def test_every_outcome_says_why() -> None:
    """Every code in every place, and silence everywhere."""
    wordless = []
    for wire, phase, code, recipient_code in itertools.product(
        Wire, Phase, (None, *range(100, 700)), (None, 400, 550)
    ):
        evidence = Evidence(wire=wire, phase=phase, code=code, recipient_code=recipient_code)
        for each in (evidence, Evidence(wire=wire, phase=phase, code=code, provider_id="m1")):
            if not in_words(classify(each).reason):
                wordless.append(each)
    assert wordless == []
    assert in_words(overdue(docket(expires_at=LONG_AGO), NOW))


@pytest.mark.parametrize(
    ("code", "kind"), [(400, TryLater), (499, TryLater), (500, Refused), (599, Refused), (200, Accepted)]
)
def test_the_first_digit_counts_from_the_first_to_the_last_code(code: int, kind: type[Outcome]) -> None:
    """After the dot of SMTP, and for one recipient in the body of an HTTP answer."""
    assert isinstance(classify(Evidence(wire=Wire.SMTP, phase=Phase.SENT, code=code)), kind)
    if code >= 400:
        inside = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1", recipient_code=code)
        assert isinstance(classify(inside), kind)


def test_the_name_that_an_http_api_gives_is_kept() -> None:
    outcome = classify(Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1"))
    assert outcome == Accepted(reason="accepted", provider_id="m1")


@pytest.mark.parametrize(("provider_id", "name"), [("queued-7", "queued-7"), (None, "250")])
def test_an_smtp_server_that_gives_no_name_is_quoted_by_its_code(provider_id: str | None, name: str) -> None:
    outcome = classify(Evidence(wire=Wire.SMTP, phase=Phase.SENT, code=250, provider_id=provider_id))
    assert outcome == Accepted(reason="accepted", provider_id=name)


@pytest.mark.parametrize(
    "name", ["lookup_lag_s", "in_flight_s", "backoff_base_s", "backoff_cap_s", "drain_s", "smtp_idle_s"]
)
def test_some_times_may_be_zero(name: str) -> None:
    """No waiting is a choice; a lease or a timeout of nothing is none."""
    zero: dict[str, Any] = {"backoff_base_s": 0.0, name: 0.0}
    assert getattr(settings(**zero), name) == 0.0


def test_each_limit_is_the_last_value_that_is_allowed() -> None:
    assert settings(max_age_s=MOST).max_age_s == MOST
    assert settings(connect_timeout_s=60.0, read_timeout_s=60.0, total_timeout_s=60.0).total_timeout_s == 60.0
    with pytest.raises(InvalidSettings, match="must be greater than zero"):
        settings(max_age_s=-MOST)


def test_a_lease_that_is_too_short_is_told_in_one_sentence() -> None:
    with pytest.raises(InvalidSettings) as told:
        settings(total_timeout_s=120.0, lease_s=120.0)
    assert str(told.value) == (
        "total_timeout_s (120) must be shorter than lease_s (120), "
        "or a second worker takes a mail that the first one is still sending"
    )
