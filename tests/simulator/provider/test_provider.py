"""The provider's three questions, and that the same script gives the same ledger, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.answer import (
    Accepted,
    HangUp,
    Hold,
    InTurn,
    Reason,
    Refused,
    Reply,
    RetryAfter,
    RetryAfterKind,
    Slow,
    TellFirst,
    Truncate,
)
from simulator.provider.fate import Destiny, Fate, suppressed
from simulator.provider.faults import (
    FAULTS,
    DecideFate,
    Drop,
    Fault,
    HangUpOnThem,
    HoldTheAnswer,
    RefuseRecipients,
    ReplyWith,
    SlowDown,
    TellBeforeTheAnswer,
    TruncateTheReply,
)
from simulator.provider.idempotency import KeyRules
from simulator.provider.ledger import Acceptance, AttemptState, Booked, Decided, NoPast, Sent, Tried, Wiped
from simulator.provider.limits import Limits
from simulator.provider.lookup import Query
from simulator.provider.obligations import Obligation
from simulator.provider.plan import Pattern, Per, Plan, Rule, When, Who
from simulator.provider.provider import Detail, Provider, Setup
from simulator.provider.suppression import Suppression
from tests.simulator.provider.faults.samples import sample
from tests.simulator.provider.mails import ANN, BOB, NOW, after, mail, provider, send

SMTP_REPLY = frozenset({("smtp", "reply")})


def planned(*rules: Rule, seed: int = 0, keys: KeyRules = KeyRules(), limits: Limits = Limits()) -> Setup:
    return Setup(plan=Plan(rules=rules, seed=seed), keys=keys, limits=limits)


def rule(
    fault: Fault, *stages: tuple[str, str], name: str = "r", who: Who = Who(), when: When = When()
) -> Rule:
    return Rule(name=name, fault=fault, stages=frozenset(stages), who=who, when=when)


def refusal(of: Provider, submission_count: int = 1, **mail_facts: object) -> Refused:
    answer: object = None
    for _ in range(submission_count):
        _, verdict = send(of, mail(**mail_facts))  # type: ignore[arg-type]
        assert verdict is not None
        answer = verdict.answer
    assert isinstance(answer, Refused)
    return answer


def booked(of: Provider, account: str = "default") -> int:
    return len(of.account(account, NOW).ledger.acceptances)


# --- accepting --------------------------------------------------------------------------------------


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


def test_the_records_of_a_mail_are_complete_and_in_order() -> None:
    """The attempt is known before the acceptance that names it, and the bytes come with the acceptance."""
    it = provider()
    attempt, _ = send(it, mail())
    records = it.records()

    assert [type(each) for each in records] == [Tried, Booked, Tried]
    assert isinstance(records[1], Booked)
    assert records[1].raw == mail().raw
    assert records[1].acceptance.attempt == attempt.id
    assert isinstance(records[-1], Tried)
    assert records[-1].attempt == attempt
    assert it.records() == []


def test_an_answer_before_booking_books_nothing() -> None:
    it = provider(planned(rule(ReplyWith(code=451), ("smtp", "message"))))
    attempt, verdict = send(it, mail())

    assert verdict is None
    assert booked(it) == 0
    assert attempt.rules == ("r",)
    assert [each.answer for each in it.account("default", NOW).decisions] == ["451"]


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


@pytest.mark.parametrize(
    ("dialect", "place"), [("smtp", ("smtp", "message")), ("native", ("http", "accept"))]
)
def test_a_rule_decides_the_fate_of_those_it_means(dialect: str, place: tuple[str, str]) -> None:
    """The first rule that means a recipient counts; whom none means is delivered to."""
    it = provider(
        planned(
            rule(DecideFate(fate=Fate.HARD_BOUNCE, after_s=3), place, who=Who(recipient=Pattern(BOB))),
            rule(DecideFate(fate=Fate.OPENED), place, who=Who(recipient=Pattern("b*"))),
        )
    )
    _, verdict = send(it, mail(BOB, ANN, dialect=dialect))

    assert verdict is not None
    assert isinstance(verdict.answer, Accepted)
    assert verdict.acceptance is not None
    assert verdict.acceptance.fate is Fate.DELIVERED
    assert verdict.acceptance.destinies == ((BOB, Destiny(fate=Fate.HARD_BOUNCE, after_s=3)),)
    assert verdict.acceptance.destiny_of(ANN).fate is Fate.DELIVERED
    assert [each.answer for each in it.accounts["default"].decisions] == ["fate: hard_bounce"]


def test_a_fate_that_all_share_is_the_mails() -> None:
    _, verdict = send(
        provider(planned(rule(DecideFate(fate=Fate.COMPLAINT), ("smtp", "message")))), mail(BOB, ANN)
    )

    assert verdict is not None
    assert verdict.acceptance is not None
    assert verdict.acceptance.fate is Fate.COMPLAINT


def test_the_answer_may_go_wrong_whatever_the_fate() -> None:
    """A rule of fate leaves the answer to later rules."""
    it = provider(
        planned(
            rule(DecideFate(fate=Fate.OPENED), ("smtp", "message")),
            rule(ReplyWith(code=451), ("smtp", "message")),
        )
    )
    _, verdict = send(it, mail())

    assert verdict is None
    assert it.accounts["default"].decisions[0].rules == ("r", "r")


@pytest.mark.parametrize(
    ("dialect", "place"), [("smtp", ("smtp", "message")), ("native", ("http", "accept"))]
)
def test_events_may_come_before_the_answer(dialect: str, place: tuple[str, str]) -> None:
    """What becomes of the mail happens at once, unless a rule says when; what is said is said after it."""
    it = provider(
        planned(
            rule(TellBeforeTheAnswer(within_s=4), place),
            rule(DecideFate(fate=Fate.HARD_BOUNCE, after_s=9), place, who=Who(recipient=Pattern(ANN))),
            rule(HangUpOnThem(), (place[0], "reply")),
        )
    )
    _, verdict = send(it, mail(BOB, ANN, dialect=dialect))
    log = it.accounts["default"].aftermath.events
    log.advance(NOW)

    assert verdict is not None
    assert verdict.answer == TellFirst(within_s=4, then=HangUp())
    assert [(event.type, event.recipient) for _, event in log.since(0)] == [
        ("email.accepted", BOB),
        ("email.delivered", BOB),
        ("email.accepted", ANN),
    ]


# --- suppression ------------------------------------------------------------------------------------

BOUNCES = rule(DecideFate(fate=Fate.HARD_BOUNCE, after_s=3), ("smtp", "message"), when=When(times=1))


def fates(of: Provider) -> list[Fate]:
    return [each.fate for each in of.accounts["default"].ledger.acceptances]


def test_an_address_that_bounced_is_suppressed_from_then_on() -> None:
    """Not before the bounce has happened, and not in other accounts."""
    it = provider(planned(BOUNCES))
    for seconds in (0.0, 2.9, 3.0):
        send(it, mail(BOB), after(seconds))
    send(it, mail(ANN), after(4))
    send(it, mail(BOB), after(4), account="other")

    assert fates(it) == [Fate.HARD_BOUNCE, Fate.DELIVERED, Fate.SUPPRESSED, Fate.DELIVERED]
    assert [each.fate for each in it.accounts["other"].ledger.acceptances] == [Fate.HARD_BOUNCE]


def test_a_suppressed_address_stays_so_over_a_restart_and_can_be_lifted() -> None:
    first = provider(planned(BOUNCES))
    send(first, mail(BOB))
    it = provider(planned())
    it.restore(first.records(), after(5))
    send(it, mail(BOB), after(5))

    it.remember(it.accounts["default"].aftermath.lift(BOB.upper()))
    send(it, mail(BOB), after(7))
    again = provider(planned())
    again.restore([*it.records()], after(8))
    send(again, mail(BOB), after(8))

    assert fates(it) == [Fate.HARD_BOUNCE, Fate.SUPPRESSED, Fate.DELIVERED]
    assert fates(again)[-1] is Fate.DELIVERED


def test_an_address_can_be_suppressed_by_hand() -> None:
    """One of several recipients is suppressed; the mail goes to the other. A reset forgets the list."""
    it = provider()
    it.remember(
        it.accounts["default"].aftermath.suppress(Suppression(address=BOB, reason="manual", since=NOW))
    )
    _, verdict = send(it, mail(BOB, ANN))

    assert verdict is not None
    assert verdict.acceptance is not None
    assert verdict.acceptance.destinies == ((BOB, suppressed("manual")),)
    it.reset("default", NOW)
    send(it, mail(BOB))
    assert fates(it) == [Fate.DELIVERED]


def test_what_happens_to_mail_is_told_again_after_a_restart() -> None:
    first = provider(planned(BOUNCES))
    send(first, mail(BOB))
    it = provider(planned())
    it.restore(first.records(), after(5))
    logs = [each.accounts["default"].aftermath.events for each in (first, it)]
    for log in logs:
        log.advance(after(5))

    assert [event.type for _, event in logs[0].since(0)] == ["email.accepted", "email.bounced"]
    assert list(logs[0].since(0)) == list(logs[1].since(0))


# --- keys -------------------------------------------------------------------------------------------


def keyed(
    it: Provider, now_s: float = 0, *, key: str = "k", subject: str = "Hello", end: bool = True
) -> object:
    """Hand in a mail with a key; return what is said."""
    submission = mail(dialect="native", key=key, subject=subject)
    attempt = it.open("native", "peer", after(now_s))
    known = Detail(recipients=submission.recipients, key=key, fingerprint=submission.fingerprint)
    answer = it.step(attempt, "accept", known, after(now_s))
    if answer is None:
        answer = it.submit(attempt, submission, after(now_s)).answer
    if end:
        it.told(attempt, Sent.COMPLETE, after(now_s))
        it.close(attempt, after(now_s))
    return answer


def restarted(it: Provider) -> Provider:
    """Return a provider that knows what a store would have kept of this one, sorted as stores sort."""
    records = it.records()
    again = provider(it._setup)
    again.restore([each for kind in (Booked, Tried) for each in records if isinstance(each, kind)], NOW)
    return again


FIRST_503 = rule(ReplyWith(code=503), ("http", "accept"), when=When(first=1))
FIRST_LIE = rule(ReplyWith(code=500, body="<html>"), ("http", "reply"), when=When(first=1))


@pytest.mark.parametrize(
    ("failed", "second"),
    [
        ("release", "accepted"),
        ("replay", Reply(code=503, replayed=True)),
        ("refuse", Reason.KEY_FAILED),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
def test_what_a_key_remembers_of_a_failure(failed: str, second: object, restart: bool) -> None:
    """Nothing was booked; whether the error sticks to the key is a setting, and survives a restart."""
    it = provider(planned(FIRST_503, keys=KeyRules(failed=failed, window_s=60)))
    assert keyed(it) == Reply(code=503)
    if restart:
        it = restarted(it)
        it.heal("default", NOW)

    said = keyed(it)

    if isinstance(said, Accepted):
        said = "accepted"
    assert (said.reason if isinstance(said, Refused) else said) == second
    assert booked(it) == (1 if failed == "release" else 0)
    assert isinstance(keyed(it, 60), Accepted)


def test_an_error_before_the_work_began_is_not_stored() -> None:
    """What the sender did wrong it may put right with the same key."""
    bad = rule(ReplyWith(code=503), ("http", "validate"), when=When(first=1))
    it = provider(planned(bad, keys=KeyRules(failed="replay")))
    attempt = it.open("native", "peer", NOW)
    assert it.step(attempt, "validate", Detail(key="k", fingerprint="f"), NOW) == Reply(code=503)
    it.close(attempt, NOW)

    assert isinstance(keyed(it), Accepted)


def test_a_refusal_of_every_recipient_is_stored_like_a_failure() -> None:
    it = provider(planned(rule(RefuseRecipients(), ("http", "validate")), keys=KeyRules(failed="replay")))
    submission = mail(dialect="native", key="k")
    _, first = send(it, submission)
    it.heal("default", NOW)
    _, second = send(it, submission)

    assert first is not None
    assert second is not None
    assert isinstance(first.words, Refused)
    assert second.words == replace(first.words, replayed=True)


@pytest.mark.parametrize(
    ("lied", "second", "copies"),
    [
        ("replay_yes", "accepted (replayed)", 1),
        ("replay_error", Reply(code=500, body="<html>", replayed=True), 1),
        ("release", "accepted", 2),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
def test_what_a_key_remembers_of_a_lie(lied: str, second: object, copies: int, restart: bool) -> None:
    """It was booked and answered with an error: the truth, the lie, or nothing at all is remembered."""
    it = provider(planned(FIRST_LIE, keys=KeyRules(lied=lied)))
    assert keyed(it) == Reply(code=500, body="<html>")
    if restart:
        it = restarted(it)
        it.heal("default", NOW)

    said = keyed(it)

    if isinstance(said, Accepted):
        said = "accepted (replayed)" if said.replayed else "accepted"
    assert said == second
    assert booked(it) == copies


def test_a_success_without_its_id() -> None:
    it = provider(planned(keys=KeyRules(finished="without_id")))
    first, second = keyed(it), keyed(it)

    assert isinstance(first, Accepted)
    assert second == replace(first, replayed=True, shows_id=False)


def test_who_waits_for_the_request_in_front_asks_again() -> None:
    it = provider(planned(keys=KeyRules(in_flight="wait", in_flight_s=7)))
    front, behind = it.open("native", "a", NOW), it.open("native", "b", NOW)
    submission = mail(dialect="native", key="k")
    known = Detail(key="k", fingerprint=submission.fingerprint)
    assert it.step(front, "accept", known, NOW) is None

    turn = it.step(behind, "accept", known, NOW)

    assert isinstance(turn, InTurn)
    assert turn.for_s == 7
    assert isinstance(turn.then, Refused)
    assert turn.then.retry_after == RetryAfter(kind=RetryAfterKind.SECONDS, seconds=7.0)
    assert isinstance(it.claim(behind, known, NOW), InTurn)
    it.submit(front, submission, NOW)
    it.close(front, NOW)
    assert it.claim(behind, known, NOW) is None
    words = it.submit(behind, submission, NOW).words
    assert isinstance(words, Accepted)
    assert words.replayed


def test_the_same_key_in_two_accounts_is_two_keys() -> None:
    it = provider()
    it.account("x", NOW)
    submission = mail(dialect="native", key="k")

    assert [send(it, submission, account=name)[1].accepted for name in ("default", "x")] == [(BOB,), (BOB,)]  # type: ignore[union-attr]


def test_what_lies_ahead_is_taken_up_after_a_restart_though_the_window_is_past() -> None:
    """A complaint of tomorrow about a mail that is long out of memory; one that is gone from the ledger is forgotten."""
    far = rule(DecideFate(fate=Fate.COMPLAINT, after_s=86_400), ("smtp", "message"), when=When(times=2))
    first = provider(planned(far))
    for each in (BOB, ANN):
        send(first, mail(each))
    records = first.records()
    (old, _) = (each.acceptance for each in records if isinstance(each, Booked))
    it = provider(planned())
    it.restore([each for each in records if not isinstance(each, Booked | Tried)], after(60))
    it.accounts["default"].ledger.past = OnlyPast(old)
    it.accounts["default"].ledger._newest = 99
    it.take_up(after(60))
    log = it.accounts["default"].aftermath.events
    log.advance(after(90_000))

    assert [(event.type, event.recipient) for _, event in log.since(0)][-1] == ("email.complained", BOB)
    assert it.accounts["default"].aftermath.ahead().keys() == {old.id}


class OnlyPast(NoPast):
    """A store that knows one mail."""

    def __init__(self, acceptance: Acceptance) -> None:
        self._acceptance = acceptance

    def get(self, account: str, id_: str) -> Acceptance | None:
        return self._acceptance if id_ == self._acceptance.id else None


# --- refusing ---------------------------------------------------------------------------------------


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


def test_a_rate_is_told_in_whole_seconds() -> None:
    refused = refusal(provider(planned(limits=Limits(rate_per_s=0.4))), 2, dialect="native")

    assert refused.reason is Reason.RATE_LIMITED
    assert refused.retry_after == RetryAfter(kind=RetryAfterKind.SECONDS, seconds=3.0)


def test_a_mail_without_recipients_is_refused() -> None:
    it = provider()
    attempt = it.open("native", "peer", NOW)
    verdict = it.submit(attempt, replace(mail(dialect="native"), recipients=()), NOW)

    assert isinstance(verdict.answer, Refused)
    assert verdict.answer.reason is Reason.NO_RECIPIENTS


# --- keys -------------------------------------------------------------------------------------------

KEYED = mail(dialect="native", key="k")


def test_a_repeated_key_gets_the_first_answer_and_books_nothing() -> None:
    """Even past a limit that the second request would break: keys are looked up before any other check."""
    it = provider(planned(limits=Limits(rate_per_s=0.001)))
    _, first = send(it, KEYED)
    _, second = send(it, KEYED)

    assert first is not None
    assert second is not None
    assert isinstance(first.answer, Accepted)
    assert second.answer == replace(first.answer, replayed=True)
    assert second.accepted == ()
    assert booked(it) == 1


def test_a_key_with_another_body_is_refused() -> None:
    it = provider()
    send(it, KEYED)
    _, verdict = send(it, mail(dialect="native", key="k", subject="Other"))

    assert verdict is not None
    assert isinstance(verdict.answer, Refused)
    assert verdict.answer.reason is Reason.KEY_REUSED


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


def test_a_forgotten_key_books_again() -> None:
    it = provider(planned(keys=KeyRules(window_s=60)))
    send(it, KEYED)
    send(it, KEYED, after(59))
    assert booked(it) == 1
    send(it, KEYED, after(60))

    assert booked(it) == 2


def test_keys_that_are_not_honoured_mean_nothing() -> None:
    it = provider(planned(keys=KeyRules(honoured=False)))
    send(it, KEYED)
    send(it, KEYED)

    assert booked(it) == 2


def test_a_look_up_may_lag() -> None:
    it = provider(planned(keys=KeyRules(lookup_lag_s=5)))
    send(it, KEYED)
    found = it.account("default", NOW).ledger.with_key("k")

    assert it.look_up(Query(key="k"), "default", after(4.9)) == []
    assert it.look_up(Query(key="k"), "default", after(5)) == found


# --- accounts ---------------------------------------------------------------------------------------


def test_accounts_do_not_meet() -> None:
    it = provider()
    it.set_up("a", planned(rule(ReplyWith(code=451), ("smtp", "message"))), NOW)
    send(it, mail(), account="a")
    send(it, mail())

    assert (booked(it, "a"), booked(it)) == (0, 1)


def test_a_credential_moves_an_attempt_to_its_account() -> None:
    it = provider()
    it.account("a", NOW)
    attempt = it.open("smtp", "peer", NOW)
    it.step(attempt, "auth", Detail(credential="a"), NOW)
    it.submit(attempt, mail(), NOW)

    assert (booked(it, "a"), booked(it)) == (1, 0)
    assert list(it.account("a", NOW).attempts) == [attempt.id]
    assert it.account("default", NOW).attempts == {}


def test_an_unknown_credential_belongs_to_the_default_account() -> None:
    it = provider()

    assert it.account_of("nobody") == it.account_of(None) == "default"


def test_healing_takes_the_rules_and_leaves_the_rest() -> None:
    it = provider(planned(rule(ReplyWith(code=451), ("smtp", "message")), limits=Limits(max_recipients=5)))
    it.heal("default", NOW)
    send(it, mail())

    assert booked(it) == 1
    assert it.account("default", NOW).setup.limits == Limits(max_recipients=5)


def test_added_rules_leave_the_counts_of_the_others() -> None:
    it = provider(planned(rule(ReplyWith(code=451), ("smtp", "message"), when=When(first=1))))
    send(it, mail())
    it.add_rules("default", [rule(HangUpOnThem(), ("smtp", "reply"), name="late")], NOW)
    _, verdict = send(it, mail())

    assert verdict is not None
    assert verdict.answer == HangUp()
    assert [(each.seen, each.fired) for each in it.account("default", NOW).plan.tally(NOW)] == [
        (2, 1),
        (1, 1),
    ]


def test_a_reset_forgets_everything() -> None:
    it = provider()
    send(it, KEYED)
    it.owe([Obligation(account="default", ref="o", recipient=BOB)], NOW)
    it.reset("default", NOW)
    account = it.account("default", NOW)

    assert (account.ledger.acceptances, account.attempts, account.obligations) == ([], {}, {})
    assert it.records()[-1] == Wiped(account="default")
    send(it, KEYED)
    assert booked(it) == 1


def test_an_attempt_that_ended_before_a_reset_does_not_come_back() -> None:
    """QUIT on a pooled connection asks for the attempt that ended long ago; a new time knows nothing of it."""
    it = Provider(now=NOW)
    attempt = it.open("smtp", "peer", NOW)
    it.close(attempt, NOW)
    it.reset("default", NOW)

    it.step(attempt, "quit", Detail(credential="somebody"), NOW)

    assert it.account("default", NOW).attempts == {}


def test_an_attempt_open_over_a_reset_ends_in_peace() -> None:
    """It is forgotten; only if it goes on does it belong to the new time."""
    it = provider()
    idle, going_on = it.open("smtp", "peer", NOW), it.open("smtp", "peer", NOW)
    it.account("a", NOW)
    it.reset("default", NOW)
    it.records()
    it.told(idle, Sent.NOTHING, NOW)
    it.close(idle, NOW)
    assert it.records() == []
    it.step(going_on, "auth", Detail(credential="a"), NOW)
    it.submit(going_on, mail(), NOW)

    assert booked(it, "a") == 1
    assert idle.id not in it.account("default", NOW).attempts


def test_a_closed_attempt_is_closed_once() -> None:
    it = provider()
    attempt = it.open("smtp", "peer", NOW)
    it.close(attempt, after(1))
    it.close(attempt, after(2))

    assert attempt.state is AttemptState.CLOSED
    assert attempt.closed_at == after(1)
    assert len(it.records()) == 1


def test_the_judge_reads_promises_and_ledger() -> None:
    it = provider()
    it.owe([Obligation(account="default", ref="o", recipient=BOB)], NOW)
    send(it, mail())
    assert it.judge("default", NOW).valid is True
    it.owe([Obligation(account="default", ref="o", recipient=BOB.upper(), copies=2)], NOW)

    assert it.judge("default", NOW).valid is None
    assert it.judge("default", NOW, final=True).valid is False


# --- restarts ---------------------------------------------------------------------------------------


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

    assert [type(each) for each in records] == [Decided]
    assert again.open("smtp", "peer", NOW).id != attempt.id


#: One action of a script: what to do, to whom, with which key, after how many seconds.
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["smtp", "native", "owe", "reset", "heal"]),
        st.sampled_from([(BOB,), (ANN,), (BOB, ANN)]),
        st.sampled_from([None, "k1", "k2"]),
        st.sampled_from([0.0, 0.5, 40.0]),
        st.sampled_from(["default", "other"]),
    ),
    max_size=25,
)

FAULT_VALUES = tuple(sample(name) for name in FAULTS)
PLACES = [
    (wire, stage)
    for wire, stages in {
        "smtp": ("mail", "rcpt", "message", "reply"),
        "http": ("validate", "accept", "reply", "body"),
    }.items()
    for stage in stages
]
RULES = st.builds(
    lambda number, fault, place, when, per, sticks: Rule(
        name=f"rule {number}",
        fault=fault,
        stages=frozenset({place}),
        when=when,
        per=per,
        sticks_to_mail=sticks,
    ),
    st.integers(1, 9),
    st.sampled_from(FAULT_VALUES),
    st.sampled_from(PLACES),
    st.builds(
        When,
        first=st.sampled_from([None, 2]),
        every=st.sampled_from([None, 2]),
        probability=st.sampled_from([None, 0.5]),
        times=st.sampled_from([None, 3]),
        until_s=st.sampled_from([None, 60.0]),
    ),
    st.sampled_from(Per),
    st.booleans(),
)
Script = list[tuple[str, tuple[str, ...], str | None, float, str]]


def play(it: Provider, script: Script) -> None:
    now = NOW
    for number, (what, recipients, key, pause_s, account) in enumerate(script):
        now = max(now, after(number * 0.1)) + (after(pause_s) - NOW)
        match what:
            case "owe":
                it.owe([Obligation(account=account, ref=f"o{number}", recipient=recipients[0])], now)
            case "reset":
                it.reset(account, now)
            case "heal":
                it.heal(account, now)
            case dialect:
                send(
                    it,
                    mail(*recipients, dialect=dialect, key=key if dialect == "native" else None),
                    now,
                    account=account,
                )


def told(it: Provider) -> list[str]:
    """Return all that a provider remembers, as lines."""
    lines = []
    for name in sorted(it.accounts):
        account = it.accounts[name]
        lines += [f"account {name} {account.booked}", *account.ledger.dump()]
        lines += [str(each) for each in account.attempts.values()]
        lines += [str(each) for each in account.decisions]
        lines += [str(each) for each in account.obligations.values()]
    return lines


@settings(deadline=None)
@given(st.lists(RULES, max_size=4), ACTIONS, st.integers(0, 3))
def test_the_same_seed_plan_and_inputs_give_the_same_ledger(
    rules: list[Rule], script: Script, seed: int
) -> None:
    """Byte for byte, with everything around it: attempts, decisions, promises, counts."""
    first, second = (provider(planned(*rules, seed=seed), seed=seed) for _ in range(2))
    play(first, script)
    play(second, script)

    assert told(first) == told(second)
    assert first.records() == second.records()
    for name in first.accounts:
        assert first.accounts[name].plan.tally(NOW) == second.accounts[name].plan.tally(NOW)


@settings(deadline=None)
@given(st.lists(RULES, max_size=4), ACTIONS, st.booleans())
def test_a_restored_provider_is_an_equal_one(rules: list[Rule], script: Script, honoured: bool) -> None:
    """It remembers the same and gives the same names; only the counts of a plan begin anew."""
    setup = planned(*rules, keys=KeyRules(honoured=honoured, window_s=100))
    lived = provider(setup)
    play(lived, script)
    restored = provider(setup)
    restored.restore(lived.records(), NOW)
    # An account that only was named and never did anything leaves no record.
    for name in lived.accounts:
        restored.account(name, NOW)

    assert told(restored) == told(lived)
    assert restored.records() == []
    for it in (lived, restored):
        for name in list(it.accounts):
            it.set_up(name, Setup(), after(10_000))
    for key in ("k1", "k2"):
        for name in lived.accounts:
            one, other = (
                send(it, mail(dialect="native", key=key), after(10_000), account=name)
                for it in (lived, restored)
            )
            assert one[1] == other[1]


def test_hash_seeds_do_not_matter() -> None:
    """Sets and dicts are ordered differently in every process; the ledger must not be."""
    root = Path(__file__).resolve().parents[3]
    script = (
        "from tests.simulator.provider.test_provider import *\n"
        "rules = [Rule(name=f'r{n}', fault=fault, stages=frozenset(PLACES) & "
        "frozenset((w, s) for w, s in PLACES if s in fault.stages.get(w, ())), when=When(probability=0.1))"
        " for n, fault in enumerate(FAULT_VALUES)]\n"
        "it = provider(planned(*rules, seed=5), seed=5)\n"
        "kinds = ('smtp', 'native', 'owe')\n"
        "play(it, [(kinds[n % 3], ((BOB,), (ANN,), (BOB, ANN))[n % 7 % 3], f'k{n % 5}', 0.5, ('default', 'x')[n % 2])"
        " for n in range(120)])\n"
        "print(*told(it), sep='\\n')\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }

    assert len(outputs) == 1
    assert b"msg_" in outputs.pop()
