"""The search: a space larger than that of the wire level, played without bytes, until something is found.

An *area* is one script on one profile and shape, and what is done to its victim in it: killed at every crash point,
killed again in the recovery, stopped for a while at every step. Areas are independent of each other. Whatever is
found here is only a suspicion: `handover` plays it on the wire.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

from scenarios import clock
from scenarios.checks import Finding
from scenarios.simulation.behaviours import BY_WIRE, HEALTHY, columns
from scenarios.simulation.byteless.cell import Shelves, Told, play
from scenarios.simulation.byteless.sender import Sender
from scenarios.simulation.cell import FREEZE, Cell
from scenarios.simulation.crashes import NotOne, classes, points
from scenarios.simulation.matrix import SKEW_S
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID, PROFILES, Profile
from scenarios.simulation.shapes import SHAPES

#: Every kind of crash point there is at this level: `step` is every await and every callback.
KINDS = ("commit", "point", "reply", "step")
#: So long a worker is stopped at each of its steps, in virtual seconds: until everybody else has had a turn; past a
#: timeout; past its lease; past the time for which a request counts as under way.
HOLDS_S = (0.001, 12.0, 35.0, 65.0)
#: So many worlds are left lying about before they are cleared up.
TIDY_AFTER = 400
#: In one of so many areas the last crash point of the largest class is played, too, and must come to the same end.
CHECKED = 8
#: So many findings of one kind are kept of an area: the first is the smallest, the others tell whether it stands alone.
KEPT = 2


class Size(StrEnum):
    """How much is searched."""

    QUICK = "quick"
    """All behaviours × every crash point: seconds."""
    WIDE = "wide"
    """Besides, every pair of crash points, every shape, wrong clocks, and a worker stopped at every step: minutes."""
    PAIRS = "pairs"
    """All ordered pairs of behaviours × every crash point, with one worker and with two: some minutes more."""
    RANDOM = "random"
    """Whatever a die makes of three behaviours, shapes, clocks, crashes and stops, as long as one likes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A part of the space."""

    profile: str
    script: tuple[str, ...]
    shape: str = "one mail"
    victim: str = "worker"
    skew_s: float = 0.0
    kinds: tuple[str, ...] = KINDS
    twice: bool = False
    """Every pair: the crash, and the crash in the recovery from it."""
    holds_s: tuple[float, ...] = ()
    """Besides, stopped for so long at each step."""
    dice: int | None = None
    """Instead of all that, `DRAWN` cells that a die with this seed chooses; the script is its choice, too."""

    @property
    def id(self) -> str:
        words = [self.profile, self.shape, self.victim, " > ".join(self.script), "+".join(self.kinds)]
        words += ["twice"] if self.twice else []
        words += [f"stopped {'/'.join(f'{each:g}' for each in self.holds_s)} s"] if self.holds_s else []
        words += [f"clock {self.skew_s:+g} s"] if self.skew_s else []
        return f"{self.profile}/dice {self.dice}" if self.dice is not None else "/".join(words)


#: Cells of one random area.
DRAWN = 50


@dataclass(slots=True, kw_only=True)
class Found:
    """A cell with findings."""

    cell: Cell
    findings: list[Finding]


@dataclass(slots=True, kw_only=True)
class Searched:
    """What came of an area; plain data, so that it can be sent."""

    area: Area
    cells: int = 0
    """Cells that are covered: played, or one with a cell that was played."""
    played: int = 0
    """Worlds that were really run."""
    not_reached: int = 0
    failed: int = 0
    """Cells with findings."""
    found: list[Found] = field(default_factory=list)
    """The first `KEPT` of each kind."""
    fired: set[str] = field(default_factory=set)
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    error: str | None = None


# --- the space --------------------------------------------------------------------------------------


def areas(size: Size, profiles: Sequence[str] = tuple(BY_ID), *, seed: int = 1) -> Iterator[Area]:
    """List the areas of a size, smallest scripts first. Those of a random search never end."""
    chosen = [each for each in PROFILES if each.id in profiles]
    match size:
        case Size.QUICK:
            for profile in chosen:
                yield from (
                    Area(profile=profile.id, script=(name,), shape=BY_WIRE[profile.wire][name].shape)
                    for name in _names(profile)
                )
                yield Area(profile=profile.id, script=(HEALTHY.name,), victim="application")
        case Size.WIDE:
            yield from areas(Size.QUICK, profiles)
            for profile in chosen:
                for name in _names(profile):
                    yield from _wide(profile.id, name)
        case Size.PAIRS:
            for profile in chosen:
                names = [name for name in _names(profile) if name != HEALTHY.name]
                for pair in itertools.product(names, repeat=2):
                    yield Area(profile=profile.id, script=pair)
                    yield Area(profile=profile.id, script=pair, shape="two mails, two workers")
        case Size.RANDOM:
            for number in itertools.count(seed):
                yield from (Area(profile=each.id, script=(), dice=number) for each in chosen)


def _names(profile: Profile) -> tuple[str, ...]:
    """Return the columns of a profile that can be played without bytes."""
    return columns(profile.id, profile.wire, byteless=True)


def _wide(profile: str, name: str) -> Iterator[Area]:
    script = (name,)
    shows = BY_WIRE[BY_ID[profile].wire][name].shape
    yield Area(profile=profile, script=script, shape=shows, twice=True)
    yield Area(profile=profile, script=script, shape=shows, kinds=(), holds_s=HOLDS_S)
    for shape in SHAPES:
        if shape != shows:
            yield Area(profile=profile, script=script, shape=shape)
            if SHAPES[shape].workers > 1:
                yield Area(profile=profile, script=script, shape=shape, kinds=(), holds_s=HOLDS_S)
        for skew_s in (-SKEW_S, SKEW_S):
            yield Area(profile=profile, script=script, shape=shape, skew_s=skew_s)


# --- one area ---------------------------------------------------------------------------------------


def search(area: Area, sender: Sender, *, every: bool = False, shelves: Shelves | None = None) -> Searched:
    """Search an area. `every`: play each crash point, also where several are one.

    `shelves`: those of this sender's other areas, so that its mails need not be rendered again.
    """
    shelves = Shelves() if shelves is None else shelves
    every = every or not sender.is_classed
    searched = Searched(area=area)
    begun = clock.cpu_s()
    try:
        for outcome, stands_for in _tidied(_played(area, sender, shelves, every=every)):
            searched.played += 1
            searched.cells += stands_for
            searched.virtual_s += outcome.virtual_s
            searched.fired.update(outcome.fired)
            searched.not_reached += 0 if outcome.reached else stands_for
            if outcome.findings and stands_for:
                searched.failed += stands_for
                _keep(searched, Found(cell=outcome.cell, findings=outcome.findings))
    except Exception as error:
        # One broken area must not hide what the others say; it makes the search invalid all the same.
        searched.error = f"{type(error).__name__}: {error}"
    searched.cpu_s = clock.cpu_s() - begun
    return searched


def _keep(searched: Searched, found: Found) -> None:
    kinds = kinds_of(found.findings)
    if sum(kinds_of(each.findings) == kinds for each in searched.found) < KEPT:
        searched.found.append(found)


def kinds_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the kinds of these findings, each once, in the order of the alphabet."""
    return tuple(sorted({each.kind for each in findings}))


def _played(area: Area, sender: Sender, shelves: Shelves, *, every: bool) -> Iterator[tuple[Told, int]]:
    """Play an area; with each world the number of cells that it stands for (0: it was played to check another)."""
    if area.dice is not None:
        yield from _drawn(area, sender, shelves)
        return
    cell = Cell(
        profile=area.profile, script=area.script, shape=area.shape, victim=area.victim, skew_s=area.skew_s
    )
    dry = play(cell, sender, shelves, counts=True)
    yield dry, 1
    largest: tuple[CrashPoint, ...] = ()
    stood_for = dry
    for group in _groups(dry, area.kinds, every=every):
        once = play(dataclasses.replace(cell, crash=group[0]), sender, shelves, counts=area.twice)
        yield once, len(group)
        if len(group) > max(1, len(largest)):
            largest, stood_for = group, once
        for after in _groups(once, area.kinds, every=every, again=True) if area.twice else ():
            both = dataclasses.replace(cell, crash=group[0], again=after[0])
            yield play(both, sender, shelves), len(group) * len(after)
    if largest and crc32(area.id.encode()) % CHECKED == 0:
        checked = play(dataclasses.replace(cell, crash=largest[-1]), sender, shelves)
        if dataclasses.replace(checked.history, marks=()) != dataclasses.replace(stood_for.history, marks=()):
            raise NotOne(f"should be one, and are not: {stood_for.cell} | {checked.cell}")
        yield checked, 0
    for seconds, step in itertools.product(area.holds_s, range(1, dry.steps + 1)):
        held = dataclasses.replace(cell, crash=stop_before(dry, step), frozen_s=seconds)
        yield play(held, sender, shelves), 1


def _groups(
    outcome: Told, kinds: Sequence[str], *, every: bool, again: bool = False
) -> list[tuple[CrashPoint, ...]]:
    if again and not outcome.reached:
        return []
    if every:
        return [(point,) for point in points(outcome, kinds, again=again)]
    return classes(outcome, kinds, again=again)


def stop_before(dry: Told, step: int) -> CrashPoint:
    """Return the point at which a worker is stopped before this step, by a name that holds on the wire if it has one."""
    kind, name, count = dry.named.get(step - 1, ("", "", step))
    return CrashPoint(FREEZE, f"{kind} {name}" if kind else "", count)


def _drawn(area: Area, sender: Sender, shelves: Shelves) -> Iterator[tuple[Told, int]]:
    """Let a die choose: short scripts more often than long ones, and a crash or a stop almost always."""
    die = random.Random(f"{area.dice}/{area.profile}")
    names = _names(BY_ID[area.profile])
    left = DRAWN
    while left > 0:
        cell = Cell(
            profile=area.profile,
            script=tuple(die.choice(names) for _ in range(die.choice((1, 2, 2, 3, 3)))),
            shape=die.choice(list(SHAPES)),
            skew_s=die.choice((0.0, 0.0, 0.0, SKEW_S, -SKEW_S)),
        )
        dry = play(cell, sender, shelves, counts=True)
        yield dry, 1
        crashes = points(dry, KINDS)
        for _ in range(min(8, left)):
            if die.random() < 0.3:
                stop = stop_before(dry, die.randint(1, dry.steps))
                held = dataclasses.replace(cell, crash=stop, frozen_s=die.choice(HOLDS_S))
                yield play(held, sender, shelves), 1
                continue
            once = play(dataclasses.replace(cell, crash=die.choice(crashes)), sender, shelves, counts=True)
            yield once, 1
            more = points(once, KINDS, again=True)
            if more and die.random() < 0.5:
                yield play(dataclasses.replace(once.cell, again=die.choice(more)), sender, shelves), 1
        left -= 10


def _tidied(outcomes: Iterator[tuple[Told, int]]) -> Iterator[tuple[Told, int]]:
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


# --- what was not searched --------------------------------------------------------------------------


def never_struck(searched: Iterable[Searched], note: Callable[[str, str], str]) -> list[str]:
    """Return the behaviours of an area's script whose rule never struck in it: it was searched in name only."""
    fired: dict[str, set[str]] = {}
    named: dict[str, set[str]] = {}
    for each in searched:
        fired.setdefault(each.area.profile, set()).update(each.fired)
        named.setdefault(each.area.profile, set()).update(each.area.script)
    return [
        note(profile, name)
        for profile, names in sorted(named.items())
        for name in sorted(names)
        if not BY_WIRE[BY_ID[profile].wire][name].has_struck(fired[profile])
    ]
