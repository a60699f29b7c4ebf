"""Tests of the world that takes steps: each step does what it says, and safety is looked at after each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios.simulation.machine import Run, perform
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.schedule import STEPS, Schedule, Step, schedule_from
from scenarios.simulation.senders import Disk, ReferenceSender
from simulator.provider.obligations import Reported
from tests.scenarios.simulation import planted

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.fixture
def run(disk: Disk) -> Iterator[Run]:
    profile = BY_ID["smtp-at-most-once"]
    with Run(profile, ReferenceSender(disk=disk, profile=profile), disk) as run:
        yield run


def states(run: Run) -> dict[str, Reported]:
    return {each.key: each.state for each in run.sender.said()}


def do(run: Run, what: str, **details: Any) -> None:
    assert run.take(Step(do=what, **details)) == []


def test_what_is_promised_is_sent_once_however_often_it_is_said(run: Run) -> None:
    """The same event again is no second mail, and a transaction that is undone is none at all."""
    do(run, "enqueue", number=1)
    do(run, "enqueue", number=1)
    do(run, "roll_back", number=3)
    do(run, "wait", seconds=45.0)

    assert run.end() == []
    assert states(run) == {"order-1": Reported.ACCEPTED}


def test_workers_die_at_their_doom_and_a_person_moves_what_is_parked(run: Run) -> None:
    """Behind the point of no return a mail is parked; a person who looks moves it on."""
    do(run, "doom", number=1, name="acceptance", count=1)
    do(run, "enqueue", number=1)
    do(run, "wait", seconds=31.0)
    assert [cause for _, _, cause in run.world.deaths] == ["kill -9 between acceptance and answer"]
    do(run, "start_worker")
    do(run, "wait", seconds=45.0)
    assert states(run) == {"order-1": Reported.UNKNOWN}
    do(run, "requeue", number=1)

    assert run.end() == []
    assert states(run) == {"order-1": Reported.ACCEPTED}
    assert len(run.history().acceptances) == 1


def test_trouble_at_a_look_up_comes_as_often_as_it_says(disk: Disk) -> None:
    """Behind an answer that gets lost, so that somebody asks; whatever the step says, it ends by itself."""
    profile = BY_ID["http-lookup-lagging"]
    with Run(profile, ReferenceSender(disk=disk, profile=profile), disk) as run:
        do(run, "plan", name="taken, asked: 503", count=1)
        do(run, "enqueue", number=1)
        do(run, "wait", seconds=100.0)
        assert states(run) == {"order-1": Reported.UNKNOWN}
        struck = [rule for each in run._account().decisions for rule in each.rules]
        assert struck == ["lost: taken", *["taken, asked: 503"] * 2]
        do(run, "wait", seconds=90.0)
        assert states(run) == {"order-1": Reported.ACCEPTED}
        assert run.end() == []


def test_a_worker_is_doomed_from_now_on(run: Run) -> None:
    """The n-th statement counts from the step, whatever was before."""
    do(run, "enqueue", number=1)
    do(run, "wait", seconds=22.0)
    do(run, "doom", number=1, name="sql before", count=1)
    do(run, "enqueue", number=3)
    do(run, "wait", seconds=31.0)

    assert [name for _, name, _ in run.world.deaths] == ["worker 1"]
    assert run.end() == []
    assert set(states(run).values()) == {Reported.ACCEPTED}


def test_a_frozen_worker_loses_its_lease_and_comes_too_late(run: Run) -> None:
    """The zombie is fenced off: another worker has sent the mail, once."""
    do(run, "freeze", number=1, count=10, seconds=55.0)
    do(run, "enqueue", number=1)
    do(run, "wait", seconds=25.0)
    do(run, "start_worker")
    do(run, "wait", seconds=90.0)

    assert run.end() == []
    assert len(run.history().acceptances) == 1


def test_the_network_and_the_provider_come_back(run: Run) -> None:
    """Whatever was away, in the end everything is sent."""
    do(run, "partition", seconds=12.0)
    do(run, "enqueue", number=2)
    do(run, "wait", seconds=12.0)
    do(run, "kill_provider")
    do(run, "wait", seconds=45.0)
    do(run, "restart_provider")
    do(run, "plan", name="dot 451", count=2)
    do(run, "wait", seconds=45.0)
    do(run, "kill", number=1)

    assert run.end() == []
    assert states(run)["order-2"] is Reported.ACCEPTED


def test_every_step_may_come_at_any_time(run: Run) -> None:
    """A step that has nothing to act on does nothing, so that any part of a schedule is a schedule."""
    do(run, "kill", number=1)
    for name in STEPS:
        do(run, name, name={"plan": "ok", "doom": "step"}.get(name, ""), number=1)

    assert run.end() == []


def test_a_mail_is_of_the_sort_that_its_first_event_says(run: Run) -> None:
    """The same event again says nothing new; a newer code that was never committed takes nobody's place."""
    do(run, "wait", seconds=1.0)  # the worker has looked, and looks again when order-2 is over
    do(run, "enqueue", number=1, name="a code")
    do(run, "roll_back", number=5, name="a code")
    do(run, "enqueue", number=2, name="expires", seconds=12.0)
    do(run, "enqueue", number=3, name="suppressed")
    do(run, "enqueue", number=2)
    do(run, "wait", seconds=45.0)
    do(run, "enqueue", number=1, name="expires", seconds=1.0)

    assert run.end() == []
    assert states(run) == {
        "order-1": Reported.ACCEPTED,
        "order-2": Reported.EXPIRED,
        "order-3": Reported.SUPPRESSED,
    }


def test_a_sort_that_does_not_fit_the_profile_is_a_plain_mail(run: Run) -> None:
    """Where a parked mail stops others for ever, nobody waits for it."""
    do(run, "enqueue", number=1)
    do(run, "enqueue", number=3, name="depends")
    do(run, "enqueue", number=4, name="in order")

    assert [each.owed.manner for each in run.done.mails.values()] == [(), (), ()]


def test_who_waits_for_a_mail_goes_behind_it(disk: Disk) -> None:
    """Or not at all, if that one is refused for good."""
    profile = BY_ID["http-keys"]
    for plan, ends in (("503", Reported.ACCEPTED), ("422", Reported.EXPIRED)):
        with Run(profile, ReferenceSender(disk=disk, profile=profile), disk) as run:
            do(run, "plan", name=plan, count=1)
            do(run, "enqueue", number=1)
            do(run, "enqueue", number=3, name="depends")
            do(run, "wait", seconds=90.0)
            assert run.end() == []
            assert states(run)["order-3"] is ends


def test_the_same_schedule_has_the_same_trace(disk: Disk) -> None:
    """Wire, deaths and commits are the same in each run."""
    schedule = Schedule(
        profile="http-keys",
        steps=(
            Step(do="plan", name="taken, reset", count=1),
            Step(do="enqueue", number=1),
            Step(do="freeze", number=1, count=20, seconds=35.0),
            Step(do="start_worker", seconds=5.0),
            Step(do="wait", seconds=90.0),
        ),
    )
    sender = ReferenceSender(disk=disk, profile=BY_ID["http-keys"])
    runs = [perform(schedule, sender, disk) for _ in range(3)]

    assert len({run.trace for _, run in runs}) == 1
    assert [findings for findings, _ in runs] == [[], [], []]
    assert schedule_from(json.loads(json.dumps(schedule.as_json()))) == schedule


def test_a_schedule_stops_where_it_breaks(disk: Disk) -> None:
    """What is broken is seen at the step that broke it."""
    schedule = Schedule(
        profile="http-keys",
        steps=(
            Step(do="plan", name="taken, hangs", count=1),
            Step(do="enqueue", number=1),
            Step(do="wait", seconds=90.0),
            Step(do="enqueue", number=3),
        ),
    )

    findings, run = perform(schedule, planted.renews_keys(disk, BY_ID["http-keys"]), disk)

    assert findings[0].kind == "duplicated"
    assert run.steps == list(schedule.steps[:3])
