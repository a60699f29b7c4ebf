"""Files of plans: what is in them, as TOML or JSON has it; nothing here knows what it means."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from simulator.config.place import PlanError


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
        return parse_json(text, source)
    return parse_toml(text, source)


def parse_toml(text: str, source: str) -> dict[str, Any]:
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


def parse_json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise PlanError(
            f"{source}, line {problem.lineno}: this is not valid JSON: {problem.msg} (column {problem.colno})"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise PlanError(f"{source}: this is not valid JSON: it goes beyond what is read here") from problem
