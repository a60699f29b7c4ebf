"""The stages before booking: who an attempt belongs to, and keys that are claimed."""

from __future__ import annotations

import pytest

from simulator.provider.answer import (
    Accepted,
    Hold,
    Reason,
    Refused,
    Reply,
    Slow,
)
from simulator.provider.faults import (
    Fault,
    HoldTheAnswer,
    ReplyWith,
    SlowDown,
)
from simulator.provider.idempotency import KeyRules
from simulator.provider.provider import Detail
from simulator.provider.rule import When
from tests.simulator.provider.mails import (
    KEYED,
    NOW,
    booked,
    keyed,
    mail,
    planned,
    provider,
    rule,
    send,
)


def test_an_answer_before_booking_books_nothing() -> None:
    it = provider(planned(rule(ReplyWith(code=451), ("smtp", "message"))))
    attempt, verdict = send(it, mail())

    assert verdict is None
    assert booked(it) == 0
    assert attempt.rules == ("r",)
    assert [each.answer for each in it.account("default", NOW).decisions] == ["451"]


def test_a_credential_moves_an_attempt_to_its_account() -> None:
    it = provider()
    it.account("a", NOW)
    attempt = it.open("smtp", "peer", NOW)
    it.step(attempt, "auth", Detail(credential="a"), NOW)
    it.submit(attempt, mail(), NOW)

    assert (booked(it, "a"), booked(it)) == (1, 0)
    assert list(it.account("a", NOW).attempts) == [attempt.id]
    assert it.account("default", NOW).attempts == {}


@pytest.mark.parametrize("fault", [SlowDown(delay_s=1), HoldTheAnswer()], ids=["slow", "held"])
def test_a_mail_that_is_only_delayed_is_in_flight(fault: Fault) -> None:
    it = provider(planned(rule(fault, ("http", "accept"))))
    first = it.open("native", "peer", NOW)
    second = it.open("native", "peer", NOW)
    known = Detail(key="k", fingerprint=KEYED.fingerprint)
    it.step(first, "accept", known, NOW)

    answer = it.step(second, "accept", known, NOW)
    assert isinstance(answer, Slow | Hold)
    assert isinstance(answer.then, Refused)
    assert answer.then.reason is Reason.KEY_IN_FLIGHT


def test_a_refused_mail_is_not_in_flight() -> None:
    """Who is told 503 may come again at once, even if the server has not tidied up yet."""
    it = provider(planned(rule(ReplyWith(code=503), ("http", "accept"), when=When(times=1))))
    known = Detail(key="k", fingerprint=KEYED.fingerprint)

    assert it.step(it.open("native", "peer", NOW), "accept", known, NOW) == Reply(code=503)
    assert it.step(it.open("native", "peer", NOW), "accept", known, NOW) is None


def test_a_key_is_in_flight_until_its_attempt_is_over() -> None:
    it = provider()
    first = it.open("native", "peer", NOW)
    second = it.open("native", "peer", NOW)
    known = Detail(key="k", fingerprint=KEYED.fingerprint)

    assert it.step(first, "accept", known, NOW) is None
    conflict = it.step(second, "accept", known, NOW)
    assert isinstance(conflict, Refused)
    assert conflict.reason is Reason.KEY_IN_FLIGHT
    it.close(first, NOW)
    assert it.step(second, "accept", known, NOW) is None


def test_an_error_before_the_work_began_is_not_stored() -> None:
    """What the sender did wrong it may put right with the same key."""
    bad = rule(ReplyWith(code=503), ("http", "validate"), when=When(first=1))
    it = provider(planned(bad, keys=KeyRules(failed="replay")))
    attempt = it.open("native", "peer", NOW)
    assert it.step(attempt, "validate", Detail(key="k", fingerprint="f"), NOW) == Reply(code=503)
    it.close(attempt, NOW)

    assert isinstance(keyed(it), Accepted)
