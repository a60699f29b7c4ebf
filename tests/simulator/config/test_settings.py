"""What of a plan is no rule is said in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.config import explain_settings, read_plan

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({}, []),
        ({"seed": 7, "rules": ["503"]}, []),
        ({"smtp": {"hide": ["starttls"], "size": 1000}}, ['[smtp]: hide = ["STARTTLS"], size = 1000.']),
        (
            {"limits": {"max_recipients": 5, "max_size_bytes": None}},
            ["[limits]: max_size_bytes = null, max_recipients = 5."],
        ),
        (
            {"idempotency": {"window_s": 60}, "magic": {"on": False}},
            ["[idempotency]: window_s = 60.", "[magic]: on = false."],
        ),
        ({"http": {"aliases": {"/post": "X-Key"}}}, ['[http]: aliases = {"/post": "X-Key"}.']),
        (
            {"returns": {"smtp": "127.0.0.1:25"}, "batch": {"mode": "each"}},
            ['[returns]: smtp = "127.0.0.1:25".'],
        ),
        (
            {"limits": {"rate_per_s": 2, "burst": 10, "per_hour": 500, "connections": 4}},
            [
                "limit account: for the whole account at most 2 mails a second (10 at once), 500 mails an hour, "
                "4 connections at the same time."
            ],
        ),
        (
            {"limit": [{"name": "big", "per": "recipient_domain", "only": "*.com", "per_day": 3}]},
            ["limit big: for each recipient domain like *.com at most 3 recipients a day."],
        ),
        (
            {"greylist": {"delay_s": 60}},
            ['greylist: at SMTP "rcpt", who comes for the first time is put off for 60 s with 451 4.7.1.'],
        ),
        (
            {
                "replay": [
                    {"wire": "http", "stage": "accept", "nth": 1, "strikes": [{"rule": "r", "fault": "hang"}]}
                ]
            },
            ["replay: 1 decision of a former run strikes again."],
        ),
    ],
    ids=str,
)
def test_what_is_no_rule_is_said_too(plan: dict[str, Any], said: list[str]) -> None:
    assert explain_settings(read_plan(plan, "plan.toml")) == said


def test_what_is_secret_is_not_said() -> None:
    """It is shown in a terminal and on a page; that it is set is enough."""
    plan = {
        "webhooks": {"url": "http://127.0.0.1:1/", "secret": SECRET, "headers": {"Authorization": "Bearer x"}}
    }

    assert explain_settings(read_plan(plan, "plan.toml")) == [
        '[webhooks]: url = "http://127.0.0.1:1/", secret and headers are set.'
    ]
