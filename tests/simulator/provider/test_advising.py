"""What a sender is told about coming back is known of it once it has heard that, and not before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.provider.advising import Advising
from simulator.provider.answer import Answer, HangUp, Reason, Refused, Reply, RetryAfter, RetryAfterKind, Slow
from simulator.provider.ledger import Advice, Attempt, Sent, ToldBy
from simulator.provider.strike import Held
from tests.simulator.provider.mails import BOB, NOW, after

LATER = RetryAfter(kind=RetryAfterKind.SECONDS, seconds=30)
NO = Reply(code=503, retry_after=LATER)


def attempt(dialect: str = "native") -> Attempt:
    return Attempt(
        id="att_1", number=1, account="a", dialect=dialect, connection="c", peer="p", opened_at=NOW
    )


def heard(answer: Answer | None, sent: Sent = Sent.COMPLETE, dialect: str = "native") -> tuple[Advice, ...]:
    it, who = Advising(), attempt(dialect)
    it.says(who, answer)
    it.was_sent(who, sent, after(1))
    return who.advice


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        (NO, (Advice(wait_s=30, at=after(1), by=ToldBy.HEADER),)),
        (Slow(delay_s=9, then=NO), (Advice(wait_s=30, at=after(1), by=ToldBy.HEADER),)),
        (
            replace(NO, retry_after=RetryAfter(kind=RetryAfterKind.DATE, seconds=5)),
            (Advice(wait_s=5, at=after(1), by=ToldBy.DATE),),
        ),
        (replace(NO, retry_after=RetryAfter(kind=RetryAfterKind.ZERO)), ()),
        (replace(NO, retry_after=RetryAfter(kind=RetryAfterKind.GARBAGE)), ()),
        (Reply(code=503), ()),
        (HangUp(), ()),
        (None, ()),
    ],
    ids=str,
)
def test_what_is_said(answer: Answer | None, advice: tuple[Advice, ...]) -> None:
    assert heard(answer) == advice


def test_over_smtp_it_is_words() -> None:
    assert [each.by for each in heard(NO, dialect="smtp")] == [ToldBy.TEXT]


@pytest.mark.parametrize("sent", [Sent.NOTHING, Sent.PARTIAL])
def test_what_was_not_heard_was_not_told(sent: Sent) -> None:
    assert heard(NO, sent) == ()


def test_as_long_as_nobody_knows_it_may_still_be_heard() -> None:
    it, who = Advising(), attempt()
    it.says(who, NO)
    it.was_sent(who, Sent.UNKNOWN, NOW)
    it.was_sent(who, Sent.COMPLETE, after(1))
    it.was_sent(who, Sent.COMPLETE, after(2))

    assert [each.at for each in who.advice] == [after(1)]


def test_the_limit_is_told_with_it_once() -> None:
    it, who = Advising(), attempt()
    words = Refused(reason=Reason.RATE_LIMITED, detail="", retry_after=LATER)
    it.because_of("att_0", Held(rule="limit: l", words=words, limit="l", per="ip", scope="10.0.0.1"))
    it.instead("att_0", who.id)
    it.instead("att_7", who.id)
    for _ in range(2):
        it.says(who, words, BOB)
        it.was_sent(who, Sent.COMPLETE, NOW)

    assert [(each.limit, each.per, each.scope, each.recipient) for each in who.advice] == [
        ("l", "ip", "10.0.0.1", BOB),
        (None, None, "", BOB),
    ]


def test_what_is_forgotten_is_not_told() -> None:
    it, who = Advising(), attempt()
    it.says(who, NO)
    it.forget(who.id)
    it.was_sent(who, Sent.COMPLETE, NOW)

    assert who.advice == ()
