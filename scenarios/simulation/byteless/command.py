"""`python -m scenarios search`: search without bytes, and hand what is found to the wire."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from scenarios import clock
from scenarios.simulation import replay
from scenarios.simulation.byteless.handover import Handed, hand_over, smallest
from scenarios.simulation.byteless.search import Found, Searched, Size, areas, never_struck
from scenarios.simulation.byteless.searchers import run
from scenarios.simulation.byteless.sender import OnlyOnTheWire
from scenarios.simulation.cast import REFERENCE, CastError, cast
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.timeline import show
from scenarios.simulation.world import silence

#: Findings that are played on the wire; more of them rarely tell more.
MOST_HANDED = 12


@dataclass(slots=True)
class Tally:
    """What was searched so far."""

    areas: int = 0
    cells: int = 0
    played: int = 0
    not_reached: int = 0
    failed: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    found: list[Found] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    searched: list[Searched] = field(default_factory=list)

    def add(self, searched: Searched) -> None:
        self.areas += 1
        for name in ("cells", "played", "not_reached", "failed", "virtual_s", "cpu_s"):
            setattr(self, name, getattr(self, name) + getattr(searched, name))
        self.found += searched.found
        if searched.error is not None:
            self.errors.append(f"{searched.area.id}: {searched.error}")
        self.searched.append(searched)

    def __str__(self) -> str:
        rate = (
            f"{self.cells / self.cpu_s:,.0f} covered and {self.played / self.cpu_s:,.0f} played"
            if self.cpu_s
            else "0"
        )
        return (
            f"{self.cells:,} cells in {self.areas:,} areas, {self.played:,} worlds played for them, {self.failed:,} with "
            f"findings; {rate} per CPU-second; {self.virtual_s / 86_400:,.1f} days went by"
        )


def searched(
    size: Size,
    *,
    profiles: Sequence[str] = tuple(BY_ID),
    sender: str = REFERENCE,
    jobs: int = 1,
    seconds: float | None = None,
    seed: int = 1,
    every: bool = False,
    console: Console | None = None,
) -> Tally:
    """Search a size, for `seconds` at most. Raises `CastError` or `OnlyOnTheWire`."""
    tally = Tally()
    until = None if seconds is None else clock.monotonic_s() + seconds
    with _progress(console) as told:

        def each(one: Searched) -> None:
            tally.add(one)
            told(tally)

        run(
            areas(size, profiles, seed=seed),
            jobs=jobs,
            sender=sender,
            every=every,
            each=each,
            enough=lambda: until is not None and clock.monotonic_s() >= until,
        )
    return tally


@contextmanager
def _progress(console: Console | None) -> Iterator[Callable[[Tally], None]]:
    if console is None or not console.is_terminal:
        yield lambda tally: None
        return
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("searching …")
        yield lambda tally: progress.update(task, description=str(tally))


def handed_over(found: Sequence[Found], sender: str) -> list[Handed]:
    """Play the smallest findings of each kind on the wire."""
    handed = []
    for one in smallest(found)[:MOST_HANDED]:
        with replay.stage() as disk, silence():
            handed.append(hand_over(one, cast(sender, disk, BY_ID[one.cell.profile]), disk))
    return handed


def _tell(console: Console, handed: Handed, sender: str, folder: Path) -> None:
    console.print(Text(str(handed)), soft_wrap=True)
    console.print(Text(f"  {handed.found.findings[0].sentence}"), soft_wrap=True)
    if handed.confirmed is None:
        return
    with silence():
        path, seen = replay.keep(folder, handed.confirmed, sender)
    show(console, seen.lines)
    console.print(Text(f"  {replay.command(path)}"), soft_wrap=True)


@click.command()
@click.option(
    "--size",
    type=click.Choice([each.value for each in Size]),
    default=Size.WIDE.value,
    show_default=True,
    help="How much is searched: quick (seconds), wide, pairs (minutes), random (until it is enough).",
)
@click.option("--profile", "profiles", multiple=True, type=click.Choice(list(BY_ID)), help="Only this one.")
@click.option(
    "--sender",
    default=REFERENCE,
    show_default=True,
    metavar="NAME",
    help="reference, or MODULE:FUNCTION that makes the reference sender with other parts.",
)
@click.option("--seconds", type=click.FloatRange(min=0), help="Search for so long at most.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the dice of a random search.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default=True, help="Processes."
)
@click.option("--every", is_flag=True, help="Play each crash point, also where several are one.")
@click.option(
    "--replays",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("replays"),
    show_default=True,
    help="Where counterexamples are kept that the wire confirms.",
)
def search(
    size: str,
    profiles: tuple[str, ...],
    sender: str,
    seconds: float | None,
    seed: int,
    jobs: int,
    every: bool,
    replays: Path,
) -> NoReturn:
    """Search for broken promises at the model level: the sender's code and the provider's core, without bytes.

    Whatever is found is played on the wire, and kept as a replay file if it is confirmed there. Exit code 0: nothing
    was found. 1: something was found, or a part of the search broke off. 2: this sender cannot be searched.
    """
    console = Console(highlight=False)
    if size == Size.RANDOM and seconds is None:
        raise click.UsageError("a random search never ends by itself: say --seconds")
    try:
        tally = searched(
            Size(size),
            profiles=profiles or tuple(BY_ID),
            sender=sender,
            jobs=jobs,
            seconds=seconds,
            seed=seed,
            every=every,
            console=console,
        )
    except (CastError, OnlyOnTheWire) as error:
        click.echo(f"search: {error}", err=True)
        sys.exit(2)
    console.print(Text(str(tally)), soft_wrap=True)
    missing = [] if seconds is not None or sender != REFERENCE else asleep(tally)
    for complaint in (*tally.errors, *missing):
        console.print(Text(f"invalid: {complaint}"), soft_wrap=True)
    handed = handed_over(tally.found, sender)
    for one in handed:
        _tell(console, one, sender, replays)
    unconfirmed = sum(one.confirmed is None for one in handed)
    if handed:
        console.print(
            f"{len(handed) - unconfirmed} of {len(handed)} findings confirmed by the wire"
            + (f"; {unconfirmed} not: the model level is wrong there" if unconfirmed else "")
        )
    sys.exit(1 if handed or tally.errors or missing else 0)


def asleep(tally: Tally) -> list[str]:
    """Return in sentences what was searched in name only."""
    return never_struck(tally.searched, lambda profile, name: f"in {profile} the provider never did {name!r}")
