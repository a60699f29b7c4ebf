"""Plans as they are written: a rule back in the plan language, a plan at work as the control API shows it."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import Any

from simulator.config.greylist import greylist_as_json
from simulator.config.limits import limit_as_json
from simulator.config.webhooks import webhooks_as_json
from simulator.provider.answer import RetryAfter, RetryAfterKind
from simulator.provider.faults import natural_stage
from simulator.provider.plan import Pattern, Per, Rule, When
from simulator.provider.provider import Account, Setup


def rule_as_json(rule: Rule) -> dict[str, Any]:
    """Return a rule in the plan language: as it was written, or as somebody would write it."""
    if rule.written is not None:
        written: dict[str, Any] = json.loads(rule.written)
        return written
    data: dict[str, Any] = {"name": rule.name, "fault": rule.fault.name}
    stages = {stage for _, stage in rule.stages}
    natural = {(wire, natural_stage(rule.fault, wire)) for wire, _ in rule.stages}
    if natural != rule.stages and len(stages) == 1:
        data["stage"] = next(iter(stages))
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
    for parameter in dataclasses.fields(rule.fault):
        value = getattr(rule.fault, parameter.name)
        if value is not None and value != parameter.default:
            data[parameter.name] = _written_retry(value) if isinstance(value, RetryAfter) else value
    return data


def _written_retry(retry: RetryAfter) -> float | str:
    match retry.kind:
        case RetryAfterKind.SECONDS:
            return retry.seconds
        case RetryAfterKind.DATE:
            return f"date:{retry.seconds:.9f}".rstrip("0").rstrip(".")
        case _:
            return retry.kind.value


def plan_as_json(account: Account, now: datetime) -> dict[str, Any]:
    """Return what the control API shows of an account's plan: its rules with their counts, its settings."""
    return {
        "seed": account.plan.plan.seed,
        "rules": [
            rule_as_json(each.rule) | {"seen": each.seen, "fired": each.fired, "over": each.over}
            for each in account.plan.tally(account.clock.now(now))
        ],
    } | settings_as_json(account.setup)


def setup_as_json(setup: Setup) -> dict[str, Any]:
    """Return a whole plan in the plan language, as `PUT plan` takes it."""
    rules = [rule_as_json(rule) for rule in setup.plan.rules]
    return {"seed": setup.plan.seed, "rules": rules} | settings_as_json(setup)


def settings_as_json(setup: Setup) -> dict[str, Any]:
    """Return everything of a plan but its rules."""
    return {
        "idempotency": dataclasses.asdict(setup.keys),
        "limits": dataclasses.asdict(setup.limits),
        "limit": [limit_as_json(limit) for limit in setup.limit],
        "smtp": dataclasses.asdict(setup.smtp),
        "http": dataclasses.asdict(setup.api) | {"aliases": dict(setup.api.aliases)},
        "batch": dataclasses.asdict(setup.batch),
        "magic": dataclasses.asdict(setup.magic),
        "webhooks": webhooks_as_json(setup.webhooks),
        "greylist": greylist_as_json(setup.greylist),
    }
