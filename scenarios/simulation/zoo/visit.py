"""Everybody in the zoo, and `python -m scenarios zoo`: who is caught by what, in how many cells."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from scenarios.simulation.senders import quick_disk
from scenarios.simulation.world import silence
from scenarios.simulation.zoo import (
    asking,
    batches,
    campaigns,
    gates,
    hands,
    identity,
    manners,
    outbox,
    patience,
    reading,
)
from scenarios.simulation.zoo.keeper import BadSender, Hunt, hunt

ALL: tuple[BadSender, ...] = (
    *identity.SENDERS,
    *reading.SENDERS,
    *outbox.SENDERS,
    *hands.SENDERS,
    *patience.SENDERS,
    *asking.SENDERS,
    *gates.SENDERS,
    *manners.SENDERS,
    *batches.SENDERS,
    *campaigns.SENDERS,
)


def hunts(senders: Sequence[BadSender]) -> list[Hunt]:
    """Hunt one after the other, on a disk in memory where there is one."""
    with tempfile.TemporaryDirectory(prefix="mailproof-", dir=quick_disk()) as folder:
        return [hunt(sender, Path(folder) / str(number)) for number, sender in enumerate(senders)]


def table_of(went: Sequence[Hunt]) -> Table:
    """Make a table for people: sender, sin, what caught it, and after how many cells."""
    table = Table(title=f"{len(went)} bad senders")
    for heading in ("sender", "sin", "caught as", "cells", "the cell that showed it"):
        table.add_column(heading, justify="right" if heading == "cells" else "left")
    for each in went:
        innocent = "; [bold red]so is the sender without sin[/]" if each.innocent else ""
        table.add_row(
            each.sender.name,
            each.sender.sin,
            f"{each.sender.kind}{innocent}" if each.caught else "[bold red]got away[/]",
            str(each.cells),
            str(each.caught.cell) if each.caught else "",
        )
    return table


@click.command()
@click.option("--select", metavar="PATTERN", default="*", help="Senders by name, with wildcards.")
def zoo(select: str) -> None:
    """Play every known-bad sender until its sin is seen; exit code 1 if one gets away."""
    chosen = [sender for sender in ALL if fnmatchcase(sender.name, select)]
    if not chosen:
        names = ", ".join(sorted(sender.name for sender in ALL))
        raise click.UsageError(f"no sender is called {select!r}; there are: {names}")
    with silence():
        went = hunts(chosen)
    console = Console()
    console.print(table_of(went))
    caught = [each for each in went if each.caught and not each.innocent]
    cells = sum(each.cells for each in went)
    console.print(
        f"{len(caught)} of {len(went)} caught, in {cells} cells; each cell was clean without the sin"
    )
    if len(caught) < len(went):
        raise SystemExit(1)
