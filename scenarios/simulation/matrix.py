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
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from reference_sender.outbox.store import enqueue
from scenarios import clock
from scenarios.simulation.behaviours import BY_WIRE, HEALTHY, IN_FLIGHT
from scenarios.simulation.cell import FREEZE, SHAPES, Cell, Outcome, play
from scenarios.simulation.guards import guarded, watchdog
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID, PROFILES
from scenarios.simulation.senders import Disk, ReferenceSender, WorldSender


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


#: What is counted in each square of the coverage table: crash points, those that failed, those that were not met, and
#: worlds that were run for them.
COUNTS = ("cells", "failed", "not_reached", "played")

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
    """Cells that the block has. Without an error, as many are covered."""
    cells: int = 0
    """Cells that are covered: played, or one with a cell that was played."""
    played: int = 0
    """Worlds that were really run."""
    not_reached: int = 0
    coverage: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """Behaviour → crash → `COUNTS`."""
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


#: Which crash point of a class is played: the one whose name says most. What comes after these is taken as it comes.
_TELLING = ("commit", "point", "ledger", "reply", "sql", "step")


def classes(outcome: Outcome, kinds: Iterable[str], *, again: bool = False) -> list[tuple[CrashPoint, ...]]:
    """Group the crash points of a run that are one and the same, the most telling first in each group.

    Between two points of a group nothing has changed outside of the victim's memory, and a killed victim has no memory:
    whichever of them it dies at, all that follows is the same. Who is stopped keeps its memory, so there each point is
    a group of its own.
    """
    moments = outcome.again_moments if again else outcome.moments
    found: dict[Hashable, list[CrashPoint]] = {}
    for point in points(outcome, kinds, again=again):
        moment = point if point.kind == FREEZE else moments[point.kind, point.name][point.count - 1]
        found.setdefault(moment, []).append(point)
    return [
        tuple(sorted(group, key=lambda each: _TELLING.index(each.kind))) if len(group) > 1 else tuple(group)
        for group in found.values()
    ]


def may_be_classed(sender: WorldSender) -> bool:
    """Tell whether all that a sender leaves behind goes through its database and the network.

    We know that of the reference sender. Any other might write a file or keep something in a module, where the world
    does not see it; there every crash point is played.
    """
    return type(sender) is ReferenceSender and not sender.parts and sender.enqueue_with is enqueue


class NotOne(Exception):
    """Two crash points that should have been one came to different ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A world that was played, and the cells that it stands for."""

    outcome: Outcome
    columns: Mapping[str, int]
    """Column of the coverage table → cells. Nothing: it was played to check another one."""


def cells(block: Block, sender: WorldSender, disk: Disk) -> Iterator[Outcome]:
    """Play a block, every cell by itself; the dry run comes first."""
    return (share.outcome for share in shares(block, sender, disk, every=True))


def shares(
    block: Block,
    sender: WorldSender,
    disk: Disk,
    planned: Callable[[int], None] = lambda more: None,
    *,
    every: bool = False,
) -> Iterator[Share]:
    """Play a block; the dry run comes first. `planned` is told how many cells are still to come.

    Of crash points that are one, one is played – unless `every` is. Of the largest group the last is played, too:
    raises `NotOne` if it comes to another end than the one that was to stand for it.
    """

    def cell(script: tuple[str, ...] = block.script, **more: Any) -> Cell:
        return Cell(
            profile=block.profile,
            script=script,
            shape=block.shape,
            victim=block.victim,
            skew_s=block.skew_s,
            **more,
        )

    def alone(outcome: Outcome) -> Share:
        return Share(outcome=outcome, columns={crash_of(outcome.cell): 1})

    def groups(outcome: Outcome, *, again: bool = False) -> list[tuple[CrashPoint, ...]]:
        if every:
            return [(point,) for point in points(outcome, block.kinds, again=again)]
        return classes(outcome, block.kinds, again=again)

    if block.then:
        planned(len(block.then))
        for name in block.then:
            yield alone(play(cell((*block.script, name)), sender, disk))
        return
    planned(1)
    dry = play(cell(), sender, disk, moments=not every)
    first = groups(dry)
    planned(sum(map(len, first)))
    yield alone(dry)
    largest, to_check = 1, (dry, dry.cell)
    for group in first:
        once = play(cell(crash=group[0]), sender, disk, moments=block.twice and not every)
        second = groups(once, again=True) if block.twice and once.reached else []
        planned(len(group) * sum(map(len, second)))
        yield Share(outcome=once, columns=Counter(crash_of(cell(crash=point)) for point in group))
        if len(group) > largest:
            largest, to_check = len(group), (once, cell(crash=group[-1]))
        for after in second:
            twice = play(cell(crash=group[0], again=after[0]), sender, disk)
            columns: Counter[str] = Counter()
            for point in group:
                columns[crash_of(cell(crash=point, again=after[0]))] += len(after)
            yield Share(outcome=twice, columns=columns)
            if len(group) * len(after) > largest:
                largest, to_check = len(group) * len(after), (twice, cell(crash=group[-1], again=after[-1]))
    if largest > 1:
        stood_for, other = to_check
        checked = play(other, sender, disk)
        if not same_end(stood_for, checked):
            raise NotOne(f"these crash points should be one, and are not: {stood_for.cell} | {checked.cell}")
        yield Share(outcome=checked, columns={})


def same_end(one: Outcome, other: Outcome) -> bool:
    """Tell whether two runs cannot be told apart from outside: on the wire, by the judge, by the clock."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("trace", "findings", "events", "fired", "reached", "virtual_s")
    )


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


def play_block(
    block: Block, sender: WorldSender, disk: Disk, *, keep: int = 3, every: bool = False
) -> Played:
    """Play a block and add up what it came to. The first `keep` failures are kept whole.

    `every`: play each crash point, also where several are one.
    """
    played = Played(block=block.id, profile=block.profile)
    fired: set[str] = set()
    events: Counter[str] = Counter()
    trace = hashlib.sha256()
    begun = clock.cpu_s()

    def planned(more: int) -> None:
        played.total += more

    try:
        every = every or not may_be_classed(sender)
        # Held around all worlds of the block, so that each need not put them up again.
        with guarded(), watchdog(None):
            for share in _tidied(shares(block, sender, disk, planned, every=every)):
                _count(played, share, keep)
                fired.update(share.outcome.fired)
                events.update(share.outcome.events)
                trace.update(share.outcome.trace.encode())
    except Exception as error:
        # One broken block must not hide what the others say; it makes the run invalid all the same.
        played.error = f"{type(error).__name__}: {error}"
    played.fired, played.events = sorted(fired), dict(events)
    played.cpu_s = clock.cpu_s() - begun
    played.trace = trace.hexdigest()
    return played


def _count(played: Played, share: Share, keep: int) -> None:
    outcome, cell = share.outcome, share.outcome.cell
    row = played.coverage.setdefault(cell.script[0] if cell.script else HEALTHY.name, {})
    played.played += 1
    played.virtual_s += outcome.virtual_s
    _counts(row, crash_of(cell))["played"] += 1
    for column, number in share.columns.items():
        counts = _counts(row, column)
        played.cells += number
        counts["cells"] += number
        if not outcome.reached:
            played.not_reached += number
            counts["not_reached"] += number
        if outcome.findings:
            played.failed += number
            counts["failed"] += number
    if outcome.findings and share.columns and len(played.failures) < keep:
        played.failures.append(
            Failure(
                cell=cell.as_json(),
                said=str(cell),
                findings=[each.as_json() for each in outcome.findings],
            )
        )


def _counts(row: dict[str, dict[str, int]], column: str) -> dict[str, int]:
    return row.setdefault(column, dict.fromkeys(COUNTS, 0))


def _tidied(shares: Iterator[Share]) -> Iterator[Share]:
    """Clear up between worlds, now and then, not in the middle of them: each leaves a heap of rings behind."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        for number, share in enumerate(shares, 1):
            yield share
            if number % TIDY_AFTER == 0:
                gc.collect()
    finally:
        if was_on:
            gc.enable()


# --- lines of a journal ---------------------------------------------------------------------------------


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
