"""One thing an operator may set, as the command line, the environment and a file of providers know it.

Must not hold: which options there are (`option_table`, `gate_options`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One thing an operator may set: its name on the command line, in the environment, and what it is for."""

    name: str  # of the value; the command line option is --name-with-dashes
    envvar: str
    help: str
    kind: type[str] | type[int] | type[float] = str
    choices: tuple[str, ...] = ()
    default: Any = None  # None: depends on the transport, or there is none


def renamed(sentence: str, names: Mapping[str, str]) -> str:
    """The sentence with each of these names, where it stands as a word of its own, replaced by the other.

    Whoever checks a value knows it by one name; whoever gave it may have used another: so each edge puts in its own.
    """
    if not names:
        return sentence
    words = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![\w-])(?:{words})(?![\w-])", lambda found: names[found[0]], sentence)
