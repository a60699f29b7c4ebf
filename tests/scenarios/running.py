"""Runs the certification as a person does, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import scenarios

PLACE = Path(scenarios.__file__).parent
SENDERS = PLACE / "senders"


def certify(*arguments: str | Path, within_s: float = 240.0) -> subprocess.CompletedProcess[str]:
    """Run `python -m scenarios certify …` without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "scenarios", "certify", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=within_s,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    )


def certificate_in(directory: Path) -> dict[str, Any]:
    """Read the certificate of a run."""
    read: dict[str, Any] = json.loads((directory / "certificate.json").read_text(encoding="utf-8"))
    return read


def by_status(certificate: dict[str, Any], status: str) -> set[str]:
    """Return the ids of the promises with this status."""
    return {entry["id"] for entry in certificate["promises"] if entry["status"] == status}
