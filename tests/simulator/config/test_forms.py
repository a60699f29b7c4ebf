"""Every form a value may be written in, and the sentence about all others."""

from __future__ import annotations

import pytest

from simulator.config import (
    PlanError,
    read_plan,
)
from simulator.provider.answer import RetryAfter, RetryAfterKind
from simulator.provider.faults import (
    ReplyWith,
    SlowDown,
)
from tests.simulator.config.plans import one


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (30, RetryAfter(kind=RetryAfterKind.SECONDS, seconds=30)),
        (0.5, RetryAfter(kind=RetryAfterKind.SECONDS, seconds=0.5)),
        ("date:30", RetryAfter(kind=RetryAfterKind.DATE, seconds=30)),
        ("date:1.5", RetryAfter(kind=RetryAfterKind.DATE, seconds=1.5)),
        ("zero", RetryAfter(kind=RetryAfterKind.ZERO)),
        ("garbage", RetryAfter(kind=RetryAfterKind.GARBAGE)),
    ],
)
def test_retry_after_has_four_forms(written: object, read: RetryAfter) -> None:
    assert one(fault="reply", code=503, retry_after=written).fault == ReplyWith(code=503, retry_after=read)


def test_a_slow_rule_has_its_wait() -> None:
    assert one(fault="slow", delay_s=2).fault == SlowDown(delay_s=2.0)


@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan"), True, "2"])
def test_a_number_that_is_none_is_one_sentence(value: object) -> None:
    """Whatever cannot be waited for is refused by its key, also a whole number that no float can hold."""
    with pytest.raises(PlanError, match=r'"delay_s" is .*; it must be a number'):
        read_plan({"rule": [{"fault": "slow", "delay_s": value}]}, "test")
