"""Tests of shrinking: the same finding, with as little around it as can be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.simulation.cell import Cell
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.replay import cell_from, shrunk
from scenarios.simulation.schedule import Schedule, Step
from scenarios.simulation.senders import Disk
from scenarios.simulation.shrink import smaller_cells, smaller_schedules, smallest
from tests.scenarios.simulation import planted

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


def test_the_smallest_is_found_and_the_plays_are_bounded() -> None:
    """Greedy, in the order of the candidates; when the plays are spent, the best so far is the answer."""
    asked: list[int] = []

    def fails(case: int) -> bool:
        asked.append(case)
        return case >= 7

    def smaller(case: int) -> Iterator[int]:
        yield case // 2
        yield case - 1

    assert smallest(100, smaller, fails) == 7
    assert len(asked) == len(set(asked))
    assert smallest(100, smaller, lambda case: case >= 7, plays=3) == 12


def test_a_cell_loses_what_it_does_not_need(tmp_path: Path) -> None:
    """Two faults, two mails, two workers and a crash: one fault alone does it."""
    disk = Disk(tmp_path)
    cell = Cell(
        profile="http-keys",
        script=("503", "taken, truncated"),
        shape="two mails, two workers",
        crash=CrashPoint("commit", "unreported", 3),
    )

    small = shrunk(cell, planted.renews_keys(disk, BY_ID["http-keys"]), disk)

    assert isinstance(small, Cell)
    assert (small.crash, small.shape, len(small.script)) == (None, "one mail", 1)
    assert small.script[0].startswith("taken")


def test_who_is_only_in_a_campaign_does_not_die_without_one() -> None:
    """Else what is left could not be played again from its file."""
    campaign = Cell(profile="http-keys", script=("ok",), shape="a campaign, paused", victim="person")

    plain = {each.victim for each in smaller_cells(campaign) if each.shape == "one mail"}

    assert plain == {"worker"}
    for each in (campaign, *smaller_cells(campaign)):
        assert cell_from(each.as_json()) == each
    with pytest.raises(ValueError, match="victim is 'person'; right would be one of worker"):
        cell_from(campaign.as_json() | {"shape": "one mail"})


def test_a_crash_moves_to_the_earliest_point_that_does_it(tmp_path: Path) -> None:
    """Without the marker a crash behind the final dot is enough; the first such step is named."""
    disk = Disk(tmp_path)
    sender = planted.unmarked(disk, BY_ID["smtp-at-most-once"])
    cell = Cell(profile="smtp-at-most-once", script=("dot 451",), crash=CrashPoint("commit", "lost", 4))

    small = shrunk(cell, sender, disk)

    assert isinstance(small, Cell)
    assert (small.script, small.crash) == ((), CrashPoint("commit", "lost", 2))


def test_a_schedule_loses_what_it_does_not_need(tmp_path: Path) -> None:
    """Of eight steps three are left: the fault, the mail, and time for the second attempt – or fewer."""
    disk = Disk(tmp_path)
    schedule = Schedule(
        profile="http-keys",
        steps=(
            Step(do="roll_back", number=5),
            Step(do="start_worker", seconds=5.0),
            Step(do="plan", name="taken, truncated"),
            Step(do="enqueue", number=4),
            Step(do="thaw"),
            Step(do="enqueue", number=3),
            Step(do="wait", seconds=90.0),
            Step(do="kill", number=2),
        ),
    )

    small = shrunk(schedule, planted.renews_keys(disk, BY_ID["http-keys"]), disk)

    assert isinstance(small, Schedule)
    assert len(small.steps) <= 3
    assert {step.do for step in small.steps} >= {"plan", "enqueue"}
    assert next(step for step in small.steps if step.do == "enqueue").number == 1


def test_a_mail_of_a_sort_becomes_a_plain_one_where_that_is_enough(tmp_path: Path) -> None:
    """Before it becomes another mail of that sort; also one that was never committed."""
    disk = Disk(tmp_path)
    steps = (
        Step(do="plan", name="taken, truncated"),
        Step(do="enqueue", number=1, name="expires", seconds=600.0),
        Step(do="wait", seconds=90.0),
    )
    sender = planted.renews_keys(disk, BY_ID["http-keys"])

    small = shrunk(Schedule(profile="http-keys", steps=steps), sender, disk, plays=60)

    assert isinstance(small, Schedule)
    assert [step for step in small.steps if step.do == "enqueue"] == [Step(do="enqueue", number=1)]
    undone = Schedule(profile="http-keys", steps=(Step(do="roll_back", number=5, name="a code"),))
    plain = Schedule(profile="http-keys", steps=(Step(do="roll_back", number=5),))
    assert list(smaller_schedules(undone))[1] == plain  # behind the one without it


def test_every_smaller_case_is_smaller() -> None:
    """Or shrinking would go round in circles."""
    cell = Cell(profile="http-keys", script=("503", "500"), crash=CrashPoint("step", "", 3), seed=1)
    schedule = Schedule(
        profile="http-keys", steps=(Step(do="wait", seconds=90.0), Step(do="doom", name="step", count=9))
    )

    assert cell not in set(smaller_cells(cell))
    assert schedule not in set(smaller_schedules(schedule))
    assert Schedule(profile="http-keys") in set(smaller_schedules(schedule))
