"""The short way: taken where nothing can happen, and nowhere else. That it is the same is shown on the wires."""

from __future__ import annotations

import pytest

from simulator.provider.answer import Accepted
from simulator.provider.faults import ReplyWith
from simulator.provider.idempotency import KeyRules
from simulator.provider.ledger import AttemptState, Booked, Sent, Tried
from simulator.provider.limits import Limits
from simulator.provider.message import Submission
from simulator.provider.provider import Provider, Setup
from simulator.provider.rule import Pattern, Rule, Who
from tests.simulator.provider.mails import BOB, NOW, mail, planned, provider, rule

MAIL = mail(dialect="native", key="k-1")


def hand_in(it: Provider, submission: Submission = MAIL) -> Accepted | None:
    taken = it.quick.hand_in(it.account("default", NOW), submission, "127.0.0.1:1", "", NOW)
    if taken is None:
        return None
    attempt, words = taken
    ended = it.quick.end(attempt, Sent.COMPLETE, "200", NOW)
    assert (ended.state, ended.sent) == (AttemptState.CLOSED, Sent.COMPLETE)
    assert it.accounts["default"].attempts[attempt.id] is ended
    return words


def for_others(code: int = 503) -> Rule:
    who = Who(recipient=Pattern("somebody-else@example.org"))
    return Rule(name="r", fault=ReplyWith(code=code), stages=frozenset({("http", "accept")}), who=who)


def test_a_mail_is_booked_and_its_attempt_is_written_once() -> None:
    it = provider()
    words = hand_in(it)
    assert words is not None
    assert words.recipients == (BOB,)
    assert [type(each) for each in it.records()] == [Tried, Booked]


@pytest.mark.parametrize(
    ("setup", "submission", "short"),
    [
        (Setup(), MAIL, True),
        (planned(for_others()), MAIL, True),
        (planned(rule(ReplyWith(code=451), ("smtp", "message"))), MAIL, True),
        (planned(rule(ReplyWith(code=503), ("http", "accept"))), MAIL, False),
        (planned(rule(ReplyWith(code=503), ("http", "upload"))), MAIL, False),
        (Setup(limits=Limits(per_day=10)), MAIL, False),
        (Setup(limits=Limits(max_size_bytes=1)), MAIL, False),
        (Setup(limits=Limits(connections=1)), MAIL, False),
        (Setup(keys=KeyRules(required=True)), mail(dialect="native"), False),
        (Setup(), mail("bounce@magic.test", dialect="native"), False),
    ],
)
def test_it_is_taken_where_nobody_has_anything_to_say(
    setup: Setup, submission: Submission, short: bool
) -> None:
    it = provider(setup)
    it.records()  # That there are rules is one.
    assert (hand_in(it, submission) is not None) is short
    if not short:
        assert it.records() == []
        assert it.accounts["default"].attempts == {}


def test_a_key_that_was_seen_goes_the_long_way_and_numbers_are_not_lost() -> None:
    it = provider()
    assert hand_in(it) is not None
    assert hand_in(it) is None
    assert hand_in(it, mail(dialect="native", key="k-2")) is not None
    assert list(it.accounts["default"].attempts) == ["att_1", "att_2"]


def test_a_shut_way_is_not_taken() -> None:
    it = provider()
    it.quick.is_open = False
    assert hand_in(it) is None
