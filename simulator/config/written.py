"""Plans as they are written: a rule back in the plan language, a plan at work as the control API shows it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from simulator.config.doubts import warnings
from simulator.config.replay import recorded_as_json, replay_as_json
from simulator.config.settings import THROUGHPUT, explain_settings, settings_as_json
from simulator.provider.faults import natural_stage
from simulator.provider.faults.written import as_table
from simulator.provider.ledger import Decision
from simulator.provider.plan import Plan
from simulator.provider.plan_state import PlanState
from simulator.provider.provider import Account, Setup
from simulator.provider.replay import ReplayState
from simulator.provider.rule import Pattern, Per, Rule, When
from simulator.provider.webhooks import WebhookRules


def rule_as_json(rule: Rule) -> dict[str, Any]:
    """Return a rule in the plan language: as it was written, or as somebody would write it."""
    if rule.written is not None:
        written: dict[str, Any] = json.loads(rule.written)
        return written
    data: dict[str, Any] = {"name": rule.name, "fault": rule.fault.name}
    stages = {stage for _, stage in rule.stages}
    natural = {(wire, natural_stage(rule.fault, wire)) for wire, _ in rule.stages}
    if natural != rule.stages:
        data["stage"] = next(iter(stages)) if len(stages) == 1 else sorted(stages)
    wires = {wire for wire, _ in rule.stages}
    if rule.who.dialect is not None:
        data["dialect"] = rule.who.dialect.text
    elif len(wires) == 1:
        data["dialect"] = next(iter(wires))
    for key in ("account", "sender", "recipient", "key", "event"):
        pattern: Pattern | None = getattr(rule.who, key)
        if pattern is not None:
            data[key] = pattern.text
    if rule.who.headers:
        data["header"] = {name: pattern.text for name, pattern in rule.who.headers}
    for field in dataclasses.fields(When):
        value = getattr(rule.when, field.name)
        if value != field.default:
            data[field.name] = value
    if rule.per is not Per.PLAN:
        data["per"] = rule.per.value
    if rule.sticks_to_mail:
        data["sticks"] = "mail"
    return data | as_table(rule.fault)


def plan_as_json(account: Account, now: datetime, webhooks: WebhookRules | None = None) -> dict[str, Any]:
    """Return what the control API shows of an account's plan: its rules with their counts, its settings.

    `webhooks`: those in force, where somebody else than the plan has said so; rules are doubted by them.
    """
    in_force = dataclasses.replace(
        account.setup, plan=account.plan.plan, webhooks=webhooks or account.setup.webhooks
    )
    return {
        "seed": account.plan.plan.seed,
        "rules": [
            rule_as_json(each.rule) | {"seen": each.seen, "fired": each.fired, "over": each.over}
            for each in account.plan.tally(account.clock.now(now))
        ],
        "replay": _progress(account.plan),
        # Of a recording is said how far it is.
        "settings": explain_settings(dataclasses.replace(account.setup, plan=Plan())),
        "doubts": warnings(in_force, account=account.name),
    } | settings_as_json(account.setup)


def _progress(state: PlanState) -> dict[str, int] | None:
    return {"recorded": state.recorded, "struck": state.struck} if isinstance(state, ReplayState) else None


def recording_as_json(setup: Setup, decisions: Iterable[Decision], *, seed: int) -> dict[str, Any]:
    """Return a plan that does again what was decided, without rules, limits on throughput and magic of its own."""
    settings = settings_as_json(setup)
    # Limits that look at one mail only are held like in the first run.
    limits = settings["limits"] | dict.fromkeys(THROUGHPUT)
    settings |= {
        "limits": limits | {"burst": 1},
        "limit": [],
        "magic": settings["magic"] | {"on": False},
        "greylist": None,
    }
    return {"seed": seed} | settings | {"replay": replay_as_json(decisions)}


def setup_as_json(setup: Setup) -> dict[str, Any]:
    """Return a whole plan in the plan language, as `PUT plan` takes it."""
    rules = [rule_as_json(rule) for rule in setup.plan.rules]
    recorded = {} if setup.plan.recorded is None else {"replay": recorded_as_json(setup.plan.recorded)}
    return {"seed": setup.plan.seed, "rules": rules} | settings_as_json(setup) | recorded
