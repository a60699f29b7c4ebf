"""Whole plans: a TOML or JSON text becomes a `Setup`, and whatever is wrong with it becomes one sentence."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulator.config.api import read_api
from simulator.config.forms import read_whole
from simulator.config.keys import read_keys
from simulator.config.limits import read_limit, read_limits
from simulator.config.place import Place, PlanError, refuse_unknown, shown
from simulator.config.rules import read_rules
from simulator.config.smtp import read_smtp
from simulator.provider.plan import Plan
from simulator.provider.provider import Setup

PLAN_KEYS = ("seed", "rule", "idempotency", "limits", "limit", "smtp", "http")
#: Keys that are not about one account.
WHOLE_PROVIDER = ("accounts", "access")

#: The tables of a plan: which part of a setup each one is, and who reads it.
_TABLES: dict[str, tuple[str, Callable[[object, Place], Any]]] = {
    "idempotency": ("keys", read_keys),
    "limits": ("limits", read_limits),
    "smtp": ("smtp", read_smtp),
    "http": ("api", read_api),
}


def read_plan_file(path: str | Path) -> Setup:
    """Read a plan from a TOML file (JSON if it is named so). Raise `PlanError`."""
    return read_plan(load(path), str(path))


def load(path: str | Path) -> Any:
    """Return what is in a TOML file (JSON if it is named so). Raise `PlanError`."""
    source = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except FileNotFoundError as problem:
        raise PlanError(f"{source}: there is no such file; give the path of a fault plan") from problem
    except IsADirectoryError as problem:
        raise PlanError(f"{source}: this is a directory; give the path of a fault plan") from problem
    except UnicodeDecodeError as problem:
        line = problem.object[: problem.start].count(b"\n") + 1
        raise PlanError(f"{source}, line {line}: this is not UTF-8; save the plan in UTF-8") from problem
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise PlanError(f"{source}: the plan cannot be read: {reason}") from problem
    if Path(path).suffix.lower() == ".json":
        return _parse_json(text, source)
    return _parse_toml(text, source)


def _parse_toml(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        said = str(problem)
        if at := re.search(r" \(at line (\d+), column (\d+)\)$", said):
            line, what = int(at[1]), f"{said[: at.start()]} (column {at[2]})"
        else:  # "… (at end of document)"
            line, what = text.count("\n") + 1, said
        raise PlanError(f"{source}, line {line}: this is not valid TOML: {what}") from problem
    except RecursionError as problem:
        raise PlanError(f"{source}: this is not valid TOML: it is nested too deeply") from problem


def _parse_json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise PlanError(
            f"{source}, line {problem.lineno}: this is not valid JSON: {problem.msg} (column {problem.colno})"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise PlanError(f"{source}: this is not valid JSON: it goes beyond what is read here") from problem


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
    # JSON people write the plural, TOML needs the singular for [[rule]].
    refuse_unknown(place, data, (*PLAN_KEYS, "rules", *known))
    if "rule" in data and "rules" in data:
        raise place.wrong('both "rule" and "rules" are given; put all rules under one of them')
    given = [data[key] for key in ("rule", "rules") if key in data]
    seed = base.plan.seed if "seed" not in data else read_whole(place, "seed", data["seed"], least=None)
    tables = {
        part: read(data[table], place.at(f"[{table}]"))
        for table, (part, read) in _TABLES.items()
        if table in data
    }
    return replace(
        base,
        plan=Plan(rules=read_rules(given[0], str(place)) if given else base.plan.rules, seed=seed),
        limit=read_limit(data["limit"], place) if "limit" in data else base.limit,
        **tables,
    )
