"""`python -m scenarios`."""

from __future__ import annotations

import subprocess
import sys


def test_the_module_can_be_run() -> None:
    """It says what it can do."""
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", "certify", "--help"], capture_output=True, text=True, check=True
    )

    for option in ("--sender", "--profile", "--select", "--quick", "--seed", "--report", "--list"):
        assert option in done.stdout


def test_a_search_can_be_begun() -> None:
    """The command is there, and says what it does."""
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", "search", "--help"], capture_output=True, text=True, check=True
    )

    for words in ("without bytes", "--size", "--seconds", "--replays"):
        assert words in done.stdout


def test_the_zoo_can_be_visited() -> None:
    """The command is there, and says what it does."""
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", "zoo", "--help"], capture_output=True, text=True, check=True
    )

    assert "known-bad sender" in done.stdout
