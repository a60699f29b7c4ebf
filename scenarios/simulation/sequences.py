"""Many scripts at once, of which most make the same worlds: each world is played once.

Two scripts are one run as far as they differ only in behaviours that nobody met (`scenarios.simulation.asked`), and two
crashes have one future if they leave the same rest behind (`scenarios.simulation.rest`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from scenarios.history import History
from scenarios.simulation.asked import Notes, met, says_goodbye, to_come
from scenarios.simulation.behaviours import HEALTHY
from scenarios.simulation.cell import Cell, Outcome
from scenarios.simulation.crashes import NotOne, Share, classes, crash_of, points, same_end, same_future
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.rest import Left

Play = Callable[..., Outcome]


@dataclass(frozen=True, slots=True)
class _Group:
    """Crash points of one run that are one, and what is there besides the victim's memory when it dies there."""

    points: tuple[CrashPoint, ...]
    left: Left | None = None
    """None: that is not known, or somebody else has a memory, too."""


@dataclass(slots=True)
class _World:
    """A world that was played, and what it stands for."""

    outcome: Outcome
    groups: list[_Group] = field(default_factory=list)
    """The crash points of whoever dies next."""
    cells: int = 0
    last: Cell | None = None
    """The last cell that it stands for: the one that is the least like it."""


class Known:
    """Worlds that were played, found again by what decides them."""

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._worlds: dict[Hashable, dict[frozenset[tuple[int, str]], dict[tuple[str, ...], _World]]] = {}

    def find(self, where: Hashable, script: Sequence[str]) -> _World | None:
        for asked, worlds in self._worlds.get(where, {}).items():
            world = worlds.get(met(self._wire, script, asked))
            if world is not None:
                return world
        return None

    def keep(self, where: Hashable, script: Sequence[str], world: _World) -> None:
        asked = world.outcome.asked
        by_script = self._worlds.setdefault(where, {}).setdefault(asked, {})
        by_script[met(self._wire, script, asked)] = world


class Sequences:
    """Plays scripts × (no crash, and every crash point of these kinds), and with `twice` every crash in the recovery."""

    def __init__(
        self,
        cell: Cell,
        kinds: Sequence[str],
        play: Play,
        *,
        known: Known,
        twice: bool = False,
        every: bool = False,
        where: str = "",
    ) -> None:
        """`cell` says everything but script and crash; `play(cell, moments=…, notes=…)` plays.

        `known`: what was played before with the same shape, kinds and `twice`. `every`: what is the same is played again
        and again. `where`: added to the names of the columns.
        """
        self._cell = cell
        self._kinds = kinds
        self._play = play
        self._twice = twice
        self._every = every
        self._wire = BY_ID[cell.profile].wire
        self._known = known
        self._where = where
        self._most: _World | None = None

    def shares(self, scripts: Iterable[tuple[str, ...]], planned: Callable[[int], None]) -> Iterator[Share]:
        """Play scripts. In the end the world that stands for most is checked against the last cell that it stands for.

        Raises `NotOne` if the two come to different ends.
        """
        for script in scripts:
            planned(1)
            dry, share = self._world(replace(self._cell, script=script), None, None)
            planned(sum(len(group.points) for group in dry.groups))
            yield share
            for group in dry.groups:
                cell = replace(self._cell, script=script, crash=group.points[0])
                once, share = self._world(cell, group, None)
                planned(len(group.points) * sum(len(after.points) for after in once.groups))
                yield share
                for after in once.groups:
                    yield self._world(replace(cell, again=after.points[0]), group, after)[1]
        if self._most is not None:
            yield self._check(self._most)

    def _world(self, cell: Cell, group: _Group | None, after: _Group | None) -> tuple[_World, Share]:
        last = after or group
        where, script = self._decided_by(cell, last)
        world = None if self._every else self._known.find(where, script)
        played = 0
        if world is None:
            world, played = self._played(cell, dies_again=group is None or (self._twice and after is None)), 1
            if not self._every:
                self._known.keep(where, script, world)
        columns: Counter[str] = Counter()
        for first in group.points if group is not None else (None,):
            columns[crash_of(replace(cell, crash=first)) + self._where] += (
                1 if after is None else len(after.points)
            )
        world.cells += sum(columns.values())
        world.last = replace(
            cell,
            crash=None if group is None else group.points[-1],
            again=None if after is None else after.points[-1],
        )
        if world.cells > (1 if self._most is None else self._most.cells):
            self._most = world
        row = cell.script[0] if cell.script else HEALTHY.name
        return world, Share(outcome=world.outcome, columns=columns, row=row, where=self._where, played=played)

    def _decided_by(self, cell: Cell, group: _Group | None) -> tuple[Hashable, tuple[str, ...]]:
        """Return where a world begins to be decided, and by what of its script."""
        goodbye = says_goodbye(self._wire, cell.script)
        if group is None or group.left is None:
            return (goodbye, cell.crash, cell.again), cell.script
        left = group.left
        return (goodbye, left.digest), to_come(self._wire, cell.script, left.over, left.standing)

    def _played(self, cell: Cell, *, dies_again: bool) -> _World:
        looks = dies_again and bool(self._kinds) and not self._every
        outcome = self._play(cell, moments=looks, notes=None if self._every else Notes())
        world = _World(outcome=outcome)
        if dies_again and (outcome.reached or cell.crash is None):
            again = cell.crash is not None
            if self._every:
                world.groups = [_Group((each,)) for each in points(outcome, self._kinds, again=again)]
            else:
                world.groups = [
                    _grouped(outcome, each, again=again)
                    for each in classes(outcome, self._kinds, again=again)
                ]
        # Many are kept: nobody needs these again.
        outcome.moments = outcome.again_moments = {}
        if not outcome.findings:
            outcome.history = History()
        return world

    def _check(self, world: _World) -> Share:
        assert world.last is not None
        stood_for, last = world.outcome, world.last
        checked = self._play(last)
        prefix_is_one = (stood_for.cell.crash is None) or (
            stood_for.cell.script == last.script and stood_for.cell.again is None
        )
        if not (same_end if prefix_is_one else same_future)(stood_for, checked):
            raise NotOne(f"these cells should be one, and are not: {stood_for.cell} | {checked.cell}")
        return Share(
            outcome=checked,
            columns={},
            row=last.script[0] if last.script else HEALTHY.name,
            where=self._where,
        )


def _grouped(outcome: Outcome, group: tuple[CrashPoint, ...], *, again: bool) -> _Group:
    moments = outcome.again_moments if again else outcome.moments
    moment = moments[group[0].kind, group[0].name][group[0].count - 1]
    # As `Process._note` writes it; in the middle of a line there is more to it.
    left = moment[2] if isinstance(moment, tuple) and len(moment) == 3 else None
    return _Group(group, left) if isinstance(left, Left) else _Group(group)
