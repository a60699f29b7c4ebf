"""The sender that hears: clean in every storm, wherever its intake dies, and they are real storms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reference_sender.life import State
from scenarios.simulation.cell import FREEZE, Cell
from scenarios.simulation.crashes import classes, points, same_end
from scenarios.simulation.intake import ListeningSender, play, sweep
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, Owed
from scenarios.simulation.shapes import COMPLAINT, FATED
from scenarios.simulation.storms import FATES, INTAKE_HOST, STORMS, Storm, plan_of
from scenarios.simulation.world import World, silence
from simulator.config import read_plan
from simulator.provider.obligations import Reported

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with silence():
        yield


def sender(folder: Path, profile: str) -> ListeningSender:
    return ListeningSender(disk=Disk(folder), profile=BY_ID[profile])


def cell(profile: str, storm: str, **more: Any) -> Cell:
    return Cell(profile=profile, script=(storm,), shape=FATED.name, victim="intake", **more)


@pytest.mark.parametrize("storm", STORMS, ids=lambda storm: storm.name)
def test_in_every_storm_nothing_is_wrong_and_everything_strikes(storm: Storm, tmp_path: Path) -> None:
    listener = sender(tmp_path, "http-hearing")
    played = play(cell("http-hearing", storm.name), listener, listener.disk)
    assert [(each.kind, each.sentence) for each in played.findings] == []
    assert {f"{n}: {storm.name}" for n in range(1, len(storm.rules) + 1)} <= set(played.fired)
    assert {each.kind for each in played.told} >= {"queued", "delivered", "hard_bounce", "complaint"}


def test_a_sweep_is_a_cell_and_one_for_each_crash(tmp_path: Path) -> None:
    """A sample here; the whole is `python -m scenarios storms`."""
    listener = sender(tmp_path, "http-hearing")
    went = list(
        sweep(cell("http-hearing", "in batches"), listener, listener.disk, ("commit", "step"), every=23)
    )
    assert [(str(each.cell), finding.sentence) for each in went for finding in each.findings] == []
    assert [each.cell.crash for each in went][1:] == points(went[0], ("commit", "step"))[::23]
    assert len(went) > 4
    assert all(each.reached for each in went)


@pytest.mark.parametrize(
    "more",
    [
        {"victim": "worker", "crash": CrashPoint("commit", "lost", 3)},
        {"crash": CrashPoint(FREEZE, "", 30)},
        {"crash": CrashPoint("commit", "lost", 3), "again": CrashPoint("commit", "unreported", 4)},
    ],
    ids=["the worker", "stopped for a while", "twice"],
)
def test_somebody_else_may_die_or_somebody_for_a_while_or_twice(more: dict[str, Any], tmp_path: Path) -> None:
    listener = sender(tmp_path, "smtp-hearing")
    whole = replace(cell("smtp-hearing", "the answer is lost and the event is not"), **more)
    played = play(whole, listener, listener.disk)
    assert (played.findings, played.reached) == ([], True)
    assert "a doubt was settled by an event" in played.events


def test_crash_points_of_an_intake_that_are_one_come_to_one_end(tmp_path: Path) -> None:
    """Whatever it leaves behind goes through its database and its connections."""
    listener = sender(tmp_path, "http-hearing")
    whole = replace(cell("http-hearing", "before the answer"), shape=COMPLAINT.name)
    seen = play(whole, listener, listener.disk, moments=True)
    groups = sorted(classes(seen, ("step", "sql", "commit")), key=len)[-3:]
    assert len(groups[0]) > 1
    for group in groups:
        first, *others = (
            play(replace(whole, crash=point), listener, listener.disk) for point in (group[0], group[-1])
        )
        assert all(same_end(first, each) for each in others), group


def test_a_mail_whose_answer_was_lost_is_settled_by_its_event(tmp_path: Path) -> None:
    """Over SMTP, where nobody can be asked: without the event a person would have to look."""
    listener = sender(tmp_path, "smtp-hearing")
    play(cell("smtp-hearing", "the answer is lost and the event is not"), listener, listener.disk)
    assert set(listener.mind().states.values()) == {Reported.ACCEPTED}
    moved = listener.settled_by_events()
    listener.disk.look_away()
    assert moved == 4
    assert State.ACCEPTED.value == Reported.ACCEPTED.value


def test_the_same_storm_is_the_same_to_the_byte(tmp_path: Path) -> None:
    listener = sender(tmp_path, "http-hearing")
    dies = cell("http-hearing", "everything", crash=CrashPoint("commit", "unreported", 4))
    first, second = (play(dies, listener, listener.disk) for _ in range(2))
    assert first.trace == second.trace
    assert first.reached


def test_bounces_and_complaints_that_come_back_by_mail_are_heard(tmp_path: Path) -> None:
    """Over SMTP there may be no webhooks at all: the provider's reports go to the sender's own door for mail."""
    profile = BY_ID["smtp-at-most-once"]
    disk = Disk(tmp_path)
    listener = ListeningSender(
        disk=disk,
        profile=profile,
        intake_options={"listen": None, "bounces": f"smtp:{INTAKE_HOST}:2525", "patience_s": 60.0},
    )
    listener.prepare()
    plan = plan_of(profile, ()) | {"returns": {"smtp": f"{INTAKE_HOST}:2525"}}
    del plan["webhooks"]
    with World(seed=1, setup=read_plan(plan, "test")) as world:

        async def story() -> None:
            for number, who in enumerate(FATES, 1):
                owed = Owed(ref=f"order-{number}", recipients=(f"{who}.{number}@example.com",))
                world.process("application").run(listener.enqueue, world, owed)
            await world.start_provider()
            world.process("intake").spawn(listener.hear, world)
            world.process("worker").spawn(listener.work, world)
            await world.until(lambda: len(listener.mind().facts) == 3, within_s=300.0)

        world.run(story)
        mind = listener.mind()
        disk.look_away()
        assert world.complaints == []
    assert mind.standing == {
        "bob.2@example.com": "hard_bounce",
        "cyd.3@example.com": "soft_bounce",
        "eve.4@example.com": "complaint",
    }
    assert mind.suppressed == {"bob.2@example.com", "eve.4@example.com"}
