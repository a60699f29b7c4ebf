"""A mail that is here: checked, booked, answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.provider.answer import (
    Accepted,
    HangUp,
    Hold,
    Reason,
    Refused,
    Reply,
    Slow,
    Truncate,
)
from simulator.provider.fate import Fate
from simulator.provider.faults import (
    Drop,
    HangUpOnThem,
    HoldTheAnswer,
    RefuseRecipients,
    ReplyWith,
    SlowDown,
    TruncateTheReply,
)
from simulator.provider.idempotency import KeyRules
from simulator.provider.limits import Limits
from simulator.provider.provider import Detail, Setup
from simulator.provider.rule import Pattern, Who
from tests.simulator.provider.mails import (
    ANN,
    BOB,
    NOW,
    booked,
    mail,
    planned,
    provider,
    refusal,
    rule,
    send,
)


@pytest.mark.parametrize("dialect", ["smtp", "native"])
def test_a_mail_is_accepted_and_booked(dialect: str) -> None:
    it = provider()
    attempt, verdict = send(it, mail(BOB, ANN, dialect=dialect, ref="o1"))

    assert verdict is not None
    assert verdict.accepted == (BOB, ANN)
    (acceptance,) = it.account("default", NOW).ledger.acceptances
    assert acceptance == verdict.acceptance
    assert acceptance.obligation == "o1"
    assert verdict.answer == Accepted(
        id=acceptance.id, message_id="<Hello@example.org>", recipients=(BOB, ANN)
    )
    assert attempt.accepted == (BOB, ANN)
    assert attempt.answer == "accepted"


def test_accepted_but_told_otherwise() -> None:
    """What is true and what is said are two fields."""
    it = provider(planned(rule(ReplyWith(code=554), ("smtp", "reply"))))
    _, verdict = send(it, mail())

    assert verdict is not None
    assert verdict.accepted == (BOB,)
    assert verdict.answer == Reply(code=554)
    assert booked(it) == 1


def test_accepted_and_the_answer_lost() -> None:
    it = provider(planned(rule(HangUpOnThem(), ("smtp", "reply"))))
    _, verdict = send(it, mail())

    assert verdict is not None
    assert (verdict.accepted, verdict.answer) == ((BOB,), HangUp())


def test_a_held_slow_or_truncated_answer_knows_the_words_to_come() -> None:
    for fault, kind in ((HoldTheAnswer(), Hold), (SlowDown(delay_s=1), Slow), (TruncateTheReply(), Truncate)):
        _, verdict = send(provider(planned(rule(fault, ("smtp", "reply")))), mail())

        assert verdict is not None
        assert isinstance(verdict.answer, kind)
        assert isinstance(verdict.answer.then, Accepted)


def test_a_fault_of_the_body_comes_after_the_head() -> None:
    _, verdict = send(provider(planned(rule(HangUpOnThem(), ("http", "body")))), mail(dialect="native"))

    assert verdict is not None
    assert verdict.after_head
    assert verdict.answer == HangUp()


def test_accepted_but_dropped_is_said_to_be_accepted() -> None:
    it = provider(planned(rule(Drop(), ("smtp", "message"))))
    _, verdict = send(it, mail())

    assert verdict is not None
    assert isinstance(verdict.answer, Accepted)
    assert verdict.acceptance is not None
    assert verdict.acceptance.fate is Fate.DROPPED


def test_some_recipients_are_refused_on_http() -> None:
    no_bob = rule(RefuseRecipients(), ("http", "validate"), who=Who(recipient=Pattern(BOB)))
    it = provider(planned(no_bob))
    _, verdict = send(it, mail(BOB, ANN, dialect="native"))

    assert verdict is not None
    assert verdict.accepted == (ANN,)
    assert isinstance(verdict.answer, Accepted)
    assert [each.recipient for each in verdict.answer.refused] == [BOB]
    assert it.account("default", NOW).decisions[0].answer == "refuse 1 of 2 recipients"


def test_no_recipient_left_is_a_refusal() -> None:
    refused = refusal(provider(planned(rule(RefuseRecipients(), ("http", "validate")))), dialect="native")

    assert refused.reason is Reason.NO_RECIPIENTS
    assert [each.code for each in refused.refused] == [550]


def test_a_recipient_refused_in_the_dialogue_is_remembered_with_the_mail() -> None:
    """SMTP: the server hands in only whom it took; the ledger still knows who was refused."""
    it = provider(planned(rule(RefuseRecipients(), ("smtp", "rcpt"), who=Who(recipient=Pattern(BOB)))))
    attempt = it.open("smtp", "peer", NOW)

    assert it.step(attempt, "rcpt", Detail(recipient=BOB), NOW) is not None
    assert it.step(attempt, "rcpt", Detail(recipient=ANN), NOW) is None
    verdict = it.submit(attempt, mail(ANN), NOW)
    assert verdict.accepted == (ANN,)
    assert verdict.acceptance is not None
    assert [each.recipient for each in verdict.acceptance.refused] == [BOB]


@pytest.mark.parametrize(
    ("setup", "facts", "reason"),
    [
        (planned(keys=KeyRules(required=True)), {"dialect": "native"}, Reason.KEY_REQUIRED),
        (planned(limits=Limits(max_size_bytes=10)), {}, Reason.TOO_LARGE),
        (
            planned(limits=Limits(max_recipients=1)),
            {"dialect": "native", "key": "k"},
            Reason.TOO_MANY_RECIPIENTS,
        ),
    ],
    ids=["key", "size", "recipients"],
)
def test_the_provider_has_limits_of_its_own(setup: Setup, facts: dict[str, object], reason: Reason) -> None:
    it = provider(setup)
    _, verdict = send(it, mail(BOB, ANN, **facts))  # type: ignore[arg-type]

    assert verdict is not None
    assert isinstance(verdict.answer, Refused)
    assert verdict.answer.reason is reason
    assert booked(it) == 0


def test_smtp_needs_no_key() -> None:
    it = provider(planned(keys=KeyRules(required=True)))
    send(it, mail())

    assert booked(it) == 1


def test_a_mail_without_recipients_is_refused() -> None:
    it = provider()
    attempt = it.open("native", "peer", NOW)
    verdict = it.submit(attempt, replace(mail(dialect="native"), recipients=()), NOW)

    assert isinstance(verdict.answer, Refused)
    assert verdict.answer.reason is Reason.NO_RECIPIENTS
