"""A fault in the words of the plan language: its name and those parameters that are not as usual."""

from __future__ import annotations

import dataclasses
import json
from enum import StrEnum
from functools import lru_cache
from typing import Any

from simulator.provider.answer import RetryAfter, RetryAfterKind
from simulator.provider.faults.table import Fault


def as_table(fault: Fault) -> dict[str, Any]:
    """Return the keys of a rule that say what goes wrong."""
    table: dict[str, Any] = {"fault": fault.name}
    for parameter in dataclasses.fields(fault):
        value = getattr(fault, parameter.name)
        if value is not None and value != parameter.default:
            table[parameter.name] = _plain(value)
    return table


@lru_cache(maxsize=1024)
def written(fault: Fault) -> str:
    """Return the same as JSON, as the decision log keeps it."""
    return json.dumps(as_table(fault), ensure_ascii=True, separators=(",", ":"))


def _plain(value: Any) -> Any:
    match value:
        case RetryAfter(kind=RetryAfterKind.SECONDS, seconds=seconds):
            return seconds
        case RetryAfter(kind=RetryAfterKind.DATE, seconds=seconds):
            return f"date:{seconds:.9f}".rstrip("0").rstrip(".")
        case RetryAfter(kind=kind):
            return kind.value
        case StrEnum():
            return value.value
        case tuple():
            return list(value)
        case _:
            return value
