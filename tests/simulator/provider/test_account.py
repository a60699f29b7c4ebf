"""A tenant begins empty, and another setup changes what it is told and nothing of what it has."""

from __future__ import annotations

from simulator.provider.account import Account, Setup
from simulator.provider.faults import HangThere
from simulator.provider.limits import Limit, Limits
from simulator.provider.plan import Plan
from simulator.provider.rule import Rule
from tests.simulator.provider.mails import NOW, acceptance, after


def test_a_fresh_account_has_nothing_but_its_setup() -> None:
    setup = Setup(limits=Limits(rate_per_s=1), limit=(Limit(name="l", per_day=1),))
    it = Account.fresh("a", setup, NOW)

    assert (it.name, it.setup, it.booked, it.attempts, it.decisions) == ("a", setup, 0, {}, [])
    assert [limit.name for limit in it.limiter.limits] == ["account", "l"]


def test_another_setup_leaves_what_has_happened() -> None:
    it = Account.fresh("a", Setup(), NOW)
    it.ledger.book(acceptance())
    it.limiter.enter("c1", "10.0.0.1")
    rule = Rule(name="r", fault=HangThere(), stages=frozenset({("smtp", "message")}))
    it.set_up(Setup(plan=Plan(rules=(rule,)), limits=Limits(connections=1)), after(5))

    assert len(it.ledger.acceptances) == 1
    assert it.plan.plan.rules == (rule,)
    assert it.limiter.enter("c2", "10.0.0.1") is not None
