"""From the model level to the wire: what was found without bytes is played with them, and only then it counts.

A crash point with a name has the same name on the wire. What has none (an await between two of them) is looked for
there, among the steps of the same script. What the wire does not confirm is a disagreement, and one of ours: the model
level sees something that there is not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scenarios.checks import Finding
from scenarios.simulation.byteless.search import Found, kinds_of
from scenarios.simulation.cell import FREEZE, Cell, play
from scenarios.simulation.crashes import classes, points
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.senders import Disk, WorldSender

#: So many worlds are played on the wire for one finding, before it is called a disagreement.
MOST_PLAYS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A finding, and what the wire says of it."""

    found: Found
    confirmed: Cell | None
    """The cell that shows it on the wire, too. None: there is none."""
    findings: tuple[Finding, ...] = ()
    """What the wire found there."""
    plays: int = 0

    def __str__(self) -> str:
        kinds = ", ".join(kinds_of(self.found.findings))
        if self.confirmed is None:
            return f"{kinds} · {self.found.cell} · the wire does not confirm it ({self.plays} worlds played)"
        return f"{kinds} · {self.confirmed}"


def smallest(found: Iterable[Found], *, each: int = 1) -> list[Found]:
    """Return the first findings of each profile and kind: one counterexample of a kind tells enough."""
    kept: dict[tuple[str, tuple[str, ...]], list[Found]] = {}
    for one in found:
        kept.setdefault((one.cell.profile, kinds_of(one.findings)), []).append(one)
    return [one for several in kept.values() for one in several[:each]]


def hand_over(found: Found, sender: WorldSender, disk: Disk, *, plays: int = MOST_PLAYS) -> Handed:
    """Play a finding on the wire."""
    wanted = set(kinds_of(found.findings))
    played = 0
    for cell in on_the_wire(found.cell, sender, disk):
        if played == plays:
            break
        outcome = play(cell, sender, disk)
        played += 1
        seen = tuple(each for each in outcome.findings if each.kind in wanted)
        if outcome.reached and seen:
            return Handed(found=found, confirmed=cell, findings=seen, plays=played)
    return Handed(found=found, confirmed=None, plays=played)


def on_the_wire(cell: Cell, sender: WorldSender, disk: Disk) -> Iterator[Cell]:
    """Yield cells of the wire that may be this one, the likeliest first.

    Its own if its points have names; else those with every other step in the place of what has none; then with the
    points of the same name at another count, for where several mails go out at once the order is the transport's.
    """
    if not _nameless(cell.crash) and not _nameless(cell.again):
        yield cell
    dry = play(dataclasses.replace(cell, crash=None, again=None), sender, disk, moments=True)
    for first in _like(cell.crash, [group[0] for group in classes(dry, ("step",))], points(dry, (FREEZE,))):
        once = dataclasses.replace(cell, crash=first, again=None)
        if cell.again is None:
            yield once
            continue
        recovery = play(once, sender, disk, moments=True)
        steps = [group[0] for group in classes(recovery, ("step",), again=True)] if recovery.reached else []
        for second in _like(cell.again, steps, ()):
            yield dataclasses.replace(once, again=second)


def _nameless(point: CrashPoint | None) -> bool:
    return point is not None and (point.kind == "step" or (point.kind == FREEZE and not point.name))


def _like(
    point: CrashPoint | None, steps: Sequence[CrashPoint], stops: Sequence[CrashPoint]
) -> Iterator[CrashPoint | None]:
    """Yield the points of the wire that may be this one of the model level."""
    if point is None:
        yield None
    elif _nameless(point):
        # From where it should be outwards, as far as steps can be compared: each level has its own.
        places = stops if point.kind == FREEZE else steps
        yield from sorted(places, key=lambda each: (abs(each.count - point.count), each.count))
    else:
        yield point
        yield from (
            dataclasses.replace(point, count=count)
            for distance in range(1, 5)
            for count in (point.count + distance, point.count - distance)
            if count > 0
        )
