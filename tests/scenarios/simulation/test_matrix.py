"""Tests of the matrix: complete, countable, and the same whoever plays it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.simulation.behaviours import BY_WIRE
from scenarios.simulation.matrix import (
    Block,
    Played,
    Size,
    as_line,
    blocks,
    cells,
    from_line,
    play_block,
    points,
    run,
)
from scenarios.simulation.profiles import BY_ID, PROFILES
from scenarios.simulation.senders import Disk, ReferenceSender

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

BLOCK = Block(
    profile="http-keys", script=("taken, closed",), shape="one mail", victim="worker", kinds=("commit",)
)


@pytest.mark.parametrize("size", list(Size))
def test_every_behaviour_of_every_profile_is_played(size: Size) -> None:
    """No column is left out, in no size."""
    played = {(block.profile, block.script) for block in blocks(size)}

    assert {(each.id, (name,)) for each in PROFILES for name in BY_WIRE[each.wire]} <= played


def test_blocks_have_ids_of_their_own() -> None:
    """An id is what a run is taken up by."""
    todo = blocks(Size.FULL)

    assert len({block.id for block in todo}) == len(todo)


def test_a_block_plays_each_point_of_its_dry_run(tmp_path: Path) -> None:
    """As many cells as there are points, and one more without a crash."""
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID["http-keys"])
    outcomes = list(cells(BLOCK, sender, disk))
    dry = outcomes[0]

    assert dry.cell.crash is None
    assert [each.cell.crash for each in outcomes[1:]] == points(dry, BLOCK.kinds)
    assert len(outcomes) > 4
    assert all(each.reached for each in outcomes)


def test_the_same_blocks_come_to_the_same_in_other_processes(tmp_path: Path) -> None:
    """Who plays a block does not matter: the hash over all its traces is the same."""
    disk = Disk(tmp_path)
    here = play_block(BLOCK, ReferenceSender(disk=disk, profile=BY_ID["http-keys"]), disk)
    (there,) = run([BLOCK], jobs=1)

    assert here.trace == there.trace
    assert (here.cells, here.failed, here.fired) == (there.cells, 0, there.fired)


def test_every_kind_of_crash_point_is_met(tmp_path: Path) -> None:
    """Steps, statements, commits, named points, answers, and stopping: each cell stands in one square."""
    disk = Disk(tmp_path)
    kinds = ("sql", "commit", "point", "reply")
    block = replace(BLOCK, kinds=kinds)
    played = play_block(block, ReferenceSender(disk=disk, profile=BY_ID["http-keys"]), disk)
    row = played.coverage["taken, closed"]

    assert set(row) == {"no crash", *(f"worker: {kind}" for kind in kinds)}
    assert sum(each["cells"] for each in row.values()) == played.cells == played.total
    assert (played.failed, played.not_reached, played.error) == (0, 0, None)


def test_a_sequence_is_one_cell_for_each_end(tmp_path: Path) -> None:
    """Triples are played without a crash."""
    disk = Disk(tmp_path)
    block = replace(BLOCK, script=("503", "taken, closed"), kinds=(), then=("500", "429 with retry-after"))
    played = play_block(block, ReferenceSender(disk=disk, profile=BY_ID["http-keys"]), disk)

    assert (played.total, played.cells, played.failed) == (2, 2, 0)
    assert list(played.coverage["503"]) == ["sequence of 3"]


_CHILD = """
import sys, tempfile
from pathlib import Path
from scenarios.simulation.matrix import Block, play_block
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.world import silence
silence().__enter__()
for profile in ("http-keys", "smtp-at-most-once"):
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder))
        sender = ReferenceSender(disk=disk, profile=BY_ID[profile])
        block = Block(
            profile=profile, script=("taken, closed",), shape="one mail", victim="worker", kinds=("commit",)
        )
        print(profile, {play_block(block, sender, disk).trace for _ in range(int(sys.argv[1]))})
"""


def test_a_block_of_each_wire_leaves_the_same_trace_in_twenty_runs_over_three_hash_seeds() -> None:
    """Everything on the wire of every cell, byte for byte and second for second."""
    said = set()
    for seed, runs in (("0", 7), ("7", 7), ("random", 6)):
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(runs)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)

    assert len(said) == 1
    assert said.pop().count("'") == 4, "one hash for each wire"


def test_a_failure_can_be_played_again(tmp_path: Path) -> None:
    """What is kept of a failing cell is all that decides it."""
    disk = Disk(tmp_path)
    sender = ReferenceSender(
        disk=disk,
        profile=BY_ID["http-keys"],
        parts={"key_of": lambda parcel: f"{parcel.idempotency_key}-{parcel.attempts}"},
    )

    played = play_block(BLOCK, sender, disk, keep=1)

    assert played.failed >= 1
    assert len(played.failures) == 1
    assert played.failures[0].cell["script"] == ["taken, closed"]
    assert any(finding["kind"] == "duplicated" for finding in played.failures[0].findings)


def test_a_line_of_the_journal_is_read_back() -> None:
    """A run that was interrupted knows what it has done."""
    counts = {"cells": 3, "failed": 0, "not_reached": 1}
    played = Played(
        block="b", profile="p", total=3, cells=3, coverage={"503": {"worker: sql": counts}}, trace="abc"
    )

    assert from_line(as_line(played)) == played
