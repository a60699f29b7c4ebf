"""Where things are: the folders the house tests look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("simulator", "reference_sender", "scenarios")


def modules() -> Iterator[Path]:
    """Yield every Python file of the packages, relative to the root."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT)
