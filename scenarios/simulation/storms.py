"""Webhook storms: everything that can go wrong on the way of an event, as rules of the plan language.

The columns of the profiles in which a sender hears what became of its mails; how they are played says
`scenarios.simulation.intake`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scenarios.simulation.profiles import Profile

INTAKE_HOST = "10.0.0.7"
INTAKE_PORT = 8030
SECRET = "whsec_" + base64.b64encode(b"of the intake in the world, long").decode()

#: Each mail has a fate of its own; fulfilled soon, so that a storm is over within minutes.
FATES: Mapping[str, tuple[str, float]] = {
    "ada": ("clicked", 6.0),
    "bob": ("hard_bounce", 3.0),
    "cyd": ("soft_bounce", 8.0),
    "eve": ("complaint", 9.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What goes wrong on the way."""

    name: str
    rules: tuple[Mapping[str, Any], ...] = ()
    """Keys of rules in the plan language, besides those of the fates."""
    webhooks: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the table [webhooks]."""


def _storm(name: str, fault: str, *, webhooks: Mapping[str, Any] | None = None, **more: Any) -> Storm:
    return Storm(name=name, rules=({"fault": fault, **more},), webhooks=webhooks or {})


_BATCH = {"batch": 10, "batch_wait_s": 2.0}

STORMS: tuple[Storm, ...] = (
    Storm(name="nothing wrong"),
    Storm(name="in batches", webhooks=_BATCH),
    _storm("twice", "webhook_duplicate", delay_s=2.0),
    _storm("twice under another id", "webhook_duplicate_new_id", delay_s=2.0),
    _storm("late", "webhook_late", delay_s=60.0),
    _storm("out of order", "webhook_reorder"),
    _storm("before the answer", "webhook_early"),
    _storm("another secret", "webhook_bad_signature", forgery="wrong_secret"),
    _storm("changed on the way", "webhook_bad_signature", forgery="tampered"),
    _storm("not signed", "webhook_bad_signature", forgery="missing"),
    _storm("a signature that is none", "webhook_bad_signature", forgery="garbage"),
    _storm("replayed an hour later", "webhook_stale", age_s=3_600.0),
    _storm("nonsense beside it", "webhook_malformed"),
    _storm("nonsense in the batch", "webhook_malformed", webhooks=_BATCH, damage="wrong_types"),
    _storm("contradicted", "webhook_conflict"),
    _storm("of mails that nobody sent", "webhook_unknown"),
    _storm("half of it lost", "webhook_lose", every=2),
    Storm(
        name="the answer is lost and the event is not",
        rules=({"fault": "hang", "stage": "reply"},),
    ),
    Storm(
        name="everything",
        rules=(
            {"fault": "webhook_duplicate_new_id", "event": "email.bounced", "delay_s": 1.0},
            {"fault": "webhook_conflict", "event": "email.delivered"},
            {"fault": "webhook_bad_signature", "event": "email.complained"},
            {"fault": "webhook_stale", "event": "email.opened"},
            {"fault": "webhook_unknown", "event": "email.accepted"},
            {"fault": "webhook_malformed", "event": "email.deferred", "damage": "null"},
            {"fault": "webhook_late", "event": "email.delivered", "delay_s": 20.0},
        ),
        webhooks=_BATCH,
    ),
)

BY_NAME: Mapping[str, Storm] = {storm.name: storm for storm in STORMS}


def plan_of(profile: Profile, names: Iterable[str]) -> dict[str, Any]:
    """Return the plan (its JSON form) of these storms, all at once; of settings that differ the later one counts."""
    storms = [BY_NAME[name] for name in names]
    rules: list[dict[str, Any]] = [
        {
            "name": f"{who} is {fate}",
            "fault": "fate",
            "fate": fate,
            "after_s": after_s,
            "recipient": f"{who}.*",
        }
        for who, (fate, after_s) in FATES.items()
    ]
    rules += [
        {"name": f"{number}: {storm.name}", **rule}
        for storm in storms
        for number, rule in enumerate(storm.rules, 1)
    ]
    return {"seed": 1, "rule": rules, "webhooks": webhooks_of(*storms), **profile.provider}


def webhooks_of(*storms: Storm) -> dict[str, Any]:
    """Return the table [webhooks] in these storms."""
    settings = {
        "url": f"http://intake:{INTAKE_PORT}/webhooks",
        "secret": SECRET,
        "timeout_s": 5.0,
        "schedule_s": [5, 10, 20, 40, 80],
        "jitter": 0,
    }
    for storm in storms:
        settings |= storm.webhooks
    return settings
