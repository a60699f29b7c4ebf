"""`python -m scenarios storms`: every webhook storm × every crash point of the intake, with mails of every fate."""

from __future__ import annotations

import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import click
from rich.console import Console

from scenarios.simulation.cell import Cell
from scenarios.simulation.intake import ListeningSender, sweep
from scenarios.simulation.profiles import BY_ID, HEARING
from scenarios.simulation.senders import Disk, quick_disk
from scenarios.simulation.shapes import FATED
from scenarios.simulation.storms import STORMS
from scenarios.simulation.world import silence

KINDS = ("commit", "sql", "reply", "step")
PROFILES = tuple(profile.id for profile in HEARING)


@click.command()
@click.option("--select", metavar="PATTERN", default="*", help="Storms by name, with wildcards.")
@click.option(
    "--profile",
    "profiles",
    type=click.Choice(PROFILES),
    multiple=True,
    default=PROFILES,
    show_default=True,
    help="Over which wire. May be given several times.",
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    default=("commit",),
    show_default=True,
    help="Where the intake dies. May be given several times.",
)
@click.option(
    "--every", type=click.IntRange(1), default=1, show_default=True, help="Only every n-th of them."
)
def storms(select: str, profiles: tuple[str, ...], kinds: tuple[str, ...], every: int) -> None:
    """Play webhook storms, and kill the intake everywhere meanwhile; exit code 1 if anything is wrong."""
    chosen = [storm.name for storm in STORMS if fnmatchcase(storm.name, select)]
    if not chosen:
        names = ", ".join(storm.name for storm in STORMS)
        raise click.UsageError(f"no storm is called {select!r}; there are: {names}")
    console = Console()
    played = bad = 0
    with silence(), tempfile.TemporaryDirectory(prefix="mailproof-", dir=quick_disk()) as folder:
        for profile in profiles:
            place = Path(folder) / profile
            place.mkdir()
            sender = ListeningSender(disk=Disk(place), profile=BY_ID[profile])
            for name in chosen:
                before = played
                cell = Cell(profile=profile, script=(name,), shape=FATED.name, victim="intake")
                for each in sweep(cell, sender, sender.disk, kinds, every=every):
                    played += 1
                    bad += bool(each.findings)
                    for finding in each.findings:
                        console.print(
                            f"[bold red]{finding.kind}[/] {each.cell}: {finding.recipient}: {finding.sentence}"
                        )
                console.print(f"{profile}: {name}: {played - before} played")
    console.print(f"{played} storms, {bad} with findings")
    if bad:
        raise SystemExit(1)
