"""Plays a block of the matrix: a dry run that tells the crash points, then a world for each that is not one with another."""

from __future__ import annotations

import gc
import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator

from reference_sender.campaigns import Runner
from reference_sender.outbox.store import enqueue
from scenarios import clock
from scenarios.simulation.asked import Notes
from scenarios.simulation.behaviours import HEALTHY
from scenarios.simulation.cell import Cell, Outcome
from scenarios.simulation.crashes import NotOne, Share, classes, crash_of, points, same_end
from scenarios.simulation.guards import guarded, watchdog
from scenarios.simulation.intake import ListeningSender
from scenarios.simulation.matrix import Block
from scenarios.simulation.played import Played, count_in
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender, WorldSender
from scenarios.simulation.sequences import Known, Sequences
from scenarios.simulation.stories import play

#: What is added to the name of a column for what was played at the model level.
WITHOUT_BYTES = " (without bytes)"

#: So many worlds are left lying about before they are cleared up, all at once: it is a quarter of the time.
TIDY_AFTER = 40


def may_be_classed(sender: WorldSender) -> bool:
    """Tell whether all that a sender leaves behind goes through its database and the network.

    We know that of the reference sender. Any other might write a file or keep something in a module, where the world
    does not see it; there every crash point is played.
    """
    if type(sender) is ListeningSender and sender.intake_parts:
        return False
    return (
        isinstance(sender, ReferenceSender)
        and type(sender) in (ReferenceSender, ListeningSender)
        and not sender.parts
        and sender.enqueue_with is enqueue
        and sender.runner is Runner
    )


class Library:
    """Worlds that blocks of several scripts have in common, as long as one process plays them."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Known] = {}

    def of(self, block: Block) -> Known:
        """Return what was played before by blocks whose worlds may be the same."""
        kind = (
            block.profile,
            block.shape,
            block.victim,
            block.kinds,
            block.twice,
            block.skew_s,
            block.has_bytes,
        )
        return self._known.setdefault(kind, Known(BY_ID[block.profile].wire))


def _player(block: Block, sender: WorldSender, disk: Disk) -> Callable[..., Outcome]:
    if block.has_bytes:
        return lambda cell, **more: play(cell, sender, disk, **more)
    # Late: that room stands on this one.
    from scenarios.simulation.byteless import cell as model
    from scenarios.simulation.byteless.sender import of

    bare, shelves = of(sender), model.Shelves()

    def play_bare(cell: Cell, *, moments: bool = False, notes: Notes | None = None) -> Outcome:
        return model.play(cell, bare, shelves, counts=moments, notes=notes)

    return play_bare


def count(block: Block, sender: WorldSender, disk: Disk) -> int:
    """Return how many cells a block of one script has, by its dry run alone."""
    assert not block.then, "how many these have is only known when they are played"
    assert not block.twice, "and of these as well"
    return 1 + len(points(play(block.cell(), sender, disk, moments=True), block.kinds))


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
    library: Library | None = None,
) -> Iterator[Share]:
    """Play a block; the dry run comes first. `planned` is told how many cells are still to come.

    Of crash points that are one, one is played – unless `every` is. Of the largest group the last is played, too:
    raises `NotOne` if it comes to another end than the one that was to stand for it.
    """

    cell = block.cell
    if block.then:
        whole = Sequences(
            cell(script=()),
            block.kinds,
            _player(block, sender, disk),
            known=(library or Library()).of(block),
            twice=block.twice,
            every=every,
            where="" if block.has_bytes else WITHOUT_BYTES,
        )
        yield from whole.shares(block.scripts, planned)
        return

    row = block.script[0] if block.script else HEALTHY.name

    def groups(outcome: Outcome, *, again: bool = False) -> list[tuple[CrashPoint, ...]]:
        if every:
            return [(point,) for point in points(outcome, block.kinds, again=again)]
        return classes(outcome, block.kinds, again=again)

    planned(1)
    dry = play(cell(), sender, disk, moments=not every)
    first = groups(dry)
    planned(sum(map(len, first)))
    yield Share(outcome=dry, columns={crash_of(dry.cell): 1}, row=row)
    largest, to_check = 1, (dry, dry.cell)
    for group in first:
        once = play(cell(crash=group[0]), sender, disk, moments=block.twice and not every)
        second = groups(once, again=True) if block.twice and once.reached else []
        planned(len(group) * sum(map(len, second)))
        yield Share(outcome=once, row=row, columns=Counter(crash_of(cell(crash=point)) for point in group))
        if len(group) > largest:
            largest, to_check = len(group), (once, cell(crash=group[-1]))
        for after in second:
            twice = play(cell(crash=group[0], again=after[0]), sender, disk)
            columns: Counter[str] = Counter()
            for point in group:
                columns[crash_of(cell(crash=point, again=after[0]))] += len(after)
            yield Share(outcome=twice, row=row, columns=columns)
            if len(group) * len(after) > largest:
                largest, to_check = len(group) * len(after), (twice, cell(crash=group[-1], again=after[-1]))
    if largest > 1:
        stood_for, other = to_check
        checked = play(other, sender, disk)
        if not same_end(stood_for, checked):
            raise NotOne(f"these crash points should be one, and are not: {stood_for.cell} | {checked.cell}")
        yield Share(outcome=checked, row=row, columns={})


def play_block(
    block: Block,
    sender: WorldSender,
    disk: Disk,
    *,
    keep: int = 3,
    every: bool = False,
    library: Library | None = None,
) -> Played:
    """Play a block and add up what it came to. The first `keep` failures are kept whole.

    `library`: worlds that earlier blocks have played and that this one need not play again.
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
            for share in tidied(shares(block, sender, disk, planned, every=every, library=library)):
                count_in(played, share, keep)
                if share.played:
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


#: The worlds that this process has played.
_worlds = itertools.count(1)


def tidied(shares: Iterator[Share]) -> Iterator[Share]:
    """Clear up between worlds, now and then, not in the middle of them: each leaves a heap of rings behind.

    What is left then is kept for other blocks (`Library`), and more with each: looked through every time it would be nine
    tenths of a long run. So it is frozen, and where the collector was off before, as in a player, it stays so: counting
    what is frozen, and a collection at the end of each block, were a sixteenth of `single`. What somebody else had frozen
    before is not thawed.
    """
    was_on = gc.isenabled()
    thaws = was_on and not gc.get_freeze_count()
    gc.disable()
    try:
        for share in shares:
            yield share
            if share.played and next(_worlds) % TIDY_AFTER == 0:
                gc.collect()
                gc.freeze()
    finally:
        if was_on:
            gc.enable()
        if thaws:
            gc.unfreeze()
