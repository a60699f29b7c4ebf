"""Tests of worlds that stand for many cells: the same count, the same ends, and a mistake in it would be seen."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scenarios.simulation.cell import Cell, Outcome, play
from scenarios.simulation.crashes import NotOne, same_future
from scenarios.simulation.matrix import Block
from scenarios.simulation.playing import Library, play_block
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.rest import Rest
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.sequences import Sequences

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def _cleared_up_afterwards() -> Iterator[None]:
    """As in a real run: the garbage of many worlds is not looked through in the middle of them."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


PAIRS = Block(
    profile="http-keys",
    script=(),
    shape="one mail",
    victim="worker",
    kinds=("commit",),
    then=(("taken, garbage", "taken, HTML"), ("500", "400")),
)
SMTP = replace(
    PAIRS, profile="smtp-at-most-once", then=(("greeting closed", "greeting 421"), ("dot closed",))
)
#: A plan that has nothing to say about a mail is still one that was met: the others have another second behaviour.
HEALTHY = replace(PAIRS, kinds=("commit", "reply"), then=(("ok", "503"), ("ok", "429", "taken, closed")))
HEALTHY_SMTP = replace(HEALTHY, profile="smtp-at-most-once", then=(("ok", "dot 451"), ("ok", "dot closed")))
TWICE = replace(PAIRS, kinds=("commit", "reply"), then=(("ok",),), twice=True)


def cast(block: Block, folder: Path) -> tuple[ReferenceSender, Disk]:
    disk = Disk(folder)
    return ReferenceSender(disk=disk, profile=BY_ID[block.profile]), disk


def stood_for(
    block: Block, sender: ReferenceSender, disk: Disk, patch: pytest.MonkeyPatch
) -> Iterator[tuple[Cell, Outcome]]:
    """Return each cell of a block with the world that stands for it."""
    found: list[tuple[Cell, Outcome]] = []
    real: Callable[..., Any] = Sequences._world

    def noting(self: Sequences, cell: Cell, group: Any, after: Any) -> Any:
        world, share = real(self, cell, group, after)
        for point in group.points if group is not None else (None,):
            for again in after.points if after is not None else (None,):
                found.append((replace(cell, crash=point, again=again), world.outcome))
        return world, share

    patch.setattr(Sequences, "_world", noting)
    # What is checked in the end is checked here in full.
    patch.setattr(Sequences, "_check", lambda self, world: None)
    played = play_block(block, sender, disk)
    assert len(found) == played.total
    return iter(found)


@pytest.mark.parametrize("block", [PAIRS, SMTP, HEALTHY, HEALTHY_SMTP, TWICE], ids=lambda block: block.id)
def test_every_cell_comes_to_the_end_of_the_world_that_stands_for_it(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cells are played by themselves, and what follows the crash is the same byte for byte."""
    sender, disk = cast(block, tmp_path)
    shared = list(stood_for(block, sender, disk, monkeypatch))
    assert len({id(outcome) for _, outcome in shared}) < len(shared)

    for cell, outcome in shared:
        assert same_future(play(cell, sender, disk), outcome), f"{cell} | {outcome.cell}"


@pytest.mark.parametrize(
    "unseen", [("clock", "outbox"), ("attempts", "keys", "ledger", "foretold")], ids=lambda names: names[0]
)
def test_a_rest_that_overlooks_something_is_seen(
    unseen: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever did not look there would take worlds for one that are not."""
    monkeypatch.setattr(Rest, "overlooks", frozenset(unseen))
    block = replace(PAIRS, then=(("500", "taken, 500"), ("ok",)))
    sender, disk = cast(block, tmp_path)

    assert any(
        not same_future(play(cell, sender, disk), outcome)
        for cell, outcome in stood_for(block, sender, disk, monkeypatch)
    )


def test_the_last_cell_that_a_world_stands_for_is_played_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A difference makes the block invalid."""
    monkeypatch.setattr("scenarios.simulation.sequences.same_end", lambda one, other: False)
    monkeypatch.setattr("scenarios.simulation.sequences.same_future", lambda one, other: False)
    sender, disk = cast(PAIRS, tmp_path)
    block = replace(PAIRS, kinds=(), then=(("400",), ("500", "503")))

    assert (play_block(block, sender, disk).error or "").startswith(NotOne.__name__)


def test_the_count_is_the_same_whether_worlds_are_shared_or_not(tmp_path: Path) -> None:
    """Covered is covered; and what an earlier block has played is not played again."""
    sender, disk = cast(PAIRS, tmp_path)
    library = Library()
    each = play_block(PAIRS, sender, disk, every=True)
    one = play_block(PAIRS, sender, disk, library=library)
    again = play_block(PAIRS, sender, disk, library=library)

    assert each.error is one.error is again.error is None
    assert each.total == each.cells == each.played == one.cells == again.cells
    assert again.played == 1 < one.played < each.played
    for row, columns in each.coverage.items():
        assert {column: counts["cells"] for column, counts in columns.items()} == {
            column: counts["cells"] for column, counts in one.coverage[row].items()
        }


def test_triples_are_played_without_bytes(tmp_path: Path) -> None:
    """Nobody dies in them; who comes to an end at once has no third attempt."""
    block = replace(
        PAIRS, kinds=(), then=(("400",), ("503", "500"), ("taken, closed", "400")), has_bytes=False
    )
    played = play_block(block, *cast(block, tmp_path))

    assert (played.total, played.cells, played.played, played.error) == (4, 4, 2, None)
    assert list(played.coverage["400"]) == ["sequence of 3 (without bytes)"]
