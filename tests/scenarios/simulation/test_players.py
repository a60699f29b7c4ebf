"""Tests of the players: it does not matter who plays a block."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.simulation.matrix import Block
from scenarios.simulation.players import run
from scenarios.simulation.playing import play_block
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

BLOCK = Block(
    profile="http-keys", script=("taken, closed",), shape="one mail", victim="worker", kinds=("commit",)
)


def test_the_same_blocks_come_to_the_same_in_other_processes(tmp_path: Path) -> None:
    """Who plays a block does not matter: the hash over all its traces is the same."""
    disk = Disk(tmp_path)
    here = play_block(BLOCK, ReferenceSender(disk=disk, profile=BY_ID["http-keys"]), disk)
    (there,) = run([BLOCK], jobs=1)

    assert here.trace == there.trace
    assert (here.cells, here.failed, here.fired) == (there.cells, 0, there.fired)


def test_every_block_is_told_of_when_it_is_done() -> None:
    """Each once, by several players; and whether each crash point is played is passed on to them."""
    todo = [BLOCK, replace(BLOCK, script=("503",))]
    told: list[str] = []
    done = run(todo, jobs=2, each=lambda played: told.append(played.block), every=True)

    assert sorted(told) == sorted(block.id for block in todo)
    assert sorted(each.block for each in done) == sorted(told)
    assert all(each.played == each.cells > 3 for each in done)
