"""The bucket: never more than burst plus rate times time, and never less than that for long."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from reference_sender.policy.bucket import Bucket, Rate, full, next_at, refilled, room, spent
from tests.reference_sender.samples import NOW


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    rate = Rate(per_s=2.0, burst=3)
    bucket = full(rate, NOW)
    assert room(bucket, rate, urgent=False) == 3
    bucket = spent(bucket, 3)
    assert room(bucket, rate, urgent=False) == 0
    assert next_at(bucket, rate, urgent=False) == NOW + at(0.5)
    assert room(refilled(bucket, rate, NOW + at(0.5)), rate, urgent=False) == 1
    assert room(refilled(bucket, rate, NOW + at(99)), rate, urgent=False) == 3


def test_what_is_kept_for_urgent_mail_no_other_mail_takes() -> None:
    rate = Rate(per_s=1.0, burst=4, reserve=2.0)
    bucket = full(rate, NOW)
    assert (room(bucket, rate, urgent=False), room(bucket, rate, urgent=True)) == (2, 4)
    bucket = spent(bucket, 2)
    assert (room(bucket, rate, urgent=False), room(bucket, rate, urgent=True)) == (0, 2)
    assert next_at(bucket, rate, urgent=True) == NOW
    assert next_at(bucket, rate, urgent=False) == NOW + at(1)


def test_a_reserve_never_takes_all_of_a_bucket() -> None:
    rate = Rate(per_s=1.0, burst=1, reserve=5.0)
    assert room(full(rate, NOW), rate, urgent=False) == 1


def test_a_clock_that_is_behind_fills_nothing_and_empties_nothing() -> None:
    rate = Rate(per_s=1.0, burst=10)
    bucket = Bucket(tokens=3.0, at=NOW)
    assert refilled(bucket, rate, NOW - at(60)) == bucket


@given(
    st.floats(0.1, 100.0),
    st.integers(1, 20),
    st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(0, 30)), max_size=50),
)
def test_the_rate_holds_over_any_time(per_s: float, burst: int, looks: list[tuple[float, int]]) -> None:
    rate = Rate(per_s=per_s, burst=burst)
    bucket, passed_s, sent = full(rate, NOW), 0.0, 0
    for wait_s, wanted in looks:
        passed_s += wait_s
        bucket = refilled(bucket, rate, NOW + at(passed_s))
        count = min(wanted, room(bucket, rate, urgent=False))
        bucket = spent(bucket, count)
        sent += count
        assert sent <= burst + per_s * passed_s + 1e-3
        assert bucket.tokens >= -1e-3
        again = refilled(bucket, rate, next_at(bucket, rate, urgent=False) + at(1e-5))
        assert room(again, rate, urgent=False) >= 1
