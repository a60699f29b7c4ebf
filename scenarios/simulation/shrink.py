"""Making a counterexample small: the same finding with fewer faults, fewer mails, an earlier crash.

`smallest` is greedy and deterministic: it takes the first smaller candidate that still fails and begins anew,
until none does or the plays are spent. What is smaller is said here for cells and for schedules.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from scenarios.simulation.behaviours import BY_WIRE
from scenarios.simulation.cell import VICTIMS, Cell
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.schedule import Schedule, Step
from scenarios.simulation.shapes import SHAPES
from scenarios.simulation.sorts import PLAIN

#: How many candidates may be played for one counterexample. A play takes 10 to 50 ms.
PLAYS = 250

#: How far behind its own count a doom is looked for when steps before it are gone.
DOOMS_TRIED = 12

Case = TypeVar("Case", bound=Hashable)


def smallest(
    case: Case,
    smaller: Callable[[Case], Iterable[Case]],
    fails: Callable[[Case], bool],
    *,
    plays: int = PLAYS,
) -> Case:
    """Return the smallest case found that still fails; `case` itself must."""
    known: dict[Case, bool] = {case: True}
    moved = True
    while moved:
        moved = False
        for candidate in smaller(case):
            if candidate in known:
                continue
            if len(known) > plays:
                return case
            known[candidate] = fails(candidate)
            if known[candidate]:
                case, moved = candidate, True
                break
    return case


# --- cells ------------------------------------------------------------------------------------------


def smaller_cells(cell: Cell) -> Iterator[Cell]:
    """Yield cells with less in them, those that save most first."""
    if cell.again is not None:
        yield dataclasses.replace(cell, again=None)
    if cell.crash is not None:
        yield dataclasses.replace(cell, crash=None, again=None)
    for number in range(len(cell.script)):
        less = dataclasses.replace(cell, script=cell.script[:number] + cell.script[number + 1 :])
        yield less
        # With less to do, the same place in the program is passed earlier.
        if cell.crash is not None:
            yield from (dataclasses.replace(less, crash=point) for point in earlier(cell.crash))
    simple = next(iter(SHAPES))
    if cell.shape != simple:
        # Whoever is only in a campaign is not there without one.
        victim = cell.victim if cell.victim in VICTIMS[BY_ID[cell.profile].hears] else "worker"
        yield dataclasses.replace(cell, shape=simple, victim=victim)
    for number, name in enumerate(cell.script):
        for simpler in _simpler(cell.profile, name):
            yield dataclasses.replace(
                cell, script=(*cell.script[:number], simpler, *cell.script[number + 1 :])
            )
    if cell.again is not None:
        for point in earlier(cell.again):
            yield dataclasses.replace(cell, again=point)
    if cell.crash is not None:
        for point in earlier(cell.crash):
            yield dataclasses.replace(cell, crash=point)


def earlier(point: CrashPoint) -> Iterator[CrashPoint]:
    """Yield the crash points of the same kind that come before, earliest first."""
    for count in range(1, point.count):
        yield CrashPoint(point.kind, point.name, count)


def _simpler(profile: str, name: str) -> Iterator[str]:
    """Yield the behaviours of its kind that stand before this one in its table: plain ones stand first."""
    behaviours = BY_WIRE[BY_ID[profile].wire]
    for each in behaviours.values():
        if each.name == name:
            return
        if each.is_told == behaviours[name].is_told:
            yield each.name


# --- schedules --------------------------------------------------------------------------------------


def smaller_schedules(schedule: Schedule) -> Iterator[Schedule]:
    """Yield schedules with fewer steps (halves, quarters, … single ones), then with smaller steps."""
    steps = schedule.steps
    size = len(steps)
    while size:
        # From the end: what comes after the damage is never needed.
        for start in range(len(steps) - size, -1, -size):
            yield dataclasses.replace(schedule, steps=steps[:start] + steps[start + size :])
        size //= 2
    for number, step in enumerate(steps):
        for simpler in _smaller_steps(schedule.profile, step):
            yield dataclasses.replace(schedule, steps=(*steps[:number], simpler, *steps[number + 1 :]))
    if len(steps) <= 8:
        # Two that need each other, like a worker and what kills it.
        for first, second in itertools.combinations(range(len(steps)), 2):
            others = [step for number, step in enumerate(steps) if number not in (first, second)]
            yield dataclasses.replace(schedule, steps=tuple(map(_of_the_first, others)))
    for size in (3, 2, 1):
        for start in range(len(steps) - size, -1, -1):
            for doomed in _with_another_doom(steps[:start] + steps[start + size :]):
                yield dataclasses.replace(schedule, steps=doomed)


def _of_the_first(step: Step) -> Step:
    return dataclasses.replace(step, number=1) if step.do in ("doom", "freeze", "kill") else step


def _with_another_doom(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Yield the same steps with the doom at each other count: with less before it, its place comes at another."""
    places = [number for number, step in enumerate(steps) if step.do in ("doom", "freeze")]
    if len(places) != 1:
        return
    (at,) = places
    for count in range(1, steps[at].count + DOOMS_TRIED):
        if count != steps[at].count:
            yield (*steps[:at], dataclasses.replace(steps[at], count=count), *steps[at + 1 :])


def _smaller_steps(profile: str, step: Step) -> Iterator[Step]:
    if step.do in ("enqueue", "roll_back") and step.name:
        yield dataclasses.replace(step, name=PLAIN, seconds=0.0)
    for number in range(1, min(step.number, 4)):
        yield dataclasses.replace(step, number=number)
    for count in dict.fromkeys((0, 1, step.count // 2, step.count - 1)):
        if 0 <= count < step.count:
            yield dataclasses.replace(step, count=count)
    for seconds in (1.0, 10.0, 35.0):
        if seconds < step.seconds:
            yield dataclasses.replace(step, seconds=seconds)
    if step.do == "plan":
        for name in _simpler(profile, step.name):
            yield dataclasses.replace(step, name=name)
