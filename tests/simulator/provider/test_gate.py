"""What is let in, and what is said to the rest. The provider around it: tests/simulator/provider/test_provider_limits.py."""

from __future__ import annotations

import pytest

from simulator.provider.account import Account, Setup
from simulator.provider.gate import Gate, ip_of
from simulator.provider.greylist import Greylist
from simulator.provider.ledger import Attempt
from simulator.provider.limits import Limit, Limits, Scope
from tests.simulator.provider.mails import BOB, NOW, acceptance, after, mail


def gate(setup: Setup) -> tuple[Gate, Account]:
    account = Account.fresh("default", setup, NOW)
    return Gate({"default": account}), account


def attempt(dialect: str = "smtp", connection: str = "c1") -> Attempt:
    return Attempt(
        id="att_1",
        number=1,
        account="default",
        dialect=dialect,
        connection=connection,
        peer="10.0.0.1:5",
        opened_at=NOW,
        sender="shop@example.org",
    )


@pytest.mark.parametrize(
    ("peer", "ip"), [("127.0.0.1:2500", "127.0.0.1"), ("[::1]:2500", "::1"), ("somewhere", "somewhere")]
)
def test_an_address_without_its_port(peer: str, ip: str) -> None:
    assert ip_of(peer) == ip


def test_without_limits_everybody_is_let_in() -> None:
    it, account = gate(Setup())

    for stage in ("connect", "auth", "mail", "rcpt", "message"):
        assert it.at_stage(attempt(), stage, BOB, NOW) is None
    assert it.at_booking(account, attempt(), mail(), NOW, look=False) is None
    assert it.standings(account, attempt(), NOW) == []


def test_what_is_held_back_says_whose_limit_it_was() -> None:
    it, account = gate(Setup(limit=(Limit(name="l", per=Scope.SENDER, per_day=1),)))
    assert it.at_booking(account, attempt(), mail(), NOW, look=True) is None
    assert it.at_booking(account, attempt(), mail(), NOW, look=False) is None
    held = it.at_booking(account, attempt(), mail(), NOW, look=True)

    assert held is not None
    assert (held.rule, held.limit, held.per, held.scope) == ("limit: l", "l", "sender", "shop@example.org")
    assert it.at_stage(attempt(), "mail", None, NOW) == held
    assert it.at_stage(attempt("native"), "validate", None, NOW) is None, (
        "HTTP says so when the mail is there"
    )


def test_what_is_owed_is_waited_for() -> None:
    it, account = gate(Setup(limits=Limits(rate_per_s=1)))
    for _ in range(3):
        it.owe(account, attempt("native"), mail(dialect="native"), NOW)

    assert it.at_booking(account, attempt("native"), mail(dialect="native"), after(2), look=True) is not None
    assert it.at_booking(account, attempt("native"), mail(dialect="native"), after(3), look=True) is None


def test_what_was_let_in_before_a_restart_counts() -> None:
    it, account = gate(Setup(limits=Limits(per_day=1)))
    it.recall(account, acceptance())

    assert it.at_booking(account, attempt(), mail(), NOW, look=True) is not None


def test_a_connection_counts_until_it_is_gone() -> None:
    it, _ = gate(Setup(limits=Limits(connections=1)))
    assert it.at_stage(attempt(), "connect", None, NOW) is None
    assert it.at_stage(attempt(connection="c2"), "connect", None, NOW) is not None
    it.gone("c1")

    assert it.at_stage(attempt(connection="c2"), "connect", None, NOW) is None


def test_who_is_put_off_by_the_greylist_is_not_counted() -> None:
    domain = Limit(name="d", per=Scope.RECIPIENT_DOMAIN, per_day=1)
    it, account = gate(Setup(limit=(domain,), greylist=Greylist(delay_s=60)))
    held = it.at_stage(attempt(), "rcpt", BOB, NOW)

    assert held is not None
    assert (held.rule, held.limit) == ("greylist", None)
    assert account.limiter.limits
    assert it.at_stage(attempt(), "rcpt", BOB, after(60)) is None
