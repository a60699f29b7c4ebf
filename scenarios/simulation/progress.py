"""How far a run of the matrix is, and when it will be over: by the weight of its blocks, not by their number."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from datetime import timedelta

from scenarios import clock
from scenarios.simulation.cell import FREEZE
from scenarios.simulation.crashes import FREEZE_ONCE
from scenarios.simulation.matrix import Block
from scenarios.simulation.played import Played
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.shapes import EVERY_SHAPE

#: Processor time, in seconds of a quiet core. Of a script of two behaviours played with its bytes and without, and of one of
#: three; of a block of crashes in a recovery with bytes and without; and of all others one with freezes, one with every crash
#: point, one with commits, and one with the commits of a crowd. Where events are heard, so many times as long. Measured, not exact.
PAIR, BARE_PAIR, TRIPLE = 0.2, 0.003, 0.001
TWICE, BARE_TWICE = 5.0, 0.8
FROZEN, ALL_POINTS, COMMITS, CROWD = 0.4, 0.25, 0.1, 0.7
HEARING = 4.0
#: Shapes with so many mails are crowds.
MANY = 4


def weight(block: Block) -> float:
    """Return about how long a block takes."""
    if block.twice:
        return TWICE if block.has_bytes else BARE_TWICE
    scripts = math.prod(map(len, block.then))
    match len(block.then):
        case 3:
            return TRIPLE * scripts
        case 2:
            return (PAIR if block.has_bytes else BARE_PAIR) * scripts
    slower = HEARING if BY_ID[block.profile].hears else 1.0
    if FREEZE in block.kinds:
        return FROZEN * slower
    if FREEZE_ONCE in block.kinds:
        return FROZEN / 2 * slower
    if block.kinds != ("commit",):
        return ALL_POINTS * slower
    return (CROWD if len(EVERY_SHAPE[block.shape].owed) >= MANY else COMMITS) * slower


class Course:
    """The course of a run."""

    def __init__(
        self,
        todo: Sequence[Block],
        *,
        known: Container[str] = (),
        now: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        """`known`: ids of blocks that were played before; they say nothing about how fast this run is."""
        self._weights = {block.id: weight(block) for block in todo}
        self._total = sum(self._weights.values())
        self._known = known
        self._now = now
        self._begun = self._last = now()
        self._done = self._done_here = 0.0
        self.blocks = self.cells = self.played = self.failed = 0

    def ends(self, played: Played) -> None:
        """A block is done."""
        self._last = self._now()
        self.blocks += 1
        self.cells += played.cells
        self.played += played.played
        self.failed += played.failed
        self._done += self._weights[played.block]
        if played.block in self._known:
            self._begun = self._last
        else:
            self._done_here += self._weights[played.block]

    @property
    def is_over(self) -> bool:
        return self.blocks == len(self._weights)

    @property
    def part(self) -> float:
        """How much is done, from 0 to 1."""
        return self._done / self._total if self._total else 1.0

    @property
    def left_s(self) -> float | None:
        """How long it will still take, in seconds; None: nothing is known yet."""
        if not self._done_here:
            return None
        return (self._last - self._begun) / self._done_here * (self._total - self._done)

    def __str__(self) -> str:
        left = self.left_s
        when = "" if left is None or self.is_over else f", about {timedelta(seconds=round(left))} left"
        return (
            f"{self.blocks:,} of {len(self._weights):,} blocks ({self.part:.0%}), {self.cells:,} cells by {self.played:,} "
            f"worlds, {self.failed:,} failed{when}"
        )
