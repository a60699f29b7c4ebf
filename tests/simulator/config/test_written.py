"""A plan is shown as it was written, and a rule made in code as somebody would write it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from simulator.config import (
    plan_as_json,
    read_plan,
    rule_as_json,
)
from simulator.config.returns import returns_as_json
from simulator.config.webhooks import webhooks_as_json
from simulator.config.written import setup_as_json
from simulator.provider.api import ApiRules
from simulator.provider.batch import BatchRules
from simulator.provider.idempotency import KeyRules
from simulator.provider.limits import Limits
from simulator.provider.magic import Magic
from simulator.provider.provider import Provider
from simulator.provider.returns import ReturnRules
from simulator.provider.smtp import SmtpRules
from simulator.provider.webhooks import WebhookRules
from tests.simulator.config.plans import WRITTEN, one
from tests.simulator.provider.mails import NOW


def test_a_plan_is_shown_as_it_was_written_with_its_counts() -> None:
    written = {"name": "lost", "fault": "accept_then_hang_up", "stage": "message", "sticks": "once"}
    setup = read_plan({"seed": 3, "rule": [written], "limits": {"burst": 2}}, "plan.toml")
    account = Provider(setup=setup, now=NOW).account("default", NOW)

    assert plan_as_json(account, NOW) == {
        "seed": 3,
        "rules": [written | {"seen": 0, "fired": 0, "over": False}],
        "idempotency": dataclasses.asdict(KeyRules()),
        "limits": dataclasses.asdict(Limits(burst=2)),
        "limit": [],
        "smtp": dataclasses.asdict(SmtpRules()),
        "http": dataclasses.asdict(ApiRules()) | {"aliases": {}},
        "batch": dataclasses.asdict(BatchRules()),
        "magic": dataclasses.asdict(Magic()),
        "webhooks": webhooks_as_json(WebhookRules()),
        "returns": returns_as_json(ReturnRules()),
        "greylist": None,
        "replay": None,
        "settings": [],
        "doubts": [],
    }


def test_a_plan_is_shown_with_what_is_set_in_words() -> None:
    """But for a recording, of which it is said how far it is."""
    replay = {"wire": "http", "stage": "accept", "nth": 1, "strikes": [{"rule": "r", "fault": "hang"}]}
    setup = read_plan({"smtp": {"hide": ["AUTH"]}, "limits": {"per_day": 4}, "replay": [replay]}, "plan.toml")
    account = Provider(setup=setup, now=NOW).account("default", NOW)

    assert plan_as_json(account, NOW)["settings"] == [
        "limit account: for the whole account at most 4 mails a day.",
        '[smtp]: hide = ["AUTH"].',
    ]


def test_a_plan_is_shown_with_what_is_doubtful_in_its_account() -> None:
    """Also of rules that were added."""
    setup = read_plan({"rules": ["421 at connect"]}, "plan.toml")
    provider = Provider(setup=setup, now=NOW)
    provider.add_rules("shop", read_plan({"rules": ["hang up at ehlo"]}, "more").plan.rules, NOW)

    doubts = plan_as_json(provider.account("shop", NOW), NOW)["doubts"]
    assert [each.partition(" can never")[0] for each in doubts] == [
        'rule 1 ("421 at connect")',
        'rule 2 ("hang up at ehlo")',
    ]
    assert plan_as_json(provider.account("default", NOW), NOW)["doubts"] == []


def test_events_set_by_hand_are_those_that_rules_are_doubted_by() -> None:
    rule = {"fault": "webhook_lose", "event": "email.opened"}
    account = Provider(setup=read_plan({"rules": [rule]}, "plan.toml"), now=NOW).account("default", NOW)

    by_plan = plan_as_json(account, NOW)
    by_hand = plan_as_json(account, NOW, WebhookRules(events=("email.bounced",)))

    assert (by_plan["doubts"], len(by_hand["doubts"])) == ([], 1)
    assert by_hand["webhooks"] == by_plan["webhooks"], "those of the plan"


def test_a_whole_plan_is_written_so_that_it_is_read_back_equal() -> None:
    plan = {
        "seed": 3,
        "rules": [{"fault": "hang", "first": 2}],
        "idempotency": {"window_s": 9},
        "limits": {"per_day": 4},
        "limit": [{"per": "ip", "connections": 3}],
    }
    setup = read_plan(plan, "plan.toml")

    assert read_plan(setup_as_json(setup), "again") == setup


@pytest.mark.parametrize("written", WRITTEN, ids=str)
def test_a_rule_made_in_code_is_shown_as_somebody_would_write_it(written: dict[str, Any]) -> None:
    """Read back, it is the same rule."""
    rule = dataclasses.replace(one(**written), written=None)
    shown = rule_as_json(rule)

    assert json.loads(json.dumps(shown)) == shown
    assert one(**shown) == rule
