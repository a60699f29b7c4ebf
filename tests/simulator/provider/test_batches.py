"""Several mails in one request: each an attempt of its own, one answer, one key for all of it or one for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulator.provider.answer import (
    Accepted,
    HangUp,
    InTurn,
    Reason,
    Refused,
    Reply,
    Results,
    RetryAfter,
    RetryAfterKind,
    TellFirst,
    Words,
)
from simulator.provider.batch import MODES, RESULTS, BatchRules
from simulator.provider.faults import HangUpOnThem, ReplyWith, TellBeforeTheAnswer
from simulator.provider.idempotency import KeyRules
from simulator.provider.ledger import Attempt, Booked, Sent, Tried
from simulator.provider.limits import Limits
from simulator.provider.lookup import Query
from simulator.provider.message import Submission
from simulator.provider.plan import Plan
from simulator.provider.provider import Detail, Provider, Setup, Verdict
from simulator.provider.rule import Pattern, Rule, When, Who
from tests.simulator.provider.mails import ANN, BOB, NOW, after, mail, provider

EVE = "eve@example.org"
MAILS = tuple(mail(to, dialect="native", subject=to) for to in (BOB, ANN, EVE))


def rule(fault: Any, stage: str, **who: str) -> Rule:
    patterns: dict[str, Any] = {name: Pattern(text) for name, text in who.items()}
    return Rule(
        name="r", fault=fault, stages=frozenset({("http", stage)}), who=Who(**patterns), when=When(first=1)
    )


def hand_in(
    it: Provider, *, key: str | None = None, mails: tuple[Submission, ...] = MAILS, fingerprint: str = "all"
) -> tuple[list[Attempt], Words | InTurn | None, Verdict | None]:
    """Take each mail of a batch, as a server does where one may be refused alone."""
    attempts = it.open_items(it.open("native", "peer", NOW), len(mails), NOW)
    met = it.begin_batch(attempts[0], key, fingerprint, NOW)
    if isinstance(met, InTurn):
        return attempts, met, None
    words = met or Results(
        items=tuple(it.take(attempt, each, NOW) for attempt, each in zip(attempts, mails, strict=True))
    )
    verdict = it.answer_batch(attempts, words, fingerprint, NOW)
    return attempts, met, verdict


def end(it: Provider, attempts: list[Attempt]) -> None:
    for attempt in reversed(attempts):
        it.told(attempt, Sent.COMPLETE, NOW)
        it.close(attempt, NOW)


def items(verdict: Verdict | None) -> tuple[Accepted | Refused | Reply, ...]:
    assert verdict is not None
    assert isinstance(verdict.words, Results)
    return verdict.words.items


def booked(it: Provider) -> list[tuple[str, ...]]:
    return [each.recipients for each in it.account("default", NOW).ledger.acceptances]


def test_each_mail_is_an_attempt_and_an_acceptance() -> None:
    it = provider()
    attempts, _, verdict = hand_in(it, key="k")

    assert [each.item for each in attempts] == [0, 1, 2]
    assert {each.batch for each in attempts} == {attempts[0].id}
    assert len({each.connection for each in attempts}) == 1
    assert booked(it) == [(BOB,), (ANN,), (EVE,)]
    assert verdict is not None
    assert verdict.accepted == (BOB, ANN, EVE)
    acceptances = it.account("default", NOW).ledger.acceptances
    assert [each.attempt for each in acceptances] == [each.id for each in attempts]
    assert {(each.key, each.batch) for each in acceptances} == {("k", attempts[0].id)}


def test_the_key_of_a_batch_finds_all_its_mails() -> None:
    it = provider()
    hand_in(it, key="k")

    assert [each.recipients for each in it.look_up(Query(key="k"), "default", NOW)] == [
        (BOB,),
        (ANN,),
        (EVE,),
    ]


@pytest.mark.parametrize("restart", [False, True])
def test_the_same_batch_again_is_the_same_answer(restart: bool) -> None:
    """Also of the mails that were refused; and after a restart."""
    it = provider(Setup(limits=Limits(max_size_bytes=len(MAILS[0].raw))))
    long = replace(MAILS[1], raw=MAILS[1].raw + b"longer")
    attempts, _, first = hand_in(it, key="k", mails=(MAILS[0], long))
    end(it, attempts)
    if restart:
        records = it.records()
        it = provider()
        it.restore([each for kind in (Booked, Tried) for each in records if isinstance(each, kind)], NOW)

    _, met, second = hand_in(it, key="k", mails=(MAILS[0], long))

    assert [type(each) for each in items(first)] == [Accepted, Refused]
    assert met == Results(items=items(first), replayed=True)
    assert second is not None
    assert second.accepted == ()
    assert booked(it) == [(BOB,)]


def test_a_replay_may_keep_the_ids_to_itself() -> None:
    it = provider(Setup(keys=KeyRules(finished="without_id")))
    hand_in(it, key="k")

    assert [each.shows_id for each in items(hand_in(it, key="k")[2]) if isinstance(each, Accepted)] == [
        False
    ] * 3


def test_another_batch_with_the_key_is_refused() -> None:
    it = provider()
    hand_in(it, key="k")
    _, met, verdict = hand_in(it, key="k", fingerprint="other")

    assert isinstance(met, Refused)
    assert met.reason is Reason.KEY_REUSED
    assert verdict is not None
    assert verdict.answer == met
    assert len(booked(it)) == 3


def test_a_batch_is_in_flight_until_it_is_answered() -> None:
    """Some of its mails are booked by then."""
    it = provider()
    attempts = it.open_items(it.open("native", "peer", NOW), 2, NOW)
    assert it.begin_batch(attempts[0], "k", "all", NOW) is None
    it.take(attempts[0], MAILS[0], NOW)

    met = hand_in(it, key="k")[1]

    assert isinstance(met, Refused)
    assert met.reason is Reason.KEY_IN_FLIGHT
    it.account("default", NOW).set_up(Setup(keys=KeyRules(in_flight="wait")), NOW)
    assert isinstance(hand_in(it, key="k")[1], InTurn)


def test_a_batch_that_breaks_off_lets_its_key_go() -> None:
    """Its first mail is taken, nothing was answered; the repetition finds nothing under the key but that mail."""
    it = provider()
    attempts = it.open_items(it.open("native", "peer", NOW), 2, NOW)
    it.begin_batch(attempts[0], "k", "all", NOW)
    end(it, attempts)

    assert hand_in(it, key="k")[1] is None


def test_each_mail_may_have_a_key_of_its_own() -> None:
    """Sent again, those that were taken are replayed and the others are tried anew."""
    it = provider(Setup(plan=Plan(rules=(rule(ReplyWith(code=503), "accept"),))))
    own = tuple(replace(each, key=f"k{number}") for number, each in enumerate(MAILS))
    attempts = it.open_items(it.open("native", "peer", NOW), 3, NOW)
    it.take(attempts[0], own[0], NOW)
    end(it, attempts)

    second = items(hand_in(it, mails=own)[2])

    assert [each.replayed for each in second] == [True, False, False]
    assert booked(it) == [(BOB,), (ANN,), (EVE,)]
    assert [each.key for each in it.account("default", NOW).ledger.acceptances] == ["k0", "k1", "k2"]


def test_a_key_of_the_batch_is_enough_where_keys_are_required() -> None:
    it = provider(Setup(keys=KeyRules(required=True)))

    assert all(isinstance(each, Refused) for each in items(hand_in(it)[2]))
    assert all(isinstance(each, Accepted) for each in items(hand_in(it, key="k")[2]))


@pytest.mark.parametrize("recipient", [BOB, EVE])
def test_a_rule_about_any_of_the_mails_strikes_the_answer(recipient: str) -> None:
    """There is one answer, and it is everybody's."""
    it = provider(Setup(plan=Plan(rules=(rule(HangUpOnThem(), "reply", recipient=recipient),))))
    attempts, _, verdict = hand_in(it)

    assert verdict is not None
    assert verdict.answer == HangUp()
    assert len(booked(it)) == 3
    assert {(each.rules, each.answer) for each in attempts} == {(("r",), "hang up")}
    (decision,) = it.account("default", NOW).decisions
    assert (decision.stage, decision.attempt) == ("reply", attempts[0].id)


@pytest.mark.parametrize(("lied", "copies"), [("replay_yes", 3), ("replay_error", 3), ("release", 6)])
def test_a_batch_may_be_lied_about(lied: str, copies: int) -> None:
    lie = rule(ReplyWith(code=500), "reply")
    it = provider(Setup(plan=Plan(rules=(lie,)), keys=KeyRules(lied=lied)))
    attempts, _, first = hand_in(it, key="k")
    end(it, attempts)
    _, met, _ = hand_in(it, key="k")

    assert first is not None
    assert first.answer == Reply(code=500)
    assert len(booked(it)) == copies
    match lied:
        case "replay_yes":
            assert isinstance(met, Results)
        case "replay_error":
            assert met == Reply(code=500, replayed=True)
        case _:
            assert met is None


def test_all_or_nothing_looks_before_it_takes() -> None:
    """What would be refused is said, and nothing is booked or counted."""
    it = provider(Setup(limits=Limits(max_size_bytes=len(MAILS[0].raw), rate_per_s=1)))
    attempts = it.open_items(it.open("native", "peer", NOW), 2, NOW)
    long = replace(MAILS[1], raw=MAILS[1].raw + b"longer")

    assert it.would_take(attempts[0], MAILS[0], NOW) is None
    refused = it.would_take(attempts[1], long, NOW)

    assert refused is not None
    assert refused.reason is Reason.TOO_LARGE
    assert booked(it) == []
    assert isinstance(it.take(attempts[0], MAILS[0], NOW), Accepted)


def test_what_exceeds_a_limit_together_is_owed() -> None:
    """Three at once where one may come: all are taken, and the next one waits for all of them."""
    it = provider(Setup(limits=Limits(rate_per_s=1)))
    attempts = it.open_items(it.open("native", "peer", NOW), 3, NOW)

    assert [it.would_take(attempt, each, NOW) for attempt, each in zip(attempts, MAILS, strict=True)] == [
        None
    ] * 3
    taken = [it.take(attempt, each, NOW, owed=True) for attempt, each in zip(attempts, MAILS, strict=True)]

    assert all(isinstance(each, Accepted) for each in taken)
    late = it.open("native", "peer", NOW)
    refused = it.would_take(late, MAILS[0], after(2.9))
    assert refused is not None
    assert refused.reason is Reason.RATE_LIMITED
    assert it.would_take(late, MAILS[0], after(3)) is None


@pytest.mark.parametrize("of_all", [False, True], ids=["of one mail", "of the request"])
def test_who_was_shown_no_header_was_not_told_to_wait(of_all: bool) -> None:
    """A result among others has no Retry-After; an answer to the whole request has one, and tells it."""
    wait = ReplyWith(code=429, retry_after=RetryAfter(kind=RetryAfterKind.SECONDS, seconds=25))
    it = provider(Setup(plan=Plan(rules=(rule(wait, "reply" if of_all else "accept"),))))
    attempts = it.open_items(it.open("native", "peer", NOW), 2, NOW)
    held = it.step(attempts[0], "accept", Detail(recipients=MAILS[0].recipients), NOW)
    assert isinstance(held, Reply) is not of_all
    first = held if isinstance(held, Reply) else it.take(attempts[0], MAILS[0], NOW)
    words = Results(items=(first, it.take(attempts[1], MAILS[1], NOW)))

    it.answer_batch(attempts, words, "all", NOW)
    end(it, attempts)

    assert [[advice.wait_s for advice in each.advice] for each in attempts] == [[25.0] if of_all else [], []]


def test_the_usual_choices_are_choices() -> None:
    assert BatchRules().mode in MODES
    assert BatchRules().results in RESULTS


@pytest.mark.parametrize("breaks", [False, True], ids=["said", "broken off"])
def test_events_of_a_batch_are_told_before_its_answer(breaks: bool) -> None:
    """Of those mails that a rule means and that were taken; the longest wait counts, whatever becomes of the answer."""
    early = [
        Rule(
            name=f"early {to}",
            fault=TellBeforeTheAnswer(within_s=within_s),
            stages=frozenset({("http", "accept")}),
            who=Who(recipient=Pattern(to)),
        )
        for to, within_s in ((BOB, 2.0), (EVE, 7.0))
    ]
    ends = [rule(HangUpOnThem(), "reply")] if breaks else []
    it = provider(Setup(plan=Plan(rules=(*early, *ends))))
    attempts = it.open_items(it.open("native", "peer", NOW), len(MAILS), NOW)
    words = []
    for attempt, each in zip(attempts, MAILS, strict=True):
        known = Detail(recipients=each.recipients, fingerprint=each.fingerprint)
        assert it.step(attempt, "accept", known, NOW) is None
        words.append(it.take(attempt, each, NOW))
    verdict = it.answer_batch(attempts, Results(items=tuple(words)), "all", NOW)

    said = HangUp() if breaks else verdict.words
    assert verdict.answer == TellFirst(within_s=7.0, attempts=(attempts[0].id, attempts[2].id), then=said)
    assert verdict.accepted == (BOB, ANN, EVE)
