"""Fewer under way when answers get slower, one more at a time when they do not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reference_sender.policy.pace import Pace, PaceRules, answered, begin, quantile, troubled

RULES = PaceRules(most=10, samples=5, tolerance=2.0, floor_s=0.2, factor=0.5)


def after(pace: Pace, latency_s: float, rounds: int = 1, rules: PaceRules = RULES) -> Pace:
    for _ in range(rounds * rules.samples):
        pace = answered(pace, rules, latency_s)
    return pace


def test_it_begins_with_all_of_the_concurrency_and_stays_there_while_latency_is_steady() -> None:
    assert begin(RULES).most == 10
    assert after(begin(RULES), 0.1, rounds=20).most == 10


def test_a_rise_halves_it_and_calm_brings_it_back_one_by_one() -> None:
    usual = after(begin(RULES), 0.1)
    slow = after(usual, 0.3)
    assert slow.most == 5
    assert [after(slow, 0.1, rounds=n).most for n in (1, 2, 3)] == [6, 7, 8]
    assert after(slow, 0.1, rounds=30).most == 10


def test_one_slow_answer_in_many_is_no_rise() -> None:
    rules = PaceRules(most=10, samples=40)
    pace = after(begin(rules), 0.1, rules=rules)
    for latency_s in (*[0.1] * 38, 9.0, 9.0):
        pace = answered(pace, rules, latency_s)
    assert pace.most == 10


def test_a_provider_that_is_slower_for_good_is_believed_after_a_while() -> None:
    slow = after(after(begin(RULES), 0.1), 0.5, rounds=5)
    assert slow.most == 1
    assert after(slow, 0.5, rounds=20).most == 10


def test_what_is_fast_may_double() -> None:
    assert after(after(begin(RULES), 0.01), 0.19).most == 10


def test_trouble_begins_at_the_least() -> None:
    assert troubled(after(begin(RULES), 0.1), RULES).most == 1


def test_switched_off_it_never_changes() -> None:
    off = PaceRules(most=10, tolerance=0.0)
    assert troubled(after(after(begin(off), 0.1, rules=off), 9.0, rules=off), off).most == 10


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=200))
def test_it_stays_between_one_and_what_was_configured(latencies: list[float]) -> None:
    pace = begin(RULES)
    for each in latencies:
        pace = answered(pace, RULES, each)
        assert 1 <= pace.most <= 10


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile(tuple(map(float, range(1, 101))), 0.95) == 95.0
    assert quantile((7.0,), 0.95) == 7.0
