"""How limits stand is told in the form that the account chooses."""

from __future__ import annotations

import pytest

from simulator.dialects.native.ratelimit import FORMS, rate_fields
from simulator.provider.api import RATE_FIELDS
from simulator.provider.meters import Standing
from tests.simulator.provider.mails import NOW

BURST = Standing(name="burst", quota=10, window_s=0.2, remaining=0, reset_s=0.02)
DAILY = Standing(name="account-per_day", quota=2000, window_s=86_400, remaining=7, reset_s=3_600.2)


def told(form: str, *standings: Standing) -> dict[str, str]:
    return dict(rate_fields(form, standings or (BURST, DAILY), NOW))


def test_every_form_can_be_written() -> None:
    assert tuple(FORMS) == RATE_FIELDS


def test_the_draft_tells_every_limit() -> None:
    assert told("ietf") == {
        "RateLimit-Policy": '"burst";q=10;w=1, "account-per_day";q=2000;w=86400',
        "RateLimit": '"burst";r=0;t=1, "account-per_day";r=7;t=3601',
    }


def test_the_sixth_version_tells_the_tightest() -> None:
    assert told("draft6") == {"RateLimit-Limit": "10", "RateLimit-Remaining": "0", "RateLimit-Reset": "1"}


def test_the_same_names_have_two_units() -> None:
    """Seconds, or seconds since 1970."""
    assert told("x_seconds", DAILY) == {
        "X-RateLimit-Limit": "2000", "X-RateLimit-Remaining": "7", "X-RateLimit-Reset": "3601",
    }  # fmt: skip
    assert told("x_epoch", DAILY) == told("x_seconds", DAILY) | {
        "X-RateLimit-Reset": str(int(NOW.timestamp()) + 3601)
    }


def test_silence_is_a_form() -> None:
    assert told("none") == {}


@pytest.mark.parametrize("form", RATE_FIELDS)
def test_without_limits_nothing_is_told(form: str) -> None:
    assert rate_fields(form, (), NOW) == ()


def test_whole_seconds_stay_whole() -> None:
    """Who waits as told must not be refused, and who is told too much waits in vain."""
    exact = Standing(name="a", quota=1, window_s=3.0000000000001, remaining=0, reset_s=3.0000000000001)

    assert told("ietf", exact)["RateLimit"] == '"a";r=0;t=3'


@pytest.mark.parametrize(
    ("name", "written"), [('a"b', r'"a\"b"'), ("a\\b", r'"a\\b"'), ("grün\n", '"gr?n?"')]
)
def test_a_name_is_a_structured_string(name: str, written: str) -> None:
    odd = Standing(name=name, quota=1, window_s=1, remaining=1, reset_s=0)

    assert told("ietf", odd)["RateLimit"] == f"{written};r=1;t=0"
