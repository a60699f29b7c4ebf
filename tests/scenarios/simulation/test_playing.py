"""Tests of playing a block: complete, countable, and the same whoever plays it."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reference_sender.worker import frozen_key
from scenarios.simulation import playing
from scenarios.simulation.cell import FREEZE, Cell, Outcome, play
from scenarios.simulation.crashes import Share, classes, points, same_end
from scenarios.simulation.loop import OWNER, VirtualLoop
from scenarios.simulation.matrix import Block
from scenarios.simulation.playing import TIDY_AFTER, cells, may_be_classed, play_block, tidied
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender

#: The killed leave their sessions and coroutines behind, and say so whenever the garbage collector meets them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _cleared_up_afterwards() -> Iterator[None]:
    """As in a real run: the garbage of many worlds is not looked through in the middle of them."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


BLOCK = Block(
    profile="http-keys", script=("taken, closed",), shape="one mail", victim="worker", kinds=("commit",)
)


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


@pytest.mark.parametrize("script", [("500",), ("request hangs",), ("ok",)])
def test_a_worker_can_be_stopped_at_the_last_step_of_a_dry_run(
    tmp_path: Path, script: tuple[str, ...]
) -> None:
    """Whoever waits for it to stop looks more often than a dry run does, and the story must not end any sooner."""
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID["http-keys-forgotten"])
    cell = Cell(profile="http-keys-forgotten", script=script)
    steps = points(play(cell, sender, disk), (FREEZE,))

    assert play(replace(cell, crash=steps[-1]), sender, disk).reached


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


ALL = ("step", "sql", "commit", "point", "reply")
#: Both wires, several behaviours and shapes, each victim; small enough to play every point.
TRIED = (
    replace(BLOCK, script=("ok",), kinds=ALL),
    replace(BLOCK, profile="smtp-at-most-once", kinds=("commit", "reply", "point")),
    replace(
        BLOCK, profile="smtp-at-least-once", script=("dot 451", "taken, hangs"), kinds=("commit", "reply")
    ),
    replace(BLOCK, profile="http-lookup-lagging", script=("taken, reset",), kinds=("commit", "point")),
    replace(BLOCK, script=("503",), shape="two mails, two workers", kinds=("commit", "point")),
    replace(BLOCK, profile="http-keys-forgotten", shape="three recipients", kinds=("commit", "reply")),
    replace(BLOCK, script=("400",), victim="provider", kinds=("ledger", "step")),
    replace(
        BLOCK,
        profile="smtp-at-most-once",
        script=("dot closed",),
        victim="provider",
        kinds=("ledger", "step"),
    ),
    replace(BLOCK, script=("ok",), victim="application", kinds=("sql", "commit")),
)


def groups_of(block: Block, folder: Path) -> Iterator[tuple[int, list[str]]]:
    """Play every point of a block, group by group: how many it has, and which of them come to another end."""
    disk = Disk(folder)
    sender = ReferenceSender(disk=disk, profile=BY_ID[block.profile])
    cell = Cell(profile=block.profile, script=block.script, shape=block.shape, victim=block.victim)
    for group in classes(play(cell, sender, disk, moments=True), block.kinds):
        first, *others = [play(replace(cell, crash=point), sender, disk) for point in group]
        yield len(group), [f"{first.cell} | {each.cell}" for each in others if not same_end(first, each)]


@pytest.mark.parametrize("block", TRIED, ids=lambda block: block.id)
def test_crash_points_that_are_one_come_to_one_end(block: Block, tmp_path: Path) -> None:
    """The same bytes at the same times, the same verdict: played one by one, all of them."""
    sizes, untrue = zip(*groups_of(block, tmp_path), strict=True)

    assert [each for each in untrue if each] == []
    assert max(sizes) > 1
    assert len(sizes) > 1


@pytest.mark.parametrize(
    ("overlooked", "block"),
    [
        (lambda by, loop: by == "_pump", TRIED[0]),
        (lambda by, loop: by == "_run_once" or OWNER.get() is not loop.victim, TRIED[0]),
        (lambda by, loop: by == "_changed", TRIED[1]),
        (
            lambda by, loop: by in ("write", "carry", "close", "_shut", "_hand_over"),
            replace(BLOCK, shape="three recipients", kinds=("step",)),
        ),
        (lambda by, loop: by == "append", replace(TRIED[6], script=("ok",))),
    ],
    ids=["what is read", "what others do", "commits", "what is written", "the ledger"],
)
def test_groups_that_are_too_coarse_are_seen(
    overlooked: Callable[[str, VirtualLoop], bool],
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the counter overlooks, by the function that counts it, playing the points one by one shows it."""
    count = {"outside": 0}

    def counted(loop: VirtualLoop, number: int) -> None:
        if not hasattr(loop, "victim") or not overlooked(sys._getframe(1).f_code.co_name, loop):
            count["outside"] = number

    monkeypatch.setattr(
        VirtualLoop, "outside", property(lambda loop: count["outside"], counted), raising=False
    )

    assert any(untrue for _, untrue in groups_of(block, tmp_path))


def test_a_group_that_is_none_makes_the_block_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each block the largest group is checked by its last member: a wrong one is no quiet green."""
    monkeypatch.setattr(
        VirtualLoop, "outside", property(lambda loop: 0, lambda loop, number: None), raising=False
    )
    disk = Disk(tmp_path)
    played = play_block(BLOCK, ReferenceSender(disk=disk, profile=BY_ID["http-keys"]), disk)

    assert played.error is not None
    assert played.error.startswith("NotOne: these crash points should be one, and are not: http-keys")


@pytest.mark.parametrize("twice", [False, True])
def test_the_count_is_the_same_whether_one_is_played_or_each(twice: bool, tmp_path: Path) -> None:
    """Covered is covered; how many worlds that took is another number."""
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID["http-keys"])
    block = replace(
        BLOCK, script=("ok",), twice=twice, kinds=("commit", "reply") if twice else ("commit", "sql")
    )
    one = play_block(block, sender, disk)
    each = play_block(block, sender, disk, every=True)

    assert (one.total, one.cells, one.error) == (each.total, each.cells, None)
    assert one.played < each.played == each.cells
    assert set(one.events) == set(each.events)
    for column, counts in each.coverage["ok"].items():
        assert counts | {"played": 0} == one.coverage["ok"][column] | {"played": 0}
    squares = [counts["played"] for counts in one.coverage["ok"].values()]
    assert sum(squares) == one.played


def test_of_a_sender_that_we_do_not_know_every_point_is_played(tmp_path: Path) -> None:
    """It may leave something where the world does not look."""
    disk = Disk(tmp_path)
    known = ReferenceSender(disk=disk, profile=BY_ID["http-keys"])
    changed = ReferenceSender(disk=disk, profile=BY_ID["http-keys"], parts={"key_of": frozen_key})

    assert may_be_classed(known)
    assert not may_be_classed(changed)
    played = play_block(BLOCK, changed, disk)
    assert played.played == played.cells


def test_a_sequence_is_one_cell_for_each_end(tmp_path: Path) -> None:
    """Triples are played without a crash."""
    disk = Disk(tmp_path)
    block = replace(BLOCK, script=("503", "taken, closed"), kinds=(), then=(("500", "429 with retry-after"),))
    played = play_block(block, ReferenceSender(disk=disk, profile=BY_ID["http-keys"]), disk)

    assert (played.total, played.cells, played.failed) == (2, 2, 0)
    assert list(played.coverage["503"]) == ["sequence of 3"]


_CHILD = """
import sys, tempfile
from pathlib import Path
from scenarios.simulation.matrix import Block
from scenarios.simulation.playing import play_block
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.world import silence
silence().__enter__()
for profile, shape in (
    ("http-keys", "one mail"), ("smtp-at-most-once", "one mail"), ("http-keys", "three recipients")
):
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder))
        sender = ReferenceSender(disk=disk, profile=BY_ID[profile])
        kinds = ("commit",) if shape == "one mail" else ()
        block = Block(profile=profile, script=("taken, closed",), shape=shape, victim="worker", kinds=kinds)
        print(profile, {play_block(block, sender, disk).trace for _ in range(int(sys.argv[1]))})
"""


@pytest.mark.parametrize("runs", [(2, 2, 1), pytest.param((7, 7, 6), marks=pytest.mark.long)], ids=sum)
def test_a_block_of_each_wire_leaves_the_same_trace_in_many_runs_over_three_hash_seeds(
    runs: tuple[int, int, int],
) -> None:
    """Everything on the wire of every cell, byte for byte and second for second; also of three mails at once."""
    said = set()
    for seed, number in zip(("0", "7", "random"), runs, strict=True):
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(number)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)

    assert len(said) == 1
    assert said.pop().count("'") == 6, "one hash for each block"


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


@pytest.fixture
def _thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    # Of all tests, so that those behind this one need not go through them.
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("_thawed")
@pytest.mark.parametrize(
    ("is_a_player", "has_frozen"),
    [(False, False), (False, True), (True, True)],
    ids=["nobody", "somebody", "a player"],
)
def test_rubbish_goes_and_what_is_kept_is_not_looked_through_again(
    is_a_player: bool, has_frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that plays blocks for all its life has no collector that comes by itself; whoever else plays one is left as he was."""
    share = Share(outcome=Outcome(cell=Cell(profile="http-keys")), columns={})
    monkeypatch.setattr(playing, "_worlds", itertools.count(1))
    gc.collect()
    if has_frozen:
        gc.freeze()
    if not is_a_player:
        gc.enable()
    before = gc.get_freeze_count()
    kept: list[list[object]] = []
    gone: list[weakref.ref[object]] = []

    class Ring:
        def __init__(self) -> None:
            self.me = self
            gone.append(weakref.ref(self))

    def shares() -> Iterator[Share]:
        for _ in range(2 * TIDY_AFTER + 1):
            kept.append([object()])
            Ring()
            yield share

    for _ in tidied(shares()):
        pass

    assert [each() is None for each in gone] == [True] * 2 * TIDY_AFTER + [False]
    assert (gc.get_freeze_count() - before > TIDY_AFTER) is has_frozen
    assert (gc.get_freeze_count() > 0) is has_frozen
    assert gc.isenabled() is not is_a_player
