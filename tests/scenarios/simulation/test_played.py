"""Tests of what a block came to."""

from __future__ import annotations

from scenarios.simulation.played import Played, as_line, from_line


def test_a_line_of_the_journal_is_read_back() -> None:
    """A run that was interrupted knows what it has done."""
    counts = {"cells": 3, "failed": 0, "not_reached": 1, "played": 2}
    played = Played(
        block="b", profile="p", total=3, cells=3, coverage={"503": {"worker: sql": counts}}, trace="abc"
    )

    assert from_line(as_line(played)) == played
