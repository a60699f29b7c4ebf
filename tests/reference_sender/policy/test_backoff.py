"""Waiting: bounded, jittered, never shorter than Retry-After, and safe against every header."""

from __future__ import annotations

import random
from datetime import timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender.policy.backoff import backoff_s, parse_retry_after
from tests.reference_sender.samples import NOW

seconds = st.floats(0.001, 1_000.0)
#: No wait that a provider names is kept for longer.
MOST_S = 86_400.0


@given(st.integers(1, 10_000), seconds, seconds, st.integers(0, 99), st.none() | st.floats(0, 86_400))
def test_a_wait_is_between_retry_after_and_retry_after_plus_the_cap(
    tries: int, base_s: float, cap_s: float, seed: int, retry_after_s: float | None
) -> None:
    wait_s = backoff_s(
        tries=tries, base_s=base_s, cap_s=cap_s, rng=random.Random(seed), retry_after_s=retry_after_s
    )
    least = retry_after_s or 0.0
    assert least <= wait_s <= least + cap_s


@pytest.mark.parametrize(
    ("tries", "ceiling_s"), [(0, 2), (1, 2), (2, 4), (3, 8), (9, 512), (10, 600), (5_000, 600)]
)
def test_the_ceiling_doubles_until_the_cap(tries: int, ceiling_s: float) -> None:
    rng = random.Random(1)
    waits = [backoff_s(tries=tries, base_s=2.0, cap_s=600.0, rng=rng) for _ in range(400)]
    assert max(waits) <= ceiling_s
    assert max(waits) > 0.9 * ceiling_s
    # Full jitter: the low end is used, too, or everybody would come back together.
    assert min(waits) < 0.1 * ceiling_s


def test_the_same_seed_waits_the_same() -> None:
    waits = [backoff_s(tries=3, base_s=1.0, cap_s=60.0, rng=random.Random(7)) for _ in range(2)]
    assert waits[0] == waits[1]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("0", 0.0),
        ("30", 30.0),
        (" 30 ", 30.0),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("soon", None),
        ("NaN", None),
        ("Infinity", None),
        ("1e9", None),
        ("999999999", MOST_S),
        ("9" * 5_000, MOST_S),
        ("٣٠", None),
        (format_datetime(NOW + timedelta(seconds=30), usegmt=True), 30.0),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 0.0),
        (format_datetime(NOW + timedelta(days=900), usegmt=True), MOST_S),
        ("Sunday, 29-Nov-26 12:00:30 GMT", 30.0),
        ("Sun Nov 29 12:00:30 2026", 30.0),
        ("Sun, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_garbage_is_nothing(
    header: str | None, expected: float | None
) -> None:
    assert expected == parse_retry_after(header, NOW, most_s=MOST_S)


@given(st.text())
def test_no_header_breaks_the_reader(header: str) -> None:
    wait_s = parse_retry_after(header, NOW, most_s=MOST_S)
    assert wait_s is None or 0 <= wait_s <= MOST_S


@pytest.mark.parametrize("most_s", [60.0, 31 * 86_400.0])
@pytest.mark.parametrize(
    "header", ["99999999", "9" * 10, format_datetime(NOW + timedelta(days=900), usegmt=True)]
)
def test_a_wait_is_cut_where_the_operator_says(header: str, most_s: float) -> None:
    assert parse_retry_after(header, NOW, most_s=most_s) == most_s
