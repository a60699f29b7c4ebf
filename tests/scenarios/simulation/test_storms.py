"""Webhook storms: the reference sender is clean in each of them, wherever its intake dies, and they are real storms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reference_sender.life import State
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, Owed
from scenarios.simulation.storms import (
    BY_NAME,
    FATES,
    INTAKE_HOST,
    STORMS,
    ListeningSender,
    Storm,
    plan_of,
    play,
    points,
    sweep,
)
from scenarios.simulation.world import World, silence
from simulator.config import read_plan
from simulator.provider.obligations import Reported

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with silence():
        yield


def sender(folder: Path, storm: Storm) -> ListeningSender:
    return ListeningSender(disk=Disk(folder), profile=BY_ID[storm.profile])


@pytest.mark.parametrize("storm", STORMS, ids=lambda storm: storm.name)
def test_in_every_storm_nothing_is_wrong_and_everything_strikes(storm: Storm, tmp_path: Path) -> None:
    listener = sender(tmp_path, storm)
    played = play(storm, listener, listener.disk)
    assert [(each.kind, each.sentence) for each in played.findings] == []
    assert {f"{n}: {storm.name}" for n in range(1, len(storm.rules) + 1)} <= played.fired
    assert {each.kind for each in played.told} >= {"queued", "delivered", "hard_bounce", "complaint"}


@pytest.mark.parametrize(
    ("name", "kind", "every"),
    [
        ("nothing wrong", "commit", 7),
        ("everything", "commit", 17),
        ("in batches", "step", 19),
        ("the answer is lost and the event is not", "commit", 29),
    ],
)
def test_wherever_the_intake_dies_nothing_is_wrong(name: str, kind: str, every: int, tmp_path: Path) -> None:
    """A sample here; the whole sweep is `python -m scenarios storms`."""
    storm = BY_NAME[name]
    listener = sender(tmp_path, storm)
    went = list(sweep(storm, listener, listener.disk, (kind,), every=every))
    assert [(str(each), finding.sentence) for each in went for finding in each.findings] == []
    assert len(went) > 4
    assert all(each.reached for each in went)


def test_a_mail_whose_answer_was_lost_is_settled_by_its_event(tmp_path: Path) -> None:
    """Over SMTP, where nobody can be asked: without the event a person would have to look."""
    storm = BY_NAME["the answer is lost and the event is not"]
    listener = sender(tmp_path, storm)
    play(storm, listener, listener.disk)
    assert set(listener.mind().states.values()) == {Reported.ACCEPTED}
    moved = listener.disk.rows("SELECT reason FROM email_attempt WHERE reason LIKE 'events: %'")
    listener.disk.look_away()
    assert len(moved) == 4
    assert State.ACCEPTED.value == Reported.ACCEPTED.value


def test_the_same_storm_is_the_same_to_the_byte(tmp_path: Path) -> None:
    storm = BY_NAME["everything"]
    listener = sender(tmp_path, storm)
    crash = CrashPoint("commit", "unreported", 4)
    first, second = (play(storm, listener, listener.disk, crash=crash) for _ in range(2))
    assert first.trace == second.trace
    assert first.reached


def test_crash_points_are_those_that_were_passed(tmp_path: Path) -> None:
    storm = BY_NAME["nothing wrong"]
    listener = sender(tmp_path, storm)
    played = play(storm, listener, listener.disk)
    found = points(played, ("commit", "step"))
    assert len(found) == played.steps + sum(n for (kind, _), n in played.passed.items() if kind == "commit")
    assert "nobody dies" in str(played)


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
    plan = plan_of(BY_NAME["nothing wrong"]) | {"returns": {"smtp": f"{INTAKE_HOST}:2525"}}
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
