"""A provider takes up where another one ended."""

from __future__ import annotations

from simulator.provider.faults import (
    HoldTheAnswer,
)
from simulator.provider.ledger import AttemptState, Decided
from simulator.provider.notes import Noted
from simulator.provider.provider import Detail
from tests.simulator.provider.mails import NOW, mail, planned, provider, rule, send


def test_the_name_of_an_unfinished_attempt_is_not_given_again() -> None:
    """A process that died between acceptance and answer left the acceptance; its attempt stays unique."""
    it = provider()
    attempt, _ = send(it, mail(), end=False)
    again = provider()
    again.restore(it.records(), NOW)

    assert again.open("smtp", "peer", NOW).id != attempt.id
    assert again.account("default", NOW).attempts[attempt.id].state is AttemptState.CLOSED


def test_the_name_of_an_attempt_in_the_decision_log_is_not_given_again() -> None:
    it = provider(planned(rule(HoldTheAnswer(), ("smtp", "connect"))))
    attempt = it.open("smtp", "peer", NOW)
    it.step(attempt, "connect", Detail(), NOW)
    records = it.records()
    again = provider()
    again.restore(records, NOW)

    assert [type(each) for each in records] == [Decided, Noted]
    assert again.open("smtp", "peer", NOW).id != attempt.id
