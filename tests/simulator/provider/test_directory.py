"""Accounts by name: made, set up, healed, forgotten."""

from __future__ import annotations

from simulator.provider.answer import (
    HangUp,
)
from simulator.provider.faults import (
    HangUpOnThem,
    ReplyWith,
)
from simulator.provider.ledger import Sent, Wiped
from simulator.provider.limits import Limits
from simulator.provider.obligations import Obligation
from simulator.provider.provider import Detail, Provider
from simulator.provider.rule import When
from simulator.provider.tenancy import Tenancy, Tenant
from tests.simulator.provider.mails import (
    BOB,
    KEYED,
    NOW,
    booked,
    mail,
    planned,
    provider,
    rule,
    send,
)


def test_accounts_do_not_meet() -> None:
    it = provider()
    it.set_up("a", planned(rule(ReplyWith(code=451), ("smtp", "message"))), NOW)
    send(it, mail(), account="a")
    send(it, mail())

    assert (booked(it, "a"), booked(it)) == (0, 1)


def test_an_unknown_credential_belongs_to_the_default_account() -> None:
    it = provider()

    assert it.account_of("nobody") == it.account_of(None) == "default"


def test_what_an_account_begins_with_is_known_without_making_it() -> None:
    everybody, shop = planned(limits=Limits(max_recipients=5)), planned(limits=Limits(max_recipients=6))
    it = Provider(setup=everybody, tenancy=Tenancy(tenants=(("shop", Tenant(setup=shop)),)), now=NOW)

    assert (it.beginning("shop"), it.beginning("blog")) == (shop, everybody)
    assert "blog" not in it.accounts


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
