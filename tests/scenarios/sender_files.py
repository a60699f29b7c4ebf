"""The shortest sender file that is right, and a place for any other."""

from __future__ import annotations

from pathlib import Path

GOOD = """
[sender]
name = "mine"
profiles = ["http"]
[start]
command = ["mine", "work"]
[enqueue]
command = ["mine", "enqueue"]
"""


def written(path: Path, text: str) -> Path:
    file = path / "sender.toml"
    file.write_text(text, encoding="utf-8")
    return file
