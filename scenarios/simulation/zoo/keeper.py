"""What a bad sender is, and the hunt: cell after cell until it is seen as what it is.

On every cell that is played, the sender without sin is played as well and must be clean: what catches a bad
sender is its sin, not the ground it stands on. Must not hold: any sin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reference_sender.campaigns import Runner
from reference_sender.outbox.store import enqueue
from reference_sender.worker import Transport
from scenarios.checks import Finding
from scenarios.simulation.cell import Cell, Outcome
from scenarios.simulation.matrix import Block
from scenarios.simulation.playing import cells
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.stories import play

#: A sin that takes more cells than this to be seen is not seen.
MOST_CELLS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the world does to a sender besides the provider's faults; no sin, the reference sender bears it."""

    says: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    around_transport: Callable[[Transport], Transport] | None = None
    sender: type[ReferenceSender] = ReferenceSender


EVEN = Ground()


@dataclass(frozen=True, slots=True, kw_only=True)
class BadSender:
    """The reference sender with one sin."""

    name: str
    sin: str
    """One sentence: what it does."""
    like: str
    """What this kind of mistake is called where it is collected, in a few words."""
    kind: str
    """The kind of finding it must be caught by."""
    blocks: tuple[Block, ...]
    """Where it shows, smallest first."""
    promises: tuple[str, ...] = ()
    """Promises of the certification that mean the same."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Parts of `reference_sender.wiring.Parts` that are replaced."""
    options: Mapping[str, Any] = field(default_factory=dict)
    enqueue_with: Callable[..., Any] = enqueue
    runner: type[Runner] = Runner
    """Who writes the rows of a campaign."""
    sender: type[ReferenceSender] | None = None
    """Where the sin is not in a part: another application, another start."""
    ground: Ground = EVEN

    def made(self, disk: Disk, profile: str) -> ReferenceSender:
        """Make the sender with its sin."""
        return (self.sender or self.ground.sender)(
            disk=disk,
            profile=BY_ID[profile],
            parts={**self.parts, **self._around()},
            options={**self.ground.options, **self.options},
            enqueue_with=self.enqueue_with,
            runner=self.runner,
        )

    def without_sin(self, disk: Disk, profile: str) -> ReferenceSender:
        """Make the reference sender on the same ground."""
        ground = self.ground
        parts = {"around_transport": ground.around_transport} if ground.around_transport else {}
        return ground.sender(disk=disk, profile=BY_ID[profile], parts=parts, options=ground.options)

    def _around(self) -> dict[str, Any]:
        outer, inner = self.ground.around_transport, self.parts.get("around_transport")
        if outer is None:
            return {}
        return {"around_transport": outer if inner is None else lambda transport: outer(inner(transport))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """How it went."""

    sender: BadSender
    cells: int
    caught: Outcome | None
    """The cell that showed it; None: it got away."""
    seen: tuple[str, ...]
    """Every kind of finding on the way, of which only the declared one counts."""
    innocent: tuple[tuple[Cell, Finding], ...]
    """What the sender without sin was accused of on the same cells: must be empty."""

    @property
    def finding(self) -> Finding | None:
        """The finding that shows the sin."""
        found = self.caught.findings if self.caught is not None else ()
        return next((each for each in found if each.kind == self.sender.kind), None)


def hunt(sender: BadSender, folder: Path) -> Hunt:
    """Play the cells of a bad sender until it is seen as what it is, or until there are none left."""
    caught, played, seen = _catch(sender, folder / "bad")
    innocent = []
    disks: dict[str, Disk] = {}
    for cell in played:
        disk = disks.setdefault(cell.profile, _disk(folder / "good" / cell.profile))
        for finding in play(cell, sender.without_sin(disk, cell.profile), disk).findings:
            innocent.append((cell, finding))
    return Hunt(sender=sender, cells=len(played), caught=caught, seen=seen, innocent=tuple(innocent))


def _catch(sender: BadSender, folder: Path) -> tuple[Outcome | None, list[Cell], tuple[str, ...]]:
    played: list[Cell] = []
    seen: dict[str, None] = {}
    for number, block in enumerate(sender.blocks):
        disk = _disk(folder / str(number))
        for outcome in cells(block, sender.made(disk, block.profile), disk):
            played.append(outcome.cell)
            seen.update(dict.fromkeys(each.kind for each in outcome.findings))
            if any(each.kind == sender.kind for each in outcome.findings):
                return outcome, played, tuple(seen)
            if len(played) == MOST_CELLS:
                return None, played, tuple(seen)
    return None, played, tuple(seen)


def _disk(folder: Path) -> Disk:
    folder.mkdir(parents=True, exist_ok=True)
    return Disk(folder)


def where(
    profile: str,
    *script: str,
    shape: str = "one mail",
    victim: str = "worker",
    dies: tuple[str, ...] = (),
) -> Block:
    """Say where a sin shows: one cell, or (`dies`: kinds of crash points) that cell and one for each crash."""
    return Block(profile=profile, script=script or ("ok",), shape=shape, victim=victim, kinds=dies)
