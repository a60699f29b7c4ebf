"""What keys make of requests: asked before a mail is taken, told afterwards what to remember."""

from __future__ import annotations

import pytest

from simulator.provider import keyring
from simulator.provider.account import Account, Setup
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
    Slow,
)
from simulator.provider.idempotency import KeyRules
from simulator.provider.ledger import Attempt
from tests.simulator.provider.mails import NOW, acceptance

YES = Accepted(id="msg_1", message_id="<1@example.org>", recipients=("bob@example.org",))
NO = Reply(code=503)


def account(**rules: object) -> Account:
    return Account.fresh("default", Setup(keys=KeyRules(**rules)), NOW)  # type: ignore[arg-type]


def attempt(number: int = 1) -> Attempt:
    return Attempt(
        id=f"att_{number}", number=number, account="default", dialect="native", connection="c", peer="p", opened_at=NOW
    )  # fmt: skip


def booked(it: Account) -> Account:
    it.ledger.book(acceptance(1, key="k", fingerprint="f"))
    return it


def test_an_unknown_key_meets_nothing() -> None:
    assert keyring.ask(account(), attempt(), "k", "f", NOW) is None


@pytest.mark.parametrize("key", [None, "k"])
def test_who_does_not_honour_keys_asks_none(key: str | None) -> None:
    it = booked(account(honoured=key is None))

    assert keyring.ask(it, attempt(2), key, "f", NOW) is None
    assert keyring.claim(it, attempt(2), key, "f", NOW) is None


def test_a_finished_key_brings_the_first_answer_back() -> None:
    again = keyring.ask(booked(account()), attempt(2), "k", "f", NOW)

    assert again == Accepted(id=YES.id, message_id=YES.message_id, recipients=YES.recipients, replayed=True)


@pytest.mark.parametrize("in_flight", ["process", "conflict"])
def test_without_a_lock_whoever_came_through_goes_on(in_flight: str) -> None:
    """Whatever the other one has come to in between; whoever comes afterwards gets a replay."""
    it = account(in_flight=in_flight)
    assert keyring.claim(it, attempt(1), "k", "f", NOW) is None
    let_through = keyring.claim(it, attempt(2), "k", "f", NOW) is None
    booked(it).keys.finish("k")

    assert let_through is (in_flight == "process")
    for number in (1, 2):
        assert (keyring.ask(it, attempt(number), "k", "f", NOW) is None) is let_through
    assert isinstance(keyring.ask(it, attempt(3), "k", "f", NOW), Accepted)


def test_a_batch_brings_all_of_it_back() -> None:
    it = account(finished="without_id")
    keyring.remember(it, attempt(), "k", "f", Results(items=(YES, NO)), NOW)

    again = keyring.ask(it, attempt(2), "k", "f", NOW)

    assert isinstance(again, Results)
    assert again.replayed
    assert isinstance(again.items[0], Accepted)
    assert not again.items[0].shows_id
    assert again.items[1] == NO


def test_a_claim_is_refused_only_while_another_request_has_the_key() -> None:
    """Whatever else a key meets is said when the mail is handed in: rules of `accept` come first."""
    it = account(in_flight="retry_after", in_flight_s=1.5)
    assert keyring.claim(it, attempt(1), "k", "f", NOW) is None
    assert keyring.claim(it, attempt(1), "k", "f", NOW) is None

    refused = keyring.claim(it, attempt(2), "k", "f", NOW)

    assert isinstance(refused, Refused)
    assert refused.reason is Reason.KEY_IN_FLIGHT
    assert refused.retry_after == RetryAfter(kind=RetryAfterKind.SECONDS, seconds=2.0)
    assert keyring.claim(booked(account()), attempt(2), "k", "other", NOW) is None


def test_a_claim_may_have_to_wait() -> None:
    it = account(in_flight="wait", in_flight_s=7)
    keyring.begin(it, attempt(1), "k", "f")

    assert isinstance(keyring.claim(it, attempt(2), "k", "f", NOW), InTurn)


@pytest.mark.parametrize(("failed", "remembers"), [("release", False), ("replay", True)])
def test_an_error_is_remembered_where_keys_do(failed: str, remembers: bool) -> None:
    it, first = account(failed=failed), attempt()
    keyring.failed(it, first, "k", "f", Slow(delay_s=1, then=NO), NOW)

    assert (first.kept is not None) is remembers
    assert keyring.ask(it, attempt(2), "k", "f", NOW) == (
        Reply(code=503, replayed=True) if remembers else None
    )


def test_silence_is_no_error_to_remember() -> None:
    it, first = account(failed="replay"), attempt()
    keyring.failed(it, first, "k", "f", HangUp(), NOW)

    assert first.kept is None


@pytest.mark.parametrize(
    ("lied", "answer", "second"),
    [
        ("replay_yes", NO, "yes"),
        ("replay_error", NO, Reply(code=503, replayed=True)),
        ("replay_error", Reply(code=202), "yes"),
        ("replay_error", HangUp(), "yes"),
        ("release", NO, None),
    ],
)
def test_a_lie_is_remembered_as_this_provider_does(lied: str, answer: Reply | HangUp, second: object) -> None:
    it, first = booked(account(lied=lied)), attempt()
    keyring.lied(it, first, "k", "f", answer, NOW)

    met = keyring.ask(it, attempt(2), "k", "f", NOW)

    assert ("yes" if isinstance(met, Accepted) else met) == second
    assert (first.kept is None) is (second == "yes")
