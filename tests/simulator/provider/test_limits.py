"""The token bucket: who waits as told is not refused again."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from simulator.provider.limits import Bucket, Limits
from tests.simulator.provider.mails import NOW, after


def test_without_a_rate_there_is_no_limit() -> None:
    bucket = Bucket.full(Limits(), NOW)

    assert [bucket.take(Limits(), NOW) for _ in range(100)] == [None] * 100


def test_a_burst_is_taken_and_then_the_rate_rules() -> None:
    limits = Limits(rate_per_s=2, burst=3)
    bucket = Bucket.full(limits, NOW)

    assert [bucket.take(limits, NOW) for _ in range(4)] == [None, None, None, 0.5]
    assert bucket.take(limits, after(0.5)) is None
    assert bucket.take(limits, after(0.5)) == 0.5


def test_a_clock_that_steps_back_takes_nothing_away() -> None:
    limits = Limits(rate_per_s=1, burst=1)
    bucket = Bucket.full(limits, NOW)
    bucket.take(limits, after(10))

    assert bucket.take(limits, after(5)) == 1.0
    assert bucket.take(limits, after(11)) is None


@given(st.floats(0.01, 50), st.integers(1, 5), st.lists(st.floats(0, 3), max_size=20))
def test_waiting_as_told_is_enough(rate: float, burst: int, pauses: list[float]) -> None:
    """The wait, rounded up to whole seconds as it is told, always suffices."""
    limits = Limits(rate_per_s=rate, burst=burst)
    bucket, at_s = Bucket.full(limits, NOW), 0.0
    for pause in pauses:
        at_s += pause
        wait_s = bucket.take(limits, after(at_s))
        if wait_s is not None:
            at_s += math.ceil(wait_s)
            assert bucket.take(limits, after(at_s)) is None
