"""The matrix: every behaviour of the provider × every crash point of its victim, enumerated, never sampled.

A *block* is one script on one profile and shape: a dry run without a crash tells by which points the victim
comes, then one cell is played for each of them. Blocks are independent of each other, so they are spread over
processes, and a large run can be taken up where it ended.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import itertools
import json
import multiprocessing
import os
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from scenarios import clock
from scenarios.simulation.behaviours import BY_WIRE, HEALTHY, IN_FLIGHT
from scenarios.simulation.cast import REFERENCE, cast
from scenarios.simulation.cell import FREEZE, SHAPES, Cell, Outcome, play
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID, PROFILES
from scenarios.simulation.senders import Disk, WorldSender
from scenarios.simulation.world import silence


class Size(StrEnum):
    """How much of the matrix is played."""

    QUICK = "quick"
    """All single behaviours × every commit, and the named points of a few: within the test command's budget."""
    SINGLE = "single"
    """All single behaviours × every crash point of every victim, every shape, frozen, wrong clocks: every push."""
    FULL = "full"
    """Besides, ordered pairs × every commit, triples, and all pairs of commit and point crashes: a night's work."""


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
    then: tuple[str, ...] = ()
    """Instead of crashes: the script with each of these behaviours behind it."""
    skew_s: float = 0.0
    """By how much the clock of the other worker is wrong."""

    @property
    def id(self) -> str:
        words = [self.profile, self.shape, self.victim, " > ".join(self.script), "+".join(self.kinds)]
        words += ["twice"] if self.twice else []
        words += [f"then {len(self.then)} more"] if self.then else []
        words += [f"clock {self.skew_s:+g} s"] if self.skew_s else []
        return "/".join(words)


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
    total: int = 0
    """Cells that the block has. Without an error, as many were played."""
    cells: int = 0
    """Cells that were played."""
    not_reached: int = 0
    coverage: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """Behaviour → crash → cells, failed, not_reached."""
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
_ALL = ("step", "sql", "commit", "point", "reply")
#: A clock that is wrong by most of a lease, either way.
SKEW_S = 25.0


def blocks(size: Size, profiles: Sequence[str] = tuple(BY_ID)) -> list[Block]:
    """List the blocks of a size, smallest scripts first, so that the first counterexample is a small one."""
    found: list[Block] = []
    for profile in (each for each in PROFILES if each.id in profiles):
        names = tuple(BY_WIRE[profile.wire])
        for name in names:
            found += _singles(profile.id, name, size)
        if size is Size.FULL:
            found += _sequences(profile.id, tuple(name for name in names if name != HEALTHY.name))
            found += [
                Block(
                    profile=profile.id,
                    script=(name,),
                    shape="one mail",
                    victim="worker",
                    kinds=("commit", "point"),
                    twice=True,
                )
                for name in names
            ]
    return sorted(found, key=lambda block: (len(block.script) + bool(block.then), block.twice))


def _singles(profile: str, name: str, size: Size) -> Iterator[Block]:
    def block(victim: str, *kinds: str, shape: str = "one mail", skew_s: float = 0.0) -> Block:
        return Block(profile=profile, script=(name,), shape=shape, victim=victim, kinds=kinds, skew_s=skew_s)

    if name == HEALTHY.name:
        yield block("application", "sql", "commit")
    if size is Size.QUICK:
        yield block("worker", *_COMMITS)
        if name in IN_FLIGHT:
            yield block("worker", FREEZE)
        return
    yield block("worker", *_ALL)
    yield block("worker", FREEZE)
    yield block("provider", "ledger", "step")
    for shape in SHAPES:
        if shape != "one mail":
            yield block("worker", *_COMMITS, shape=shape)
        for skew_s in (-SKEW_S, SKEW_S):
            yield block("worker", *_COMMITS, shape=shape, skew_s=skew_s)


def _sequences(profile: str, names: Sequence[str]) -> Iterator[Block]:
    for pair in itertools.product(names, repeat=2):
        yield Block(profile=profile, script=pair, shape="one mail", victim="worker", kinds=_COMMITS)
        yield Block(
            profile=profile, script=pair, shape="one mail", victim="worker", kinds=(), then=tuple(names)
        )


def points(outcome: Outcome, kinds: Iterable[str], *, again: bool = False) -> list[CrashPoint]:
    """List the crash points of a run that its victim came by (`again`: the restarted victim)."""
    steps = outcome.again_steps if again else outcome.steps
    passed = outcome.again_passed if again else outcome.passed
    found = []
    for kind in kinds:
        if kind in ("step", FREEZE):
            found += [CrashPoint(kind, "", n) for n in range(1, steps + 1)]
        else:
            found += [
                CrashPoint(kind, name, n)
                for (each, name), count in sorted(passed.items())
                if each == kind
                for n in range(1, count + 1)
            ]
    return found


def cells(
    block: Block, sender: WorldSender, disk: Disk, planned: Callable[[int], None] = lambda more: None
) -> Iterator[Outcome]:
    """Play a block, cell by cell; the dry run comes first. `planned` is told how many cells are still to come."""

    def cell(script: tuple[str, ...] = block.script, **more: Any) -> Cell:
        return Cell(
            profile=block.profile,
            script=script,
            shape=block.shape,
            victim=block.victim,
            skew_s=block.skew_s,
            **more,
        )

    if block.then:
        planned(len(block.then))
        for name in block.then:
            yield play(cell((*block.script, name)), sender, disk)
        return
    planned(1)
    dry = play(cell(), sender, disk)
    first = points(dry, block.kinds)
    planned(len(first))
    yield dry
    for point in first:
        once = play(cell(crash=point), sender, disk)
        second = points(once, block.kinds, again=True) if block.twice and once.reached else []
        planned(len(second))
        yield once
        for point_again in second:
            yield play(cell(crash=point, again=point_again), sender, disk)


def crash_of(cell: Cell) -> str:
    """Return the column of the coverage table that a cell stands in."""
    if len(cell.script) > 1 and cell.crash is None:
        return f"sequence of {len(cell.script)}"
    if cell.crash is None:
        return "no crash"
    kind = f"{cell.victim}: {cell.crash.kind}"
    if cell.again is not None:
        return f"{kind}, twice"
    return f"{kind} in a sequence" if len(cell.script) > 1 else kind


def play_block(block: Block, sender: WorldSender, disk: Disk, *, keep: int = 3) -> Played:
    """Play a block and add up what it came to. The first `keep` failures are kept whole."""
    played = Played(block=block.id, profile=block.profile)
    fired: set[str] = set()
    events: Counter[str] = Counter()
    trace = hashlib.sha256()
    begun = clock.cpu_s()

    def planned(more: int) -> None:
        played.total += more

    try:
        for outcome in _tidied(cells(block, sender, disk, planned)):
            _count(played, outcome, keep)
            fired.update(outcome.fired)
            events.update(outcome.events)
            trace.update(outcome.trace.encode())
    except Exception as error:
        # One broken block must not hide what the others say; it makes the run invalid all the same.
        played.error = f"{type(error).__name__}: {error}"
    played.fired, played.events = sorted(fired), dict(events)
    played.cpu_s = clock.cpu_s() - begun
    played.trace = trace.hexdigest()
    return played


def _count(played: Played, outcome: Outcome, keep: int) -> None:
    cell = outcome.cell
    row = played.coverage.setdefault(cell.script[0] if cell.script else HEALTHY.name, {})
    counts = row.setdefault(crash_of(cell), {"cells": 0, "failed": 0, "not_reached": 0})
    played.cells += 1
    played.virtual_s += outcome.virtual_s
    counts["cells"] += 1
    if not outcome.reached:
        played.not_reached += 1
        counts["not_reached"] += 1
    if outcome.findings:
        played.failed += 1
        counts["failed"] += 1
        if len(played.failures) < keep:
            played.failures.append(
                Failure(
                    cell=cell.as_json(),
                    said=str(cell),
                    findings=[each.as_json() for each in outcome.findings],
                )
            )


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

_folder: Path | None = None


def quick_disk() -> str | None:
    """Return a folder in memory where there is one: cells commit thousands of times, and no power is cut here."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


_quiet = contextlib.ExitStack()


def _begin_work(folder: str, sender: str) -> None:
    global _folder, _sender
    _sender = sender
    # Whoever began this ends it, also when both are told to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # For the whole life of this process.
    _quiet.enter_context(silence())
    # Whatever is loaded by now stays; the garbage collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    _folder = Path(folder) / str(os.getpid())
    _folder.mkdir()


def _work(block: Block) -> Played:
    assert _folder is not None
    folder = _folder / block.profile
    folder.mkdir(exist_ok=True)
    disk = _disks.setdefault(block.profile, Disk(folder))
    if block.profile not in _senders:
        _senders[block.profile] = cast(_sender, disk, BY_ID[block.profile])
    return play_block(block, _senders[block.profile], disk)


_disks: dict[str, Disk] = {}
_senders: dict[str, WorldSender] = {}
_sender = REFERENCE


def run(
    todo: Sequence[Block],
    *,
    jobs: int,
    each: Callable[[Played], None] = lambda played: None,
    sender: str = REFERENCE,
) -> list[Played]:
    """Play blocks in `jobs` processes; `each` is called for every block that is done. `sender`: its name in the cast."""
    done: list[Played] = []
    context = multiprocessing.get_context("fork")
    others = set(multiprocessing.active_children())
    with (
        tempfile.TemporaryDirectory(
            prefix="mailproof-", dir=quick_disk(), ignore_cleanup_errors=True
        ) as folder,
        ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_begin_work, initargs=(folder, sender)
        ) as pool,
    ):
        with warnings.catch_warnings():
            # Python warns of forking beside threads; the children use nothing that a thread of ours may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            waiting = [pool.submit(_work, block) for block in todo]
        try:
            for future in as_completed(waiting):
                done.append(future.result())
                each(done[-1])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
                child.join()
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
