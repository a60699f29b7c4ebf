"""What a plan says besides its rules: as data, as somebody would write it, and in sentences for people."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from simulator.config.greylist import greylist_as_json
from simulator.config.limits import limit_as_json
from simulator.config.returns import returns_as_json
from simulator.config.webhooks import webhooks_as_json
from simulator.provider.limits import Limit, Limits, Scope
from simulator.provider.provider import Setup

#: Limits that look at one mail only; the others are limits on throughput.
SIZES = ("max_size_bytes", "max_recipients")
THROUGHPUT = tuple(field.name for field in dataclasses.fields(Limits) if field.name not in SIZES)

_WHOSE = {
    Scope.ACCOUNT: "for the whole account",
    Scope.IP: "for each address",
    Scope.SENDER: "for each sender",
    Scope.RECIPIENT_DOMAIN: "for each recipient domain",
}
_QUOTAS = (("per_minute", "minute"), ("per_hour", "hour"), ("per_day", "day"))
#: What is said in a sentence of its own.
_TOLD = frozenset({"limit", "greylist", *(f"limits.{name}" for name in THROUGHPUT)})
#: What is not for every eye that sees a terminal, a log or a page.
_SECRET = ("webhooks.secret", "webhooks.headers")


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
        "returns": returns_as_json(setup.returns),
        "greylist": greylist_as_json(setup.greylist),
    }


def explain_settings(setup: Setup) -> list[str]:
    """Return a sentence for each limit on throughput, the greylist, a recording, and each table that is not as usual."""
    said = [_limit(limit) for limit in setup.throughput]
    if (rules := setup.greylist) is not None:
        said.append(
            f'greylist: at SMTP "rcpt", who comes for the first time is put off for {rules.delay_s:g} s with '
            f"{rules.code} {rules.enhanced}."
        )
    if setup.plan.recorded is not None:
        count = len(setup.plan.recorded)
        said.append(
            f"replay: {count} decision{' of a former run strikes' if count == 1 else 's of a former run strike'} again."
        )
    return [*said, *_tables(setup)]


def _tables(setup: Setup) -> Iterator[str]:
    """Yield each table with what in it is not as usual."""
    usual = settings_as_json(Setup())
    for table, settings in settings_as_json(setup).items():
        if table in _TOLD:
            continue
        other = {
            key: value
            for key, value in settings.items()
            if value != usual[table][key] and f"{table}.{key}" not in _TOLD
        }
        secret = [key for key in other if f"{table}.{key}" in _SECRET]
        parts = [f"{key} = {_value(value)}" for key, value in other.items() if key not in secret]
        if secret:
            parts.append(f"{' and '.join(secret)} {'is' if len(secret) == 1 else 'are'} set")
        if parts:
            yield f"[{table}]: {', '.join(parts)}."


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False)


def _limit(limit: Limit) -> str:
    what = "recipients" if limit.counts_recipients else "mails"
    parts = []
    if limit.rate_per_s is not None:
        parts.append(f"{limit.rate_per_s:g} {what} a second ({limit.burst} at once)")
    for key, window in _QUOTAS:
        quota: int | None = getattr(limit, key)
        if quota is not None:
            parts.append(f"{quota} {what} {'an' if window == 'hour' else 'a'} {window}")
    if limit.connections is not None:
        parts.append(f"{limit.connections} connections at the same time")
    only = "" if limit.only is None else f" like {limit.only.text}"
    return f"limit {limit.name}: {_WHOSE[limit.per]}{only} at most {', '.join(parts)}."
