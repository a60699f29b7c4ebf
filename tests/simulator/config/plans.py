"""Plans for the tests: one rule at a time, and the sentence about a broken one."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.config import (
    PlanError,
    read_plan,
)
from simulator.provider.rule import Rule


def one(**keys: Any) -> Rule:
    """Read a plan of one rule; `hang` if no fault is named."""
    (rule,) = read_plan({"rule": [{"fault": "hang"} | keys]}, "plan.toml").plan.rules
    return rule


def sentence(data: object) -> str:
    """Return what is said about a broken plan."""
    with pytest.raises(PlanError) as caught:
        read_plan(data, "plan.toml")  # type: ignore[arg-type]
    said = str(caught.value)
    assert "\n" not in said
    return said


def about(**keys: Any) -> str:
    return sentence({"rule": [{"fault": "hang"} | keys]})


WRITTEN: list[dict[str, Any]] = [
    {"fault": "hang", "stage": "rcpt", "recipient": "a@*"},
    {"fault": "hang", "delay_s": 2.5, "dialect": "smtp"},
    {"fault": "accept_then_reply", "code": 503, "retry_after": "date:1.5"},
    {"fault": "accept_then_hold", "dialect": "native", "key": "k"},
    {"fault": "reply", "code": 451, "enhanced": "4.3.0", "text": "no", "retry_after": 3, "body": "x"},
    {"fault": "reply", "code": 429, "retry_after": "zero", "stage": "accept"},
    {"fault": "refuse_recipients", "code": 450, "recipients": "b@*", "account": "*"},
    {"fault": "slow", "delay_s": 1, "skip": 1, "first": 9, "every": 2, "probability": 0.5},
    {"fault": "reset", "from_s": 1, "until_s": 2, "times": 3, "per": "mail", "sender": "", "sticks": "mail"},
    {"fault": "fate", "fate": "soft_bounce", "after_s": 2, "code": 450, "category": "policy"},
    {"fault": "webhook_early", "within_s": 2},
    {"fault": "webhook_late", "delay_s": 60, "event": "email.bounced", "probability": 0.5},
    {"fault": "webhook_duplicate", "copies": 3, "delay_s": 1, "recipient": "a@*"},
    {"fault": "webhook_bad_signature", "forgery": "missing", "tries": 2},
    {"fault": "webhook_malformed", "damage": "html", "per": "mail", "times": 1},
    {"fault": "webhook_conflict", "says": "email.opened"},
    {"fault": "accept_then_drop", "header": {"X-Kind": "bulk"}},
    {"fault": "garble", "code": 202, "stage": "connect"},
]
