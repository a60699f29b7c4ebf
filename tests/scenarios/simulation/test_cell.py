"""Tests of the cell: one story, always the same steps, and what is wrong is found."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scenarios import checks
from scenarios.simulation.behaviours import columns
from scenarios.simulation.cell import FREEZE, Cell, plan_of, play, setup_of
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID, PROFILES
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.shapes import SHAPES
from simulator.config import read_plan

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

Make = Callable[[str], tuple[ReferenceSender, Disk]]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    def make(profile: str) -> tuple[ReferenceSender, Disk]:
        folder = tmp_path / f"{profile}-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        disk = Disk(folder)
        return ReferenceSender(disk=disk, profile=BY_ID[profile]), disk

    return make


@pytest.mark.parametrize("profile", [each.id for each in PROFILES])
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_without_trouble_each_mail_is_accepted_once(made: Make, profile: str, shape: str) -> None:
    """The dry run of every profile and shape has nothing to find."""
    outcome = play(Cell(profile=profile, shape=shape), *made(profile))

    assert outcome.findings == []
    assert len(outcome.history.acceptances) == sum(len(owed.recipients) for owed in SHAPES[shape].owed)
    assert outcome.steps > 20


@pytest.mark.parametrize("profile", ["http-keys", "smtp-at-most-once"])
def test_the_same_cell_takes_the_same_steps(made: Make, profile: str) -> None:
    """Everything on the wire is the same, byte for byte and second for second."""
    cell = Cell(
        profile=profile,
        script=("taken, closed",),
        crash=CrashPoint("commit", "unreported", 2),
        shape="two mails, two workers",
    )
    sender, disk = made(profile)

    traces = {play(cell, sender, disk).trace for _ in range(4)}

    assert len(traces) == 1


_CHILD = """
import sys
from dataclasses import replace
from pathlib import Path
from scenarios.simulation.cell import Cell, play
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
disk = Disk(Path(sys.argv[1]))
cell = Cell(profile="http-keys", script=("taken, reset", "503"), crash=CrashPoint("step", "", 40))
print(play(cell, ReferenceSender(disk=disk, profile=BY_ID["http-keys"]), disk).trace)
"""


def test_the_trace_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    """Three processes with three hash seeds see the same world."""
    traces = set()
    for seed in ("0", "7", "random"):
        folder = tmp_path / seed
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(folder)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        traces.add(done.stdout)

    assert len(traces) == 1


def test_a_crash_point_that_is_not_reached_is_told(made: Make) -> None:
    """A cell that did not happen proves nothing, and says so."""
    outcome = play(Cell(profile="http-keys", crash=CrashPoint("sql", "before", 9_999)), *made("http-keys"))

    assert not outcome.reached


def test_an_application_that_dies_before_its_commit_owes_nothing(made: Make) -> None:
    """No row, no promise, no mail; one statement later there are all three."""
    sender, disk = made("http-keys")
    before = play(
        Cell(profile="http-keys", victim="application", crash=CrashPoint("commit", "lost", 1)), sender, disk
    )
    after = play(
        Cell(profile="http-keys", victim="application", crash=CrashPoint("commit", "unreported", 1)),
        sender,
        disk,
    )

    assert (before.findings, after.findings) == ([], [])
    assert len(before.history.acceptances) == 0
    assert len(after.history.acceptances) == 1


def test_a_provider_that_dies_behind_its_ledger_has_taken_the_mail(made: Make) -> None:
    """The sender sees a broken line; the key tells the restarted provider that it has the mail already."""
    outcome = play(
        Cell(profile="http-keys", victim="provider", crash=CrashPoint("ledger", "unreported", 1)),
        *made("http-keys"),
    )

    assert outcome.reached
    assert outcome.findings == []
    assert len(outcome.history.acceptances) == 1


@pytest.mark.parametrize("profile", [each.id for each in PROFILES])
def test_a_worker_that_sleeps_through_its_lease_does_no_harm(made: Make, profile: str) -> None:
    """Stopped in the middle, overtaken by another, and continued: its late words change nothing."""
    sender, disk = made(profile)
    outcomes = [
        play(Cell(profile=profile, crash=CrashPoint(FREEZE, "", count)), sender, disk)
        for count in range(6, 24, 3)
    ]

    assert [each.findings for each in outcomes] == [[]] * len(outcomes)
    assert all(each.reached for each in outcomes)
    # Where the provider is asked first, the other worker waits for what it says.
    overtaken = any("overtaken while frozen" in each.events for each in outcomes)
    assert overtaken or BY_ID[profile].variant.startswith("look-up")


@pytest.mark.parametrize("skew_s", [-25.0, 25.0])
def test_a_wrong_clock_does_no_harm(made: Make, skew_s: float) -> None:
    """The second worker believes that a lease ends most of a lease earlier, or later."""
    cell = Cell(
        profile="smtp-at-most-once", script=("taken late",), shape="two mails, two workers", skew_s=skew_s
    )

    assert play(cell, *made("smtp-at-most-once")).findings == []
    assert f"every other clock {skew_s:+g} s" in str(cell)


def test_whose_clock_is_ahead_is_not_asked_how_long_he_waited(made: Make) -> None:
    """He comes too early by the provider's clock, and in time by his own; the same sender with a right clock waits."""
    cell = Cell(
        profile="http-limited", script=("429 with retry-after",), shape="two mails, two workers", skew_s=25.0
    )
    ahead, right = (play(each, *made("http-limited")) for each in (cell, replace(cell, skew_s=0.0)))

    assert ahead.findings == right.findings == []
    assert checks.too_early(ahead.history, "user1.1@example.com") != []
    assert checks.too_early(right.history, "user1.1@example.com") == []


def test_a_goodbye_is_heard_when_a_worker_is_asked_to_stop(made: Make) -> None:
    """The rule about QUIT strikes, and changes nothing."""
    outcome = play(Cell(profile="smtp-at-most-once", script=("QUIT hangs",)), *made("smtp-at-most-once"))

    assert outcome.fired == ("1: QUIT hangs",)
    assert outcome.findings == []


def test_what_at_least_once_will_repeat_is_not_at_rest(made: Make) -> None:
    """Parked by a worker that dies over it, and repeated by the next one: the calm waits for that."""
    cell = Cell(
        profile="smtp-at-least-once",
        crash=CrashPoint("commit", "lost", 3),
        again=CrashPoint("commit", "lost", 4),
    )
    outcome = play(cell, *made("smtp-at-least-once"))

    assert outcome.reached
    assert outcome.findings == []
    assert "a second copy" in outcome.events


def test_a_sender_that_renews_its_key_is_found(made: Make) -> None:
    """The answer is lost, the second try brings another key, and the ledger has two copies."""
    sender, disk = made("http-keys")
    sender.parts = {"key_of": lambda parcel: f"{parcel.idempotency_key}-{parcel.attempts}"}

    outcome = play(Cell(profile="http-keys", script=("taken, hangs",)), sender, disk)

    assert {"duplicated", "identity changed"} <= {finding.kind for finding in outcome.findings}


def test_a_cell_says_what_it_is() -> None:
    """In a sentence for people, and in JSON that plays it again."""
    cell = Cell(profile="http-keys", script=("503", "taken, reset"), crash=CrashPoint("commit", "lost", 2))

    assert str(cell) == "http-keys · one mail · 503 → taken, reset · worker dies at commit lost #2"
    assert json.loads(json.dumps(cell.as_json()))["crash"] == {"kind": "commit", "name": "lost", "count": 2}


@pytest.mark.parametrize("profile", [each.id for each in BY_ID.values() if not each.hears])
def test_a_plan_put_together_is_the_plan_that_would_be_read(profile: str) -> None:
    """Of each behaviour in the first place and in the second, also of those that bring terms of their own."""
    names = columns(profile, BY_ID[profile].wire)

    for script in ((), *((name,) for name in names), *itertools.pairwise(names)):
        assert setup_of(profile, script) == read_plan(plan_of(BY_ID[profile], script), "the script")
