"""Settings that contradict themselves are refused with one sentence."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from reference_sender.policy.settings import MOST, InvalidSettings, Policy, Settings
from tests.reference_sender.samples import NOW, settings


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"total_timeout_s": 120.0}, "must be shorter than lease_s"),
        ({"lease_s": 5.0}, "must be shorter than lease_s"),
        ({"read_timeout_s": 61.0}, "must not be longer than total_timeout_s"),
        ({"connect_timeout_s": 61.0}, "must not be longer than total_timeout_s"),
        ({"backoff_base_s": 700.0}, "must not be greater than"),
        ({"concurrency": 0}, "greater than zero"),
        ({"max_attempts": -1}, "greater than zero"),
        ({"poll_s": 0.0}, "greater than zero"),
        ({"suspect_alone_s": 0.0}, "suspect_alone_s is 0.0; it must be greater than zero"),
        ({"suspect_alone_s": -1.0}, "greater than zero"),
        ({"lease_s": 1e300}, "lease_s is 1e\\+300; it must be a number of at most 3,153,600,000"),
        ({"concurrency": 10**400}, "at most"),
        ({"in_flight_s": -1.0}, "must not be negative"),
        ({"smtp_idle_s": -1.0}, "must not be negative"),
        ({"retry_after_max_s": 0.0}, "retry_after_max_s is 0.0; it must be greater than zero"),
        ({"retry_after_max_s": -1.0}, "retry_after_max_s is -1.0; it must be greater than zero"),
        ({"retry_after_max_s": float("nan")}, "retry_after_max_s is nan"),
        ({"smtp_idle_s": 301.0}, "smtp_idle_s is 301; it must be at most 300"),
    ],
)
def test_a_contradiction_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidSettings, match=word):
        settings(**changes)


def test_a_connection_may_wait_as_long_as_a_server_has_to() -> None:
    """RFC 5321, section 4.5.3.2.7: five minutes."""
    assert settings(smtp_idle_s=300.0).smtp_idle_s == 300.0
    with pytest.raises(InvalidSettings) as refused:
        settings(smtp_idle_s=300.5)
    assert str(refused.value) == (
        "smtp_idle_s is 300.5; it must be at most 300, because no mail server has to wait longer for the next mail (RFC 5321)"
    )


def test_a_wait_that_is_named_may_be_as_long_as_a_quota_is_counted() -> None:
    month_s = 31 * 86_400.0
    assert settings(retry_after_max_s=month_s).retry_after_max_s == month_s
    with pytest.raises(InvalidSettings) as refused:
        settings(retry_after_max_s=month_s + 1)
    assert str(refused.value) == (
        "retry_after_max_s is 2678401; it must be at most 2678400, a month, because no quota is counted for longer"
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", [f.name for f in fields(Settings) if f.name != "policy"])
def test_what_is_no_number_is_refused_everywhere(name: str, number: float) -> None:
    changes: dict[str, Any] = {name: number}
    with pytest.raises(InvalidSettings, match=f"{name} is"):
        settings(**changes)


def test_the_longest_span_fits_the_calendar() -> None:
    assert NOW + timedelta(seconds=2 * MOST) > NOW


def test_the_defaults_are_valid_for_every_policy() -> None:
    for policy in Policy:
        assert settings(policy).policy is policy


def test_only_keys_make_a_repeat_harmless() -> None:
    assert [p for p in Policy if p.dedupes] == [Policy.RESEND_SAME_KEY]


def test_a_negative_look_up_waits_for_lag_and_flight() -> None:
    assert settings(lookup_lag_s=2.0, in_flight_s=5.0).negative_counts_after_s == 7.0
