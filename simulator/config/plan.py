"""Whole plans: a TOML or JSON text becomes a `Setup`, and whatever is wrong with it becomes one sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulator.config.api import read_api
from simulator.config.batch import read_batch
from simulator.config.forms import read_whole
from simulator.config.greylist import read_greylist
from simulator.config.keys import read_keys
from simulator.config.limits import read_limit, read_limits
from simulator.config.magic import read_magic
from simulator.config.place import Place, refuse_unknown, shown
from simulator.config.replay import read_replay
from simulator.config.returns import read_returns
from simulator.config.rules import read_rules
from simulator.config.shipped import load_named, load_shipped
from simulator.config.smtp import read_smtp
from simulator.config.webhooks import read_webhooks
from simulator.provider.plan import Plan
from simulator.provider.provider import Setup
from simulator.provider.rule import Rule

PLAN_KEYS = (
    "seed",
    "plan",
    "rules",
    "rule",
    "idempotency",
    "limits",
    "limit",
    "smtp",
    "http",
    "batch",
    "magic",
    "webhooks",
    "returns",
    "greylist",
    "replay",
)
#: Keys that are not about one account.
WHOLE_PROVIDER = ("accounts", "access", "retention")

#: The tables of a plan: which part of a setup each one is, and who reads it.
_TABLES: dict[str, tuple[str, Callable[[object, Place], Any]]] = {
    "idempotency": ("keys", read_keys),
    "limits": ("limits", read_limits),
    "smtp": ("smtp", read_smtp),
    "http": ("api", read_api),
    "batch": ("batch", read_batch),
    "magic": ("magic", read_magic),
    "webhooks": ("webhooks", read_webhooks),
    "returns": ("returns", read_returns),
    "greylist": ("greylist", read_greylist),
}


def read_plan_file(plan: str | Path) -> Setup:
    """Read a plan from a TOML file (JSON if it is named so), or one that comes along by its name. Raise `PlanError`."""
    data, source = load_named(plan)
    return read_plan(data, source)


def read_plan(data: Mapping[str, Any], source: str) -> Setup:
    """Read a plan that was parsed already. `source` names it in errors: a file, or `PUT plan`. Raise `PlanError`."""
    place = Place(source)
    if not isinstance(data, Mapping):
        raise place.wrong(f"a plan is an object with the keys {', '.join(PLAN_KEYS)}, not {shown(data)}")
    for key in data:
        if key in WHOLE_PROVIDER:
            raise place.wrong(f'"{key}" is about the whole provider; give it in the file of serve --plan')
    return read_setup(data, place)


def read_setup(
    data: Mapping[str, Any], place: Place, *, known: Collection[str] = (), base: Setup = Setup()
) -> Setup:
    """Read how an account behaves; what is not given is as in `base`. `known`: keys that others read."""
    refuse_unknown(place, data, (*PLAN_KEYS, *known))
    rules: list[Rule] = []
    written = 0
    # Lines come before tables, and what comes along comes last: the first rule that strikes decides.
    for key in ("rules", "rule"):
        if key in data:
            # A line may have become two rules; whoever reads what is wrong counts what he has written.
            rules += read_rules(data[key], str(place), start=len(rules) + 1, counted_from=written + 1)
            written += len(data[key])
    for name in _named(data.get("plan", []), place):
        base = replace(base, plan=replace(base.plan, rules=()))
        base = read_setup(load_shipped(name, place), Place(name), base=base)
        rules += base.plan.rules
    has_rules = any(key in data for key in ("rules", "rule", "plan"))
    seed = base.plan.seed if "seed" not in data else read_whole(place, "seed", data["seed"], least=None)
    tables = {
        part: read(data[table], place.at(f"[{table}]"))
        for table, (part, read) in _TABLES.items()
        if table in data
    }
    recorded = base.plan.recorded if "replay" not in data else read_replay(data["replay"], place)
    return replace(
        base,
        plan=Plan(rules=tuple(rules) if has_rules else base.plan.rules, seed=seed, recorded=recorded),
        limit=read_limit(data["limit"], place) if "limit" in data else base.limit,
        **tables,
    )


def _named(given: object, place: Place) -> Sequence[str]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise place.wrong(
            f'"plan" is {shown(given)}; it must be the name of a plan that comes along, or a list'
        )
    return names
