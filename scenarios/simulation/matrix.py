"""The matrix: every behaviour of the provider × every crash point of its victim, enumerated, never sampled.

A *block* is one script on one profile and shape: a dry run without a crash tells by which points the victim
comes, then one cell is played for each of them. Blocks are independent of each other, so they are spread over
processes, and a large run can be taken up where it ended.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from scenarios import clock
from scenarios.simulation.behaviours import BY_WIRE, HEALTHY
from scenarios.simulation.cell import Cell, Outcome, play
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID, PROFILES
from scenarios.simulation.senders import Disk, ReferenceSender, WorldSender
from scenarios.simulation.world import silence


class Size(StrEnum):
    """How much of the matrix is played."""

    QUICK = "quick"
    """All single behaviours × every commit, lost or unreported: the heart, within the test command's budget."""
    SINGLE = "single"
    """All single behaviours × every crash point of every victim: what every push should see."""
    FULL = "full"
    """Besides, all ordered pairs × every commit, and all pairs of commit crashes: a night's work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One script on one profile and shape, and which crash points of whom are played."""

    profile: str
    script: tuple[str, ...]
    shape: str
    victim: str
    kinds: tuple[str, ...]
    twice: bool = False
    """Play every pair: the crash, and the crash in the recovery from it."""

    @property
    def id(self) -> str:
        kinds = "+".join(self.kinds)
        return f"{self.profile}/{self.shape}/{self.victim}/{' > '.join(self.script)}/{kinds}{'/twice' if self.twice else ''}"


#: So many worlds are left lying about before they are cleared up, all at once: it is a quarter of the time.
TIDY_AFTER = 40


@dataclass(slots=True, kw_only=True)
class Failure:
    """A cell with findings: enough to play it again."""

    cell: dict[str, Any]
    said: str
    findings: list[dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class Played:
    """What a block came to; plain data, so that it can be kept and sent."""

    block: str
    profile: str
    cells: int = 0
    not_reached: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    fired: list[str] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0
    error: str | None = None
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    trace: str = ""
    """Hash over the traces of all cells, in order."""


_COMMITS = ("commit",)
_ALL = ("step", "sql", "commit")


def blocks(size: Size, profiles: Sequence[str] = tuple(BY_ID)) -> list[Block]:
    """List the blocks of a size, smallest scripts first, so that the first counterexample is a small one."""
    found: list[Block] = []
    for profile in (each for each in PROFILES if each.id in profiles):
        names = tuple(BY_WIRE[profile.wire])
        for name in names:
            found += _singles(profile.id, name, size)
        if size is Size.FULL:
            for pair in itertools.product((n for n in names if n != HEALTHY.name), repeat=2):
                found.append(
                    Block(profile=profile.id, script=pair, shape="one mail", victim="worker", kinds=_COMMITS)
                )
            for name in names:
                found.append(
                    Block(
                        profile=profile.id,
                        script=(name,),
                        shape="one mail",
                        victim="worker",
                        kinds=_COMMITS,
                        twice=True,
                    )
                )
    return sorted(found, key=lambda block: (len(block.script), block.twice))


def _singles(profile: str, name: str, size: Size) -> Iterator[Block]:
    kinds = _COMMITS if size is Size.QUICK else _ALL
    yield Block(profile=profile, script=(name,), shape="one mail", victim="worker", kinds=kinds)
    if name == HEALTHY.name:
        yield Block(
            profile=profile, script=(name,), shape="one mail", victim="application", kinds=("sql", "commit")
        )
    if size is Size.QUICK:
        return
    yield Block(
        profile=profile, script=(name,), shape="one mail", victim="provider", kinds=("ledger", "step")
    )
    for shape in ("two mails, two workers", "three recipients"):
        yield Block(profile=profile, script=(name,), shape=shape, victim="worker", kinds=_COMMITS)


def points(outcome: Outcome, kinds: Iterable[str], *, again: bool = False) -> list[CrashPoint]:
    """List the crash points of a run that its victim came by (`again`: the restarted victim)."""
    steps = outcome.again_steps if again else outcome.steps
    passed = outcome.again_passed if again else outcome.passed
    found = []
    for kind in kinds:
        if kind == "step":
            found += [CrashPoint("step", "", n) for n in range(1, steps + 1)]
        else:
            found += [
                CrashPoint(kind, name, n)
                for (each, name), count in sorted(passed.items())
                if each == kind
                for n in range(1, count + 1)
            ]
    return found


def cells(block: Block, sender: WorldSender, disk: Disk) -> Iterator[Outcome]:
    """Play a block, cell by cell; the dry run comes first."""

    def cell(**more: Any) -> Cell:
        return Cell(
            profile=block.profile, script=block.script, shape=block.shape, victim=block.victim, **more
        )

    dry = play(cell(), sender, disk)
    yield dry
    for point in points(dry, block.kinds):
        once = play(cell(crash=point), sender, disk)
        yield once
        if block.twice and once.reached:
            for second in points(once, block.kinds, again=True):
                yield play(cell(crash=point, again=second), sender, disk)


def play_block(block: Block, sender: WorldSender, disk: Disk, *, keep: int = 3) -> Played:
    """Play a block and add up what it came to. The first `keep` failures are kept whole."""
    played = Played(block=block.id, profile=block.profile)
    fired: set[str] = set()
    events: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    trace = hashlib.sha256()
    begun = clock.cpu_s()
    for outcome in _tidied(cells(block, sender, disk)):
        played.cells += 1
        played.virtual_s += outcome.virtual_s
        kinds[outcome.cell.crash.kind if outcome.cell.crash else "no crash"] += 1
        fired.update(outcome.fired)
        events.update(outcome.events)
        trace.update(outcome.trace.encode())
        if not outcome.reached:
            played.not_reached += 1
        if outcome.findings:
            played.failed += 1
            if len(played.failures) < keep:
                played.failures.append(
                    Failure(
                        cell=outcome.cell.as_json(),
                        said=str(outcome.cell),
                        findings=[each.as_json() for each in outcome.findings],
                    )
                )
    played.by_kind, played.fired, played.events = dict(kinds), sorted(fired), dict(events)
    played.cpu_s = clock.cpu_s() - begun
    played.trace = trace.hexdigest()
    return played


def _tidied(outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Clear up between worlds, now and then, not in the middle of them: each leaves a heap of rings behind."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        for number, outcome in enumerate(outcomes, 1):
            yield outcome
            if number % TIDY_AFTER == 0:
                gc.collect()
    finally:
        if was_on:
            gc.enable()


# --- many blocks, several processes -----------------------------------------------------------------

_folder: tempfile.TemporaryDirectory[str] | None = None


def quick_disk() -> str | None:
    """Return a folder in memory where there is one: cells commit thousands of times, and no power is cut here."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _begin_work() -> None:
    global _folder
    silence()
    # Whatever is loaded by now stays; the garbage collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    _folder = tempfile.TemporaryDirectory(prefix="mailproof-", dir=quick_disk())


def _work(block: Block) -> Played:
    assert _folder is not None
    folder = Path(_folder.name) / hashlib.sha256(f"{block.profile}".encode()).hexdigest()[:8]
    folder.mkdir(exist_ok=True)
    disk = _disks.setdefault(block.profile, Disk(folder))
    sender = _senders.setdefault(block.profile, ReferenceSender(disk=disk, profile=BY_ID[block.profile]))
    try:
        return play_block(block, sender, disk)
    except Exception as error:
        # One broken block must not hide what the others say; it makes the run invalid all the same.
        return Played(block=block.id, profile=block.profile, error=f"{type(error).__name__}: {error}")


_disks: dict[str, Disk] = {}
_senders: dict[str, ReferenceSender] = {}


def run(
    todo: Sequence[Block], *, jobs: int, each: Callable[[Played], None] = lambda played: None
) -> list[Played]:
    """Play blocks in `jobs` processes; `each` is called for every block that is done."""
    done: list[Played] = []
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_work) as pool:
        waiting = [pool.submit(_work, block) for block in todo]
        try:
            for future in as_completed(waiting):
                done.append(future.result())
                each(done[-1])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done


def as_line(played: Played) -> str:
    """Return one line of JSON: a finished block in the journal of a resumable run."""
    facts = {name: getattr(played, name) for name in Played.__dataclass_fields__ if name != "failures"}
    facts["failures"] = [
        {"cell": each.cell, "said": each.said, "findings": each.findings} for each in played.failures
    ]
    return json.dumps(facts, sort_keys=True)


def from_line(line: str) -> Played:
    """Read a line of the journal."""
    facts = json.loads(line)
    failures = [Failure(**each) for each in facts.pop("failures")]
    return Played(**facts, failures=failures)
