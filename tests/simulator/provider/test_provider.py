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

from simulator.provider import counts
from simulator.provider.acceptance import Acceptance
from simulator.provider.answer import (
    Accepted,
    InTurn,
    Reason,
    Refused,
    Reply,
    RetryAfter,
    RetryAfterKind,
)
from simulator.provider.fate import Fate
from simulator.provider.faults import (
    FAULTS,
    DecideFate,
    RefuseRecipients,
    ReplyWith,
)
from simulator.provider.idempotency import KeyRules
from simulator.provider.ledger import AttemptState, Booked, NoPast, Tried
from simulator.provider.limits import Limits
from simulator.provider.notes import Noted
from simulator.provider.obligations import Obligation
from simulator.provider.provider import Detail, Provider, Record, Setup
from simulator.provider.rule import Per, Rule, When
from tests.simulator.provider.faults.samples import sample
from tests.simulator.provider.mails import (
    ANN,
    BOB,
    KEYED,
    NOW,
    after,
    booked,
    keyed,
    mail,
    planned,
    provider,
    refusal,
    rule,
    send,
)

# --- keys -------------------------------------------------------------------------------------------


def restarted(it: Provider) -> Provider:
    """Return a provider that knows what a store would have kept of this one, sorted as stores sort."""
    records = it.records()
    again = provider(it.account("default", NOW).setup)
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


def test_a_rate_is_told_in_whole_seconds() -> None:
    refused = refusal(provider(planned(limits=Limits(rate_per_s=0.4))), 2, dialect="native")

    assert refused.reason is Reason.RATE_LIMITED
    assert refused.retry_after == RetryAfter(kind=RetryAfterKind.SECONDS, seconds=3.0)


# --- keys -------------------------------------------------------------------------------------------


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


# --- accounts ---------------------------------------------------------------------------------------


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


def is_about_counts(record: Record) -> bool:
    return isinstance(record, Noted) and record.topic == counts.TOPIC


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
    """It remembers the same and gives the same names; what rules have counted is `test_counts.py`."""
    setup = planned(*rules, keys=KeyRules(honoured=honoured, window_s=100))
    lived = provider(setup)
    play(lived, script)
    restored = provider(setup)
    restored.restore(lived.records(), NOW)
    # An account that only was named and never did anything leaves no record.
    for name in lived.accounts:
        restored.account(name, NOW)

    assert told(restored) == told(lived)
    assert [each for each in restored.records() if not is_about_counts(each)] == []
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
