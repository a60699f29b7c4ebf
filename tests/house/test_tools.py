"""The linters and the type checker pass: they are tests like any other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TOOLS = {
    "ruff format": ["ruff", "format", "--check", "."],
    "ruff check": ["ruff", "check", "."],
    "mypy --strict": ["mypy"],
    "import-linter": ["importlinter.cli", "lint-imports"],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_of_the_house_finds_nothing(tool: str) -> None:
    """Formatting, lint rules, types and import directions hold for code and tests alike."""
    module, *arguments = TOOLS[tool]
    code = (
        # import-linter is a console script without a module of its own to run.
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
        if module == "importlinter.cli"
        else [sys.executable, "-m", module, *arguments]
    )

    done = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, f"{tool} says:\n{done.stdout}\n{done.stderr}"
