"""Buckets and windows: whoever waits as told is not refused again, and no more is let in than was said."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.provider.limiter import Occasion
from simulator.provider.limits import Counts, Limit
from simulator.provider.meters import DAY_S, Bucket, Window
from tests.simulator.provider.limiters import limiter, waits
from tests.simulator.provider.mails import BOB, NOW, after


def test_a_burst_is_taken_and_then_the_rate_rules() -> None:
    it = limiter(Limit(name="l", rate_per_s=2, burst=3))

    assert [waits(it) for _ in range(4)] == [None, None, None, 0.5]
    assert waits(it, 0.5) is None
    assert waits(it, 0.5) == 0.5


def test_a_clock_that_steps_back_takes_nothing_away() -> None:
    bucket = Bucket.full(1, 1, NOW)
    bucket.take(1, after(10))

    assert bucket.wait_s(after(5)) == 1.0
    assert bucket.wait_s(after(11)) == 0.0


def test_a_quota_lasts_until_the_next_window_begins() -> None:
    """NOW is midnight: a day's quota is fresh at the next one."""
    it = limiter(Limit(name="l", per_day=2))

    assert [waits(it, at_s) for at_s in (10, 80_000, DAY_S - 1)] == [None, None, 1.0]
    assert waits(it, DAY_S) is None


@pytest.mark.parametrize(("part", "length_s"), [("per_minute", 60), ("per_hour", 3600), ("per_day", 86_400)])
def test_each_window_has_its_length(part: str, length_s: int) -> None:
    it = limiter(Limit(name="l", **{part: 1}))  # type: ignore[arg-type] # the name is a parameter

    assert [waits(it, 1), waits(it, 2), waits(it, length_s)] == [None, length_s - 2, None]


def test_a_window_does_not_turn_back() -> None:
    window = Window.fresh(60, 1, after(61))
    window.take(1, after(61))

    assert window.wait_s(after(1)) > 0


@given(
    st.floats(0.01, 50),
    st.integers(1, 5),
    st.integers(1, 9),
    st.lists(st.tuples(st.floats(0, 3), st.integers(1, 4)), max_size=20),
)
def test_waiting_as_told_is_enough(
    rate: float, burst: int, per_minute: int, visits: list[tuple[float, int]]
) -> None:
    """The wait, rounded up to whole seconds as it is told, always suffices."""
    it = limiter(
        Limit(name="l", rate_per_s=rate, burst=burst, per_minute=per_minute, counts=Counts.RECIPIENTS)
    )
    at_s = 0.0
    for pause, people in visits:
        at_s += pause
        who = Occasion(ip="i", recipients=(BOB,) * people)
        wait_s = waits(it, at_s, who)
        if wait_s is not None:
            at_s += math.ceil(wait_s)
            assert waits(it, at_s, who) is None


@given(st.floats(0.1, 20), st.integers(1, 5), st.lists(st.floats(0, 2), min_size=1, max_size=40))
def test_no_more_is_let_in_than_the_rate_allows(rate: float, burst: int, pauses: list[float]) -> None:
    it, at_s, let_in = limiter(Limit(name="l", rate_per_s=rate, burst=burst)), 0.0, 0
    for pause in pauses:
        at_s += pause
        let_in += waits(it, at_s) is None

    assert let_in <= burst + at_s * rate + 1e-6
