"""What a provider says about coming back, in every form it is said in."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender.policy.classify import classify
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.pauses import pause_s, used_up_s
from tests.reference_sender.samples import NOW

EPOCH = int(NOW.timestamp())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("RateLimit", '"default";r=0;t=30')], 30),
        ([("ratelimit", '"burst";r=5;t=1, "daily";r=0;t=600')], 600),
        ([("RateLimit", '"a,b";r=0;t=7')], 7),
        ([("RateLimit", "Day;r=0;t=7, Burst;r=5;t=3")], 7),
        ([("RateLimit", '"default";r=3;t=30')], 0),
        ([("RateLimit", '"default";r=0')], 0),
        ([("RateLimit", "nonsense")], 0),
        ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", "12")], 12),
        ([("ratelimit-remaining", "1"), ("ratelimit-reset", "12")], 0),
        ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "9")], 9),
        ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", str(EPOCH + 40))], 40),
        ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", str(EPOCH - 40))], 0),
        ([("x-sib-ratelimit-remaining", "0"), ("x-sib-ratelimit-reset", "8")], 8),
        ([("RateLimit-Remaining", "0")], 0),
        ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", "soon")], 0),
        ([("RateLimit-Remaining", "-1"), ("RateLimit-Reset", "5")], 0),
        ([("RateLimit-Policy", '"default";q=10;w=1')], 0),
        ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", "99999999")], 86_400),
        ([], 0),
    ],
)
def test_fields_that_tell_of_quota(fields: list[tuple[str, str]], expected: float) -> None:
    assert used_up_s(tuple(fields), NOW, most_s=86_400.0) == pytest.approx(expected, abs=1.0)


@given(
    st.lists(st.tuples(st.sampled_from(["RateLimit", "X-RateLimit-Reset", "RateLimit-Remaining"]), st.text()))
)
def test_whatever_stands_there_is_a_pause_of_at_most_a_day(fields: list[tuple[str, str]]) -> None:
    assert 0.0 <= used_up_s(tuple(fields), NOW, most_s=86_400.0) <= 86_400.0


@pytest.mark.parametrize(
    ("code", "retry_after", "throttles", "expected"),
    [
        (429, "30", 0, 30),
        (503, "30", 0, 30),
        (429, format_datetime(NOW + timedelta(seconds=45), usegmt=True), 0, 45),
        # Too fast, and no time named: longer each time in a row.
        (429, None, 0, 2),
        (429, None, 1, 4),
        (429, None, 9, 60),
        (429, "garbage", 0, 2),
        # Or one that is over: whoever came back at once would be too fast again, with the whole queue.
        (429, "0", 0, 2),
        (429, "0", 1, 4),
        (429, format_datetime(NOW - timedelta(minutes=5), usegmt=True), 2, 8),
        (503, "0", 0, 0),
        # Down without a word is the breaker's business.
        (503, None, 0, 0),
        # About one mail only.
        (409, "30", 0, 0),
        (422, "30", 0, 0),
        (200, "30", 0, 0),
    ],
)
def test_what_is_said_to_everybody(
    code: int, retry_after: str | None, throttles: int, expected: float
) -> None:
    evidence = Evidence(
        wire=Wire.HTTP, phase=Phase.SENT, code=code, retry_after=retry_after, provider_id="m1"
    )
    said = pause_s(
        classify(evidence), evidence, NOW, throttles=throttles, base_s=2.0, cap_s=60.0, most_s=86_400.0
    )
    assert said == pytest.approx(expected, abs=1.0)


def test_quota_that_is_used_up_is_heard_with_a_success_as_well() -> None:
    evidence = Evidence(
        wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1", limits=(("RateLimit", '"d";r=0;t=5'),)
    )
    assert (
        pause_s(classify(evidence), evidence, NOW, throttles=0, base_s=2.0, cap_s=60.0, most_s=86_400.0)
        == 5.0
    )


def test_what_is_said_holds_for_as_long_as_the_operator_says() -> None:
    used_up = (("RateLimit", '"d";r=0;t=7200'),)
    assert used_up_s(used_up, NOW, most_s=3_600.0) == 3_600.0
    for facts in ({"retry_after": "7200"}, {"limits": used_up}):
        evidence = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=503, **facts)
        said = pause_s(classify(evidence), evidence, NOW, throttles=0, base_s=2.0, cap_s=60.0, most_s=3_600.0)
        assert said == 3_600.0
