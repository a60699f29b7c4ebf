"""How many cells of the matrix a core plays in a second, and how many simulated days go by in one.

    python -m tests.benchmarks.bench_cells [--rounds 5]

A cell is a whole story: fresh world, enqueued mail, fault, crash, restart, calm, verdict, with the real bytes of
both sides. CPU-seconds of this process, so other programs do not count – but they still take away cache and clock.
`seen` is what the rounds took on average; `quiet` takes for each cell its fastest round, which is what a core gives
that is left alone.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scenarios.simulation.behaviours import BY_WIRE
from scenarios.simulation.cell import Cell, plan_of, play
from scenarios.simulation.matrix import TIDY_AFTER, Block, cells
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
DAYS = 1.0


def cast(folder: Path, profile: str) -> tuple[ReferenceSender, Disk]:
    place = folder / profile
    place.mkdir(exist_ok=True)
    disk = Disk(place)
    return ReferenceSender(disk=disk, profile=BY_ID[profile]), disk


def cell_rates(folder: Path, profile: str, script: str, rounds: int) -> tuple[int, float, float]:
    """Return how many cells a block has, and cells per CPU-second as seen and as on a quiet core."""
    sender, disk = cast(folder, profile)
    block = Block(profile=profile, script=(script,), shape="one mail", victim="worker", kinds=EVERY_KIND)
    play(Cell(profile=profile), sender, disk)
    gc.collect()
    gc.freeze()
    gc.disable()
    best: list[float] = []
    tidied: list[float] = []
    spent = 0.0
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
    gc.enable()
    quiet = sum(best) + min(tidied) * len(best) / TIDY_AFTER
    return len(best), rounds * len(best) / (spent + sum(tidied)), len(best) / quiet


def days_per_second(folder: Path, profile: str, *, faults: bool) -> float:
    """Return simulated days per CPU-second: idle with an empty outbox, or with every attempt refused for now."""
    sender, disk = cast(folder, profile)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    silence()
    console = Console(width=100)
    with tempfile.TemporaryDirectory(dir=quick_disk(), prefix="mailproof-bench-") as name:
        folder = Path(name)
        table = Table("wire", "profile", "behaviour", "cells", "seen, cells/CPU-s", "quiet, cells/CPU-s")
        for wire, blocks in BLOCKS.items():
            for profile, script in blocks:
                count, seen, quiet = cell_rates(folder, profile, script, rounds)
                table.add_row(wire, profile, script, str(count), f"{seen:,.0f}", f"{quiet:,.0f}")
        console.print(table)
        days = Table("profile", "idle, days/CPU-s", "every attempt refused, days/CPU-s")
        for each in PROFILES:
            measured = []
            for faults in (False, True):
                best = max(days_per_second(folder, each.id, faults=faults) for _ in range(min(rounds, 3)))
                measured.append(best)
            days.add_row(each.id, *(f"{value:.1f}" for value in measured))
        console.print(days)


if __name__ == "__main__":
    main()
