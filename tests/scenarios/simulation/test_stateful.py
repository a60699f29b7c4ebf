"""Tests of the state machines: the same dice play the same schedules, and planted bugs are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.simulation.behaviours import LOOKED_UP, LOOKS
from scenarios.simulation.machine import perform
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.stateful import Machine, search
from scenarios.simulation.zoo.visit import ALL
from tests.scenarios.simulation import planted

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.mark.parametrize(
    ("profile", "make", "kinds"),
    [
        ("http-keys", planted.renews_keys, {"duplicated", "identity changed"}),
        ("http-lookup-lagging", planted.unmarked, {"duplicated"}),
        ("smtp-at-most-once", planted.unmarked, {"duplicated"}),
        ("smtp-at-most-once", planted.unfenced, {"illegal move", "duplicated"}),
    ],
)
def test_a_planted_bug_is_found_within_the_budget(
    tmp_path: Path, profile: str, make: Callable[[Disk, Profile], ReferenceSender], kinds: set[str]
) -> None:
    """A machine that finds nothing would be green for ever.

    Which schedules a die makes is chance, and some dice find nothing: the budget is that of a few test commands.
    """
    disk = Disk(tmp_path)

    for dice in range(1, 7):
        found = search(profile, make(disk, BY_ID[profile]), disk, examples=40, dice=dice)
        if found.broken is not None:
            break

    assert found.broken is not None
    assert found.broken.findings[0].kind in kinds
    assert found.tried <= 45


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("order by enqueue", "http-keys"),
        ("welcome before verification", "http-keys"),
        ("sends old codes", "smtp-at-most-once"),
        ("suppression at enqueue only", "smtp-at-most-once"),
        ("sends what is over", "smtp-at-most-once"),
        ("first come, first served", "http-limited"),
    ],
)
def test_who_forgets_what_was_said_of_a_mail_is_found(tmp_path: Path, name: str, profile: str) -> None:
    """Machines make mails of every sort, often enough for each sin to show, as what it is.

    Who minds no priorities under limits is found by few dice, the seventh among them.
    """
    (bad,) = (each for each in ALL if each.name == name)
    disk = Disk(tmp_path)

    for dice in range(1, 13):
        found = search(profile, bad.made(disk, profile), disk, examples=40, dice=dice)
        if found.broken is not None:
            break

    assert found.broken is not None
    assert {each.kind for each in found.broken.findings} == {bad.kind}


@pytest.mark.parametrize("name", ["a failed look-up is a no", "a failed look-up is a yes", "asks once"])
def test_who_misreads_a_look_up_is_found(tmp_path: Path, name: str) -> None:
    """Machines give trouble to whoever asks, and a reason to ask."""
    (bad,) = (each for each in ALL if each.name == name)
    disk = Disk(tmp_path)

    for dice in range(1, 7):
        found = search(LOOKS, bad.made(disk, LOOKS), disk, examples=40, dice=dice)
        if found.broken is not None:
            break

    assert found.broken is not None
    assert bad.kind in {each.kind for each in found.broken.findings}


def test_machines_know_of_no_look_up_that_lies_for_longer_than_it_may() -> None:
    """They come to ask at any time: only cells know that whoever asks first asks early."""
    brief = {each.name for each in LOOKED_UP if each.is_brief}
    with_looks: type[Machine] = type("Looking", (Machine,), {"profile": BY_ID[LOOKS]})

    machine: Machine = Machine.__new__(with_looks)

    assert brief
    assert {each.name for each in LOOKED_UP} - brief <= set(machine._terms())
    assert not brief & set(machine._columns())


def test_the_schedule_of_a_finding_needs_no_hypothesis(tmp_path: Path) -> None:
    """What a machine found is a list of steps, and the same again without it."""
    disk = Disk(tmp_path)
    sender = planted.renews_keys(disk, BY_ID["http-keys"])
    first, second = (search("http-keys", sender, disk, examples=20, dice=3) for _ in range(2))
    assert first.broken is not None
    assert second.broken is not None

    findings, _ = perform(first.broken.schedule, sender, disk)

    assert first.broken.schedule == second.broken.schedule
    assert findings == first.broken.findings


_CHOSEN = """
import sys
from scenarios.simulation.stateful import Machine, search

class Paper:
    def __init__(self, *_):
        self.steps = []
    def __enter__(self):
        return self
    def __exit__(self, *_):
        print(*self.steps)
    def take(self, step):
        self.steps.append(step)
        return []
    def end(self):
        return []

class Writing(Machine):
    run = Paper

sys.path.append(sys.argv[1])
if sys.argv[2]:
    __import__(sys.argv[2])
for dice in range(1, 7):
    search("http-keys", None, None, examples=40, kind=Writing, dice=dice)
"""


def test_the_same_dice_choose_the_same_whatever_else_is_imported(tmp_path: Path) -> None:
    """Whether other tests ran before in the process, and which: Hypothesis draws numbers that it reads in modules."""
    (tmp_path / "full_of_numbers.py").write_text(f"NUMBERS = {[*range(100, 255)]}")

    alone, beside = (
        subprocess.run(
            [sys.executable, "-c", _CHOSEN, str(tmp_path), each],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number, each in enumerate(("", "full_of_numbers"), start=1)
    )

    assert len(alone.splitlines()) >= 240
    assert alone == beside
