"""Time and chance are arguments: only the clock rooms may read a clock or roll a die."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house.places import ROOT, modules

ALLOWED = {Path(package) / "clock.py" for package in ("simulator", "reference_sender", "scenarios")}

#: Module -> what may be used of it anyway.
FENCED: dict[str, frozenset[str]] = {
    "time": frozenset(),
    "random": frozenset({"Random"}),
    "uuid": frozenset({"UUID", "uuid5", "NAMESPACE_URL", "NAMESPACE_DNS"}),
    "secrets": frozenset({"compare_digest"}),
}
NOW = frozenset({"now", "utcnow", "today"})


def offences(source: str) -> list[str]:
    """Return what a module does that only a clock room may, as `line: name`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module in FENCED:
                found += [
                    f"{node.lineno}: from {module} import {alias.name}"
                    for alias in names
                    if alias.name not in FENCED[module]
                ]
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in FENCED:
                if name not in FENCED[module]:
                    found.append(f"{node.lineno}: {module}.{name}")
            case ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=name) if name in NOW:
                found.append(f"{node.lineno}: datetime.{name}")
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="datetime"), attr="datetime" | "date"), attr=name
            ) if name in NOW:
                found.append(f"{node.lineno}: datetime.{name}")
            case ast.Attribute(value=ast.Name(id="os"), attr="urandom"):
                found.append(f"{node.lineno}: os.urandom")
    return found


@pytest.mark.parametrize("module", [path for path in modules() if path not in ALLOWED], ids=str)
def test_a_module_reads_no_clock_and_rolls_no_die(module: Path) -> None:
    """Whatever needs the time or chance is handed it."""
    assert offences((ROOT / module).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.sleep(1)",
        "from time import monotonic",
        "import random\nrandom.random()",
        "import uuid\nuuid.uuid4()",
        "from uuid import uuid4",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.now()",
        "import datetime\ndatetime.date.today()",
        "import os\nos.urandom(3)",
        "import secrets\nsecrets.token_hex()",
    ],
)
def test_the_lint_sees_each_way_to_cheat(source: str) -> None:
    """A lint rule that finds nothing would pass for ever."""
    assert offences(source) != []


def test_the_lint_lets_seeded_dice_pass() -> None:
    """`random.Random(seed)` is the way to bring chance along."""
    assert offences("import random\nrng = random.Random(7)\nrng.random()") == []
