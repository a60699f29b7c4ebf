"""Crash points of a run: which there are, which are one and the same, and how a world counts in the coverage table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from scenarios.simulation.behaviours import HEALTHY
from scenarios.simulation.cell import FREEZE, Cell, Outcome
from scenarios.simulation.processes import CrashPoint

#: Stopped for a while, as `FREEZE`, but only at the first of the steps between which nothing has changed outside of the
#: victim's memory (at each, where the run did not note that). It keeps its memory, so that these are not one – only alike.
FREEZE_ONCE = "freeze once a moment"


class NotOne(Exception):
    """Two cells that should have been one came to different ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A world, and the cells that it stands for."""

    outcome: Outcome
    columns: Mapping[str, int]
    """Column of the coverage table → cells. Nothing: it was played to check another one."""
    row: str = HEALTHY.name
    """The row of the table: the first behaviour of the script."""
    where: str = ""
    """What its columns have behind their names."""
    played: int = 1
    """0: it was played before, for cells of another script."""


def points(outcome: Outcome, kinds: Iterable[str], *, again: bool = False) -> list[CrashPoint]:
    """List the crash points of a run that its victim came by (`again`: the restarted victim)."""
    steps = outcome.again_steps if again else outcome.steps
    passed = outcome.again_passed if again else outcome.passed
    moments = (outcome.again_moments if again else outcome.moments).get(("step", ""))
    found = []
    for kind in kinds:
        if kind in ("step", FREEZE):
            found += [CrashPoint(kind, "", n) for n in range(1, steps + 1)]
        elif kind == FREEZE_ONCE:
            firsts = {moment: n for n, moment in reversed(list(enumerate(moments or range(1, steps + 1), 1)))}
            found += [CrashPoint(FREEZE, "", n) for n in sorted(firsts.values())]
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


def same_end(one: Outcome, other: Outcome) -> bool:
    """Tell whether two runs cannot be told apart from outside: on the wire, by the judge, by the clock."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("trace", "findings", "events", "fired", "reached", "virtual_s")
    )


def same_future(one: Outcome, other: Outcome) -> bool:
    """Tell whether all that followed the last crash is the same: on the wire, in the outbox, for the judge, by the clock."""
    return all(
        getattr(one, name) == getattr(other, name) for name in ("future", "findings", "reached", "virtual_s")
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
