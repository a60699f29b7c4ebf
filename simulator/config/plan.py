"""Whole plans: a TOML or JSON text becomes a `Setup`, and whatever is wrong with it becomes one sentence."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.config.forms import read_whole
from simulator.config.keys import read_keys
from simulator.config.limits import read_limit, read_limits
from simulator.config.place import Place, PlanError, refuse_unknown, shown
from simulator.config.rules import read_rules
from simulator.config.smtp import read_smtp
from simulator.provider.plan import Plan
from simulator.provider.provider import Setup

PLAN_KEYS = ("seed", "rule", "idempotency", "limits", "limit", "smtp")


def read_plan_file(path: str | Path) -> Setup:
    """Read a plan from a TOML file (JSON if it is named so). Raise `PlanError`."""
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
        return read_plan(_parse_json(text, source), source)
    return read_plan(_parse_toml(text, source), source)


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
    # JSON people write the plural, TOML needs the singular for [[rule]].
    refuse_unknown(place, data, (*PLAN_KEYS, "rules"))
    if "rule" in data and "rules" in data:
        raise place.wrong('both "rule" and "rules" are given; put all rules under one of them')
    rules = data.get("rule", data.get("rules", []))
    return Setup(
        plan=Plan(
            rules=read_rules(rules, source), seed=read_whole(place, "seed", data.get("seed", 0), least=None)
        ),
        keys=read_keys(data.get("idempotency", {}), place.at("[idempotency]")),
        limits=read_limits(data.get("limits", {}), place.at("[limits]")),
        limit=read_limit(data.get("limit", []), place),
        smtp=read_smtp(data.get("smtp", {}), place.at("[smtp]")),
    )
