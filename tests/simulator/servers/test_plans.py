"""Plans that outlive the process: as they were, unless whoever starts means others."""

from __future__ import annotations

import dataclasses

import pytest

from simulator.config import read_plan
from simulator.provider.counts import TOPIC
from simulator.provider.ledger import Named
from simulator.provider.notes import Noted
from simulator.provider.provider import Provider, Record, Setup
from simulator.provider.tenancy import Tenancy, Tenant
from simulator.servers import plans
from tests.simulator.provider.mails import NOW, after, mail, send

SET = read_plan(
    {
        "rules": [
            "503 for 10 s",
            {"fault": "hang", "stage": "accept", "recipient": "a@example.org", "first": 2},
        ],
        "idempotency": {"window_s": 7},
        "limits": {"rate_per_s": 3},
        "limit": [{"per": "ip", "per_minute": 5}],
    },
    "test",
)


def lived() -> list[Record]:
    """Return what a process leaves behind in which a plan was set and a rule added."""
    provider = started()
    provider.records()
    provider.name("shop", NOW)
    provider.set_up("shop", SET, after(10))
    plans.remember(provider, "shop", after(10))
    provider.add_rules("shop", read_plan({"rules": ["lose 2 answers"]}, "test").plan.rules, after(20))
    plans.remember(provider, "shop", after(20))
    return provider.records()


def started(
    records: list[Record] | None = None, base: Setup = Setup(), tenancy: Tenancy = Tenancy()
) -> Provider:
    provider = Provider(setup=base, tenancy=tenancy, now=after(100))
    provider.restore(records or [], after(100))
    plans.recall(provider, base, tenancy, after(100))
    return provider


def test_a_plan_is_in_force_again_after_a_restart() -> None:
    """With its rules and settings, and its time windows go on."""
    shop = started(lived()).accounts["shop"]

    assert [each.fault for each in shop.plan.plan.rules[:2]] == [each.fault for each in SET.plan.rules]
    assert len(shop.plan.plan.rules) == 3
    assert dataclasses.replace(shop.setup, plan=SET.plan) == SET
    assert shop.plan.planted() == [after(10), after(10), after(20)]
    assert shop.limiter.limits == shop.setup.throughput


def test_accounts_that_were_only_named_are_there_again() -> None:
    """Their senders must not fall back into the default account."""
    provider = Provider(now=NOW)
    provider.name("shop", NOW)
    provider.name("shop", NOW)
    records = provider.records()

    assert records == [Named(account="shop")]
    assert started(records).account_of("shop") == "shop"


@pytest.mark.parametrize(
    ("base", "tenancy"),
    [
        (read_plan({"rules": ["503"]}, "test"), Tenancy()),
        (Setup(), Tenancy(tenants=(("billing", Tenant(setup=SET)),))),
    ],
)
def test_another_plan_at_the_start_is_what_counts(base: Setup, tenancy: Tenancy) -> None:
    """The file was changed: whoever changed it means what stands in it now. And so at the start after that."""
    first = started()
    records = first.records() + lived()
    second = started(records, base, tenancy)
    third = started(records + second.records(), base, tenancy)

    for each in (second, third):
        assert each.accounts["shop"].plan.plan.rules == base.plan.rules
    assert started(records).accounts["shop"].plan.plan.rules != ()


def test_another_seed_is_not_another_plan() -> None:
    """`serve` without a seed takes a fresh one each time."""
    other = dataclasses.replace(Setup(), plan=dataclasses.replace(Setup().plan, seed=99))
    records = started().records() + lived()

    assert len(started(records, other).accounts["shop"].plan.plan.rules) == 3


def test_rules_of_the_start_go_on_where_they_were() -> None:
    """An outage of four minutes is not four minutes more after each restart, nor is a count used up twice."""
    base = read_plan({"rules": ["503 for 4 minutes", "502 twice"]}, "test")
    first = Provider(setup=base, now=NOW)
    plans.recall(first, base, Tenancy(), NOW)
    send(first, mail(dialect="native"), after(300))
    records = first.records()
    second = started(records, base)
    send(second, mail(dialect="native"), after(301))
    records += second.records()
    third = started(records, base)

    for again in (second, third):
        assert again.accounts["default"].plan.planted() == [NOW, NOW]
    assert [each.fired for each in third.accounts["default"].plan.tally(after(302))] == [0, 2]
    assert plans.used_up(third, after(302)) == {"default": 2}


def test_under_another_plan_nothing_was_counted() -> None:
    """And what was counted under the former one is forgotten, for good."""
    twice, once = (read_plan({"rules": [f"502 {word}"]}, "test") for word in ("twice", "once"))
    first = started(None, twice)
    send(first, mail(dialect="native"), NOW)
    records = first.records()
    second = started(records, once)
    assert [each.fired for each in second.accounts["default"].plan.tally(NOW)] == [0]

    third = started(records + second.records(), twice)
    assert [each.fired for each in third.accounts["default"].plan.tally(NOW)] == [0]


def test_counts_in_words_of_another_version_are_said_and_left(caplog: pytest.LogCaptureFixture) -> None:
    base = read_plan({"rules": ["502 twice"]}, "test")
    provider = started([Noted(account="default", topic=TOPIC, name="rule 0", facts="nonsense")], base)

    assert [each.fired for each in provider.accounts["default"].plan.tally(NOW)] == [0]
    assert "counted before is not understood" in caplog.text


def test_a_plan_in_words_of_another_version_is_said_and_left(caplog: pytest.LogCaptureFixture) -> None:
    """The start goes on: a plan is no mail."""
    for facts in ("{}", "nonsense", '{"plan": {"rules": ["explode"]}, "planted_at": []}'):
        provider = started([Noted(account="shop", topic=plans.TOPIC, name="", facts=facts)])
        assert provider.accounts["shop"].plan.plan.rules == ()
    assert caplog.text.count("is not understood") == 3


def test_a_quota_that_was_set_at_run_time_is_used_up_after_a_restart() -> None:
    """By what was taken since it was set, and by nothing before."""
    provider = started()
    send(provider, mail(dialect="native"), NOW)
    provider.set_up("default", read_plan({"limits": {"per_day": 2}}, "test"), after(10))
    plans.remember(provider, "default", after(10))
    send(provider, mail(dialect="native"), after(20))
    again = started(provider.records())

    answers = [send(again, mail(dialect="native"), after(200))[1] for _ in range(2)]
    assert [bool(verdict and verdict.accepted) for verdict in answers] == [True, False]
