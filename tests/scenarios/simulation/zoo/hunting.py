"""The hunt as a test: what must be true of every bad sender."""

from __future__ import annotations

from pathlib import Path

from scenarios.simulation.zoo.keeper import MOST_CELLS, BadSender, Hunt, hunt


def caught(sender: BadSender, folder: Path) -> Hunt:
    """Assert that a bad sender is caught as what it is, and that nobody else would be. Return how it went."""
    went = hunt(sender, folder)

    assert [(str(cell), finding.sentence) for cell, finding in went.innocent] == []
    assert went.finding is not None, f"{sender.name} got away; seen was {went.seen}"
    assert went.cells <= MOST_CELLS
    return went
