"""Rules in one line: `503 for 10 s`, `lose 2 answers`, `greylist`, `429 retry-after 3 first 2 to *@example.org`.

A line becomes the table that somebody would have written; nothing here knows what a rule does. It begins with what
goes wrong (`whats`); then come, in any order, where, whom and when (`modifiers`).
"""

from __future__ import annotations

from simulator.config.modifiers import modify
from simulator.config.place import Place
from simulator.config.whats import read_what
from simulator.config.words import Table, Words
from simulator.dialects import DIALECTS


def read_line(place: Place, text: str) -> list[Table]:
    """Return the tables that a line stands for: one, or one per wire. Raises `PlanError`."""
    line = Words(place, text)
    tables = read_what(line)
    while not line.is_over():
        modify(line)
    given = line.finished()
    named = {"name": text.strip()}
    if len(tables) == 1:
        return [named | tables[0] | given]
    if "stage" in given:
        raise line.wrong("is too much: this strikes at the door of each wire")
    # Each half is of one wire; a line that names one means that half only.
    dialect = given.get("dialect")
    meant = [each for each in tables if dialect is None or DIALECTS.get(dialect, dialect) == each["dialect"]]
    if len(meant) == 1:
        return [named | meant[0] | given]
    return [{"name": f"{text.strip()} ({each['dialect']})"} | each | given for each in meant]
