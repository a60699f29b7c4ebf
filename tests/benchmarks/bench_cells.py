"""How many cells a core plays in a second, on the wire and without bytes, and how many simulated days go by in one.

    python -m tests.benchmarks.bench_cells [--rounds 5]

A cell is a whole story: fresh world, enqueued mail, fault, crash, restart, calm, verdict, with the real bytes of
both sides. CPU-seconds of this process, so other programs do not count – but they still take away cache and clock.
`seen` is what the rounds took on average; `quiet` takes for each cell its fastest round, which is what a core gives
that is left alone.

The two levels are laid side by side on the same questions: every crash point that has a name, which is the same on both.
They take turns, so that a busy machine slows both down; only the ratio means anything.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import itertools
import pstats
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from scenarios.simulation.behaviours import BY_WIRE
from scenarios.simulation.byteless.cell import Shelves, forget_judgements
from scenarios.simulation.byteless.search import Area, search
from scenarios.simulation.byteless.sender import of
from scenarios.simulation.cell import Cell, plan_of, play
from scenarios.simulation.guards import guarded, watchdog
from scenarios.simulation.matrix import Block
from scenarios.simulation.playing import TIDY_AFTER, cells, play_block
from scenarios.simulation.profiles import BY_ID, PROFILES
from scenarios.simulation.senders import Disk, ReferenceSender, quick_disk
from scenarios.simulation.world import World, silence
from simulator.config import read_plan

EVERY_KIND = ("step", "sql", "commit", "point", "reply")
BLOCKS = {
    "http": [("http-keys", "ok"), ("http-keys", "503"), ("http-keys", "taken, closed")],
    "smtp": [
        ("smtp-at-most-once", "ok"),
        ("smtp-at-most-once", "dot 451"),
        ("smtp-at-most-once", "taken, closed"),
    ],
}
NAMED = ("commit", "point", "reply")
#: How often a block is searched without bytes while it is played once on the wire.
MODEL_ROUNDS = 5
DAYS = 1.0
#: The breaker as the sender has it by itself; in the world's profiles it tries again after half a minute, so that a
#: cell sees it close.
SHIPPED = {
    "breaker_failures": 5,
    "breaker_pause_s": 5.0,
    "breaker_pause_cap_s": 300.0,
}


def cast(folder: Path, profile: str) -> tuple[ReferenceSender, Disk]:
    place = folder / profile
    place.mkdir(exist_ok=True)
    disk = Disk(place)
    return ReferenceSender(disk=disk, profile=BY_ID[profile]), disk


@dataclass(slots=True, kw_only=True)
class Rates:
    """How fast a block is played. Time is CPU time of this process, which other load lengthens, too, by taking caches."""

    cells: int
    worlds: int
    """Worlds that are played for them: crash points that are one are played once."""
    covered: float
    """Cells per CPU-second, as the matrix plays them."""
    seen: float
    """Worlds per CPU-second, all rounds, every crash point played by itself."""
    quiet: float
    """The same, of each world the fastest round."""
    calls: float
    """Python calls in a world, on average: what does not depend on the machine."""


def cell_rates(folder: Path, profile: str, script: str, rounds: int) -> Rates:
    """Play a block as the matrix does, then every crash point by itself, then a few of them under a profiler."""
    sender, disk = cast(folder, profile)
    block = Block(profile=profile, script=(script,), shape="one mail", victim="worker", kinds=EVERY_KIND)
    play(Cell(profile=profile), sender, disk)
    gc.collect()
    gc.freeze()
    covering = play_block(block, sender, disk)
    assert covering.error is None
    gc.disable()
    best: list[float] = []
    tidied: list[float] = []
    spent = 0.0
    with guarded(), watchdog(None):
        for _ in range(rounds):
            took: list[float] = []
            begun = time.process_time()
            for number, _outcome in enumerate(cells(block, sender, disk), 1):
                now = time.process_time()
                took.append(now - begun)
                if number % TIDY_AFTER == 0:
                    gc.collect()
                    tidied.append(time.process_time() - now)
                begun = time.process_time()
            spent += sum(took)
            best = took if not best else [min(pair) for pair in zip(best, took, strict=True)]
        calls = calls_in(block, sender, disk)
    gc.enable()
    quiet = sum(best) + min(tidied) * len(best) / TIDY_AFTER
    return Rates(
        cells=covering.cells,
        worlds=covering.played,
        covered=covering.cells / covering.cpu_s,
        seen=rounds * len(best) / (spent + sum(tidied)),
        quiet=len(best) / quiet,
        calls=calls,
    )


def calls_in(block: Block, sender: ReferenceSender, disk: Disk) -> float:
    """Return the Python calls in a world, over crashes at every commit; the second round is counted."""
    commits = replace(block, kinds=("commit",))
    played = len(list(cells(commits, sender, disk)))
    profiler = cProfile.Profile()
    profiler.runcall(lambda: list(cells(commits, sender, disk)))
    total: int = pstats.Stats(profiler).total_calls  # type: ignore[attr-defined] # not in the stubs
    return total / played


def levels(folder: Path, profile: str, script: str, rounds: int) -> tuple[int, dict[str, float]]:
    """Return how many cells a block has, and by level worlds played for them and CPU-seconds, in all rounds."""
    sender, disk = cast(folder, profile)
    block = Block(profile=profile, script=(script,), shape="one mail", victim="worker", kinds=NAMED)
    area, bare = Area(profile=profile, script=(script,), kinds=NAMED), of(sender)
    covered: set[int] = set()
    spent: dict[str, float] = defaultdict(float)
    play(Cell(profile=profile), sender, disk)
    shelves = Shelves()
    search(area, bare, shelves=shelves)
    for _ in range(rounds):
        gc.collect()
        begun = time.process_time()
        on_wire = play_block(block, sender, disk)
        spent["wire s"] += time.process_time() - begun
        # A model level that is ten times as fast is measured for as long.
        begun = time.process_time()
        for _ in range(MODEL_ROUNDS):
            forget_judgements()  # or only the first round would have to judge
            without = search(area, bare, shelves=shelves)
        spent["model s"] += time.process_time() - begun
        assert (on_wire.error, without.error, on_wire.failed, without.failed) == (None, None, 0, 0)
        spent["wire worlds"] += on_wire.played
        spent["model worlds"] += MODEL_ROUNDS * without.played
        covered |= {on_wire.cells, without.cells}
    (cells,) = covered  # the same questions on both levels
    return cells, spent


def days_per_second(folder: Path, profile: str, *, faults: bool, options: Mapping[str, Any] = {}) -> float:
    """Return simulated days per CPU-second: idle with an empty outbox, or with every attempt refused for now."""
    _, disk = cast(folder, profile)
    sender = ReferenceSender(disk=disk, profile=BY_ID[profile], options=options)
    if not disk.has("empty"):
        play(Cell(profile=profile), sender, disk)
    disk.put_back("one mail" if faults else "empty")
    wire = BY_ID[profile].wire
    later = {"http": "503", "smtp": "dot 451"}[wire]
    rule = {"name": "down", "dialect": wire, **BY_WIRE[wire][later].rule}
    setup = read_plan({**plan_of(BY_ID[profile], ()), "rule": [rule] if faults else []}, "the benchmark")
    begun = time.process_time()
    with World(seed=1, setup=setup) as world:

        async def story() -> None:
            await world.start_provider()
            world.process("worker 1").spawn(sender.work, world)
            await asyncio.sleep(DAYS * 86_400)

        world.run(story)
    return DAYS / (time.process_time() - begun)


def table_of_levels(folder: Path, rounds: int) -> Table:
    table = Table(
        "profile",
        "behaviour",
        "cells",
        "level",
        "worlds",
        "covered, cells/CPU-s",
        "played, worlds/CPU-s",
        "ratio",
    )
    for profile, script in itertools.chain.from_iterable(BLOCKS.values()):
        cells, spent = levels(folder, profile, script, rounds)
        rates = {}
        for level, times in (("wire", rounds), ("model", rounds * MODEL_ROUNDS)):
            seconds, worlds = spent[f"{level} s"], spent[f"{level} worlds"]
            rates[level] = times * cells / seconds, worlds / seconds
            ratio = (
                " / ".join(f"{m / w:.1f}" for m, w in zip(rates["model"], rates["wire"], strict=True))
                if level == "model"
                else ""
            )
            table.add_row(
                profile,
                script,
                str(cells),
                level,
                f"{worlds / times:,.0f}",
                *(f"{rate:,.0f}" for rate in rates[level]),
                ratio,
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    silence()
    console = Console(width=100)
    with tempfile.TemporaryDirectory(dir=quick_disk(), prefix="mailproof-bench-") as name:
        folder = Path(name)
        table = Table(
            "profile",
            "behaviour",
            "cells",
            "worlds",
            "covered, cells/CPU-s",
            "seen, worlds/CPU-s",
            "quiet, worlds/CPU-s",
            "calls/world",
        )
        for profile, script in itertools.chain.from_iterable(BLOCKS.values()):
            rates = cell_rates(folder, profile, script, rounds)
            table.add_row(
                profile,
                script,
                str(rates.cells),
                str(rates.worlds),
                *(f"{each:,.0f}" for each in (rates.covered, rates.seen, rates.quiet, rates.calls)),
            )
        console.print(table)
        console.print(table_of_levels(folder, rounds))
        days = Table(
            "profile", "idle, days/CPU-s", "every attempt refused, days/CPU-s", "the same, breaker as shipped"
        )
        sorts: tuple[dict[str, Any], ...] = (
            {"faults": False},
            {"faults": True},
            {"faults": True, "options": SHIPPED},
        )
        for each in PROFILES:
            measured = []
            for more in sorts:
                best = max(days_per_second(folder, each.id, **more) for _ in range(min(rounds, 3)))
                measured.append(best)
            days.add_row(each.id, *(f"{value:.1f}" for value in measured))
        console.print(days)


if __name__ == "__main__":
    main()
