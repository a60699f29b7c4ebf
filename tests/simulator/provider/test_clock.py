"""An account's clock runs with real time, is moved ahead by tests, and everything timed of the account follows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.provider.answer import Accepted, Refused
from simulator.provider.clock import LAST_YEAR, AccountClock, ClockError, ClockMoved
from simulator.provider.faults import ReplyWith
from simulator.provider.idempotency import KeyRules
from simulator.provider.limits import Limits
from simulator.provider.lookup import Query
from simulator.provider.plan import Plan
from simulator.provider.provider import Detail, Provider, Setup
from simulator.provider.rule import Rule, When
from tests.simulator.provider.mails import NOW, after, mail, provider, send

KEYED = mail(dialect="native", key="k")


def said(it: Provider, now: datetime = NOW, account: str = "default") -> object:
    _, verdict = send(it, KEYED, now, account=account)
    return None if verdict is None else verdict.answer


# --- the clock by itself ----------------------------------------------------------------------------


def test_a_clock_that_nobody_moved_tells_real_time() -> None:
    assert AccountClock().now(NOW) is NOW


@given(st.lists(st.floats(0, 1e6) | st.integers(0, 10**6), max_size=5), st.floats(0, 1e6))
def test_moves_add_up_and_time_goes_on_from_there(moves: list[float], passed: float) -> None:
    clock = AccountClock()
    for move in moves:
        clock.advance(move, NOW)

    later = NOW + timedelta(seconds=passed)
    assert clock.now(later) - clock.now(NOW) == later - NOW
    assert abs((clock.now(NOW) - NOW).total_seconds() - sum(moves)) < 1e-3


@pytest.mark.parametrize("seconds", [-1, -1e-9, float("nan"), float("-inf"), float("inf"), 1e300, 10**12])
def test_a_step_back_or_out_of_all_time_is_refused_and_changes_nothing(seconds: float) -> None:
    clock = AccountClock()
    clock.advance(5, NOW)

    with pytest.raises(ClockError, match="the clock"):
        clock.advance(seconds, NOW)
    assert clock.now(NOW) == after(5)


def test_a_clock_can_be_set_forward_only() -> None:
    clock = AccountClock()
    clock.set(after(60), NOW)
    assert clock.now(NOW) == after(60)

    clock.set(after(60), NOW)  # Where it is already: no step back.
    with pytest.raises(ClockError, match="goes forward only; it is 2030-01-01T00:01:01"):
        clock.set(after(60), after(1))
    with pytest.raises(ClockError, match=f"ends with the year {LAST_YEAR}"):
        clock.set(datetime(9999, 1, 1, tzinfo=UTC), NOW)


# --- what reads it ----------------------------------------------------------------------------------


def test_keys_expire_by_the_accounts_clock() -> None:
    it = provider(Setup(keys=KeyRules(window_s=3600)))
    said(it)
    it.advance("default", 3599, NOW)
    again = said(it)
    it.advance("default", 1, NOW)
    forgotten = said(it)

    assert isinstance(again, Accepted)
    assert isinstance(forgotten, Accepted)
    assert (again.replayed, forgotten.replayed) == (True, False)
    first, second = it.account("default", NOW).ledger.acceptances
    assert (first.accepted_at, second.accepted_at) == (NOW, after(3600))


def test_limits_look_ups_and_windows_of_rules_follow() -> None:
    outage = Rule(
        name="outage",
        fault=ReplyWith(code=503),
        stages=frozenset({("http", "request")}),
        when=When(from_s=10, until_s=20),
    )
    it = provider(
        Setup(
            plan=Plan(rules=(outage,)),
            limits=Limits(rate_per_s=0.1),
            keys=KeyRules(lookup_lag_s=5, honoured=False),
        )
    )

    def struck() -> bool:
        return it.step(it.open("native", "p", NOW), "request", Detail(), NOW) is not None

    assert isinstance(said(it), Accepted)
    assert isinstance(said(it), Refused)
    assert it.look_up(Query(message_id="<Hello@example.org>"), "default", NOW) == []
    assert not struck()
    it.advance("default", 10, NOW)
    assert len(it.look_up(Query(message_id="<Hello@example.org>"), "default", NOW)) == 1
    assert isinstance(said(it), Accepted)
    assert struck()
    it.advance("default", 10, NOW)
    assert not struck()


def test_a_new_plan_begins_at_the_accounts_time() -> None:
    late = Rule(
        name="late", fault=ReplyWith(code=503), stages=frozenset({("http", "request")}), when=When(from_s=10)
    )
    it = provider()
    it.advance("default", 1000, NOW)
    it.set_up("default", Setup(plan=Plan(rules=(late,))), NOW)
    it.add_rules("default", [late], NOW)

    assert it.step(it.open("native", "p", NOW), "request", Detail(), after(9)) is None
    assert it.step(it.open("native", "p", NOW), "request", Detail(), after(10)) is not None


# --- per account, and over a restart ----------------------------------------------------------------


def test_a_clock_belongs_to_one_account() -> None:
    it = provider()
    assert it.advance("a", 60, NOW) == after(60)
    it.account("b", NOW)

    assert [it.account(name, NOW).clock.now(NOW) for name in ("a", "b", "default")] == [after(60), NOW, NOW]


def test_an_attempt_that_finds_its_account_is_told_in_its_time() -> None:
    """It is opened before the sender has named itself; its times must not run backwards or jump."""
    it = provider()
    it.advance("a", 60, NOW)
    attempt = it.open("smtp", "peer", NOW)
    it.step(attempt, "auth", Detail(credential="a"), after(1))
    it.close(attempt, after(2))

    assert (attempt.opened_at, attempt.closed_at) == (after(60), after(62))


def test_a_moved_clock_survives_a_restart_and_not_a_reset() -> None:
    it = provider()
    it.advance("a", 60, NOW)
    it.set_clock("a", after(90), NOW)
    records = it.records()
    assert records == [ClockMoved(account="a", ahead_s=60.0), ClockMoved(account="a", ahead_s=90.0)]

    again = Provider(now=after(5))
    again.restore(records, after(5))
    assert again.account("a", after(5)).clock.now(after(5)) == after(95)
    again.reset("a", after(6))
    assert again.account("a", after(6)).clock.now(after(6)) == after(6)
    records += again.records()
    once_more = Provider(now=after(7))
    once_more.restore(records, after(7))
    assert once_more.account("a", after(7)).clock.now(after(7)) == after(7)
