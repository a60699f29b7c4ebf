"""A cell is one story or another, by its profile and shape: what is done to attempts or to a campaign, or what is told of mails afterwards."""

from __future__ import annotations

from collections.abc import Callable

from scenarios.simulation import campaigning, intake
from scenarios.simulation import cell as attempts
from scenarios.simulation.asked import Notes
from scenarios.simulation.cell import Cell, Outcome
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender, WorldSender
from scenarios.simulation.shapes import EVERY_SHAPE
from scenarios.simulation.world import World


def play(
    cell: Cell,
    sender: WorldSender,
    disk: Disk,
    watch: Callable[[World], None] = lambda world: None,
    *,
    moments: bool = False,
    notes: Notes | None = None,
) -> Outcome:
    """Play a cell to its end, as `cell.play` says. Where somebody hears, nothing is noted of what the plan is asked."""
    if EVERY_SHAPE[cell.shape].moves is not None:
        assert isinstance(sender, ReferenceSender), "only the reference sender has campaigns"
        return campaigning.play(cell, sender, disk, watch, moments=moments)
    if not BY_ID[cell.profile].hears:
        return attempts.play(cell, sender, disk, watch, moments=moments, notes=notes)
    assert isinstance(sender, intake.ListeningSender), "who plays in this profile hears"
    return intake.play(cell, sender, disk, watch, moments=moments)
