"""A rule is explained in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.config import explain
from tests.simulator.config.plans import WRITTEN, one


@pytest.mark.parametrize("written", WRITTEN, ids=str)
def test_a_rule_is_explained_in_one_sentence(written: dict[str, Any]) -> None:
    said = explain(one(**written))

    assert said.startswith("rule 1: at ")
    assert said.endswith(".")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"fault": "accept_then_hang_up", "dialect": "smtp", "first": 2},
            'r: at SMTP "reply" (already booked), on the first 2 occasions, hang up.',
        ),
        (
            {"fault": "reply", "code": 451, "stage": "rcpt", "recipient": "*@x", "every": 3},
            'r: at SMTP "rcpt", for recipient *@x, on every 3rd occasion, answer 451.',
        ),
        (
            {"fault": "slow", "delay_s": 2, "stage": "validate", "sticks": "once"},
            'r: at HTTP "validate", once, wait 2 s, then go on.',
        ),
        (
            {"fault": "hold", "dialect": "smtp"},
            'r: at SMTP "message", every time, hold the answer back until it is released.',
        ),
        (
            {"fault": "hang", "delay_s": 20, "dialect": "smtp"},
            'r: at SMTP "message", every time, hang for 20 s.',
        ),
        (
            {"fault": "accept_then_drop"},
            'r: at SMTP "message" and HTTP "accept", every time, take the mail, say yes and never deliver it.',
        ),
    ],
)
def test_an_explanation_says_where_whom_when_and_what(keys: dict[str, Any], said: str) -> None:
    assert explain(one(name="r", **keys)) == said
