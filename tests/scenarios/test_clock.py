"""The clock: waiting for facts."""

from __future__ import annotations

from datetime import timedelta

from scenarios import clock


def test_a_fact_that_holds_is_returned_at_once() -> None:
    """No time passes for what is there already."""
    before = clock.monotonic_s()

    assert clock.wait_until(lambda: "there", timeout_s=5.0) == "there"
    assert clock.monotonic_s() - before < 1.0


def test_a_fact_that_comes_later_is_seen() -> None:
    """It is looked at again and again."""
    looks = iter([None, None, "now"])

    assert clock.wait_until(lambda: next(looks), timeout_s=5.0, every_s=0.001) == "now"


def test_a_fact_that_never_comes_is_none_when_time_is_up() -> None:
    """The deadline holds, and a last look is taken at it."""
    before = clock.monotonic_s()

    assert clock.wait_until(lambda: None, timeout_s=0.05, every_s=0.01) is None
    assert clock.monotonic_s() - before >= 0.05


def test_the_wall_clock_knows_its_zone() -> None:
    """Times of the provider and of the harness can be compared."""
    assert clock.now().utcoffset() == timedelta(0)
