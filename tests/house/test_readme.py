"""The README's promises about commands are true: CI runs the very lines a newcomer copies."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.house.places import ROOT

README = ROOT / "README.md"


def block_after(heading: str) -> str:
    """Return the first fenced code block after a heading."""
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}$.*?```\w*\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"README has no code block under {heading!r}"
    return found.group(1).strip()


def test_ci_runs_the_readmes_test_command() -> None:
    """What the README tells people to run is what CI runs, letter by letter."""
    command = block_after("Run the tests")

    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_main_command_is_the_first_one() -> None:
    """A newcomer's first command certifies the reference sender."""
    assert block_after("Certify a sender in one command").endswith("simulator certify")


def test_both_programs_say_what_they_can() -> None:
    """`--help` of each program names every command the README or the docs speak of."""
    for module, package in (("simulator.cli", "simulator"), ("reference_sender.cli", "reference-sender")):
        done = subprocess.run(
            [sys.executable, "-c", f"from {module} import main; main(['--help'])"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        commands = set(re.findall(r"^  ([a-z]+)  ", done.stdout, re.MULTILINE))
        docs = "\n".join(
            path.read_text(encoding="utf-8") for path in (README, *sorted((ROOT / "docs").rglob("*.md")))
        )
        missing = [command for command in commands if f"{package} {command}" not in docs]
        assert commands
        assert missing == [], f"no page shows how to use: {missing}"
