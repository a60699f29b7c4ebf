"""The machine of a sender with a campaign: no schedule breaks anything, and who does it wrong is found as what he is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.simulation.campaign_machine import MEMBERS, CampaignMachine, CampaignRun
from scenarios.simulation.machine import perform
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.replay import shrunk
from scenarios.simulation.schedule import CAMPAIGN_STEPS, Schedule, Step
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.stateful import search
from scenarios.simulation.world import silence
from scenarios.simulation.zoo.visit import ALL
from simulator.provider.obligations import Reported

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

KEYS = BY_ID["http-keys"]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with silence():
        yield


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.fixture
def run(disk: Disk) -> Iterator[CampaignRun]:
    with CampaignRun(KEYS, ReferenceSender(disk=disk, profile=KEYS), disk) as run:
        yield run


def take(run: CampaignRun, *steps: Step) -> None:
    for step in steps:
        assert run.take(step) == [], str(step)


def sent(run: CampaignRun) -> list[str]:
    return [each.recipient.partition("@")[0] for each in run.sender.said() if each.state is Reported.ACCEPTED]


def test_a_campaign_goes_on_whoever_dies(run: CampaignRun) -> None:
    """In the middle of a page, and in a pause of it, beside other mails; somebody sees to it in the end."""
    take(
        run,
        Step(do="enqueue", number=1),
        Step(do="begin_campaign"),
        Step(do="kill_expander", count=2, name="lost"),
        Step(do="wait", seconds=12.0),
    )
    assert [name for _, name, _ in run.world.deaths] == ["expander"]
    take(
        run,
        Step(do="start_expander"),
        Step(do="move_campaign", name="pause"),
        Step(do="begin_campaign"),
        Step(do="wait", seconds=90.0),
    )
    assert sent(run) == ["user1.1"]

    assert run.end() == []
    assert sent(run) == ["user1.1", "member1", "member3", "member4", "member5"]
    assert len(MEMBERS) == 5


def test_what_is_cancelled_stays_so(run: CampaignRun) -> None:
    """There is no way back, and nobody is owed anything."""
    take(
        run,
        Step(do="begin_campaign"),
        Step(do="wait", seconds=45.0),
        Step(do="move_campaign", name="cancel"),
        Step(do="move_campaign", name="resume"),
        Step(do="kill_expander"),
        Step(do="wait", seconds=90.0),
    )

    assert run.end() == []
    assert sent(run) == ["member1"]


def test_before_it_begins_nothing_can_be_done_to_it(run: CampaignRun) -> None:
    """So any part of a schedule is a schedule."""
    for name in CAMPAIGN_STEPS[1:]:
        take(run, Step(do=name, name="pause"))
    assert run.end() == []
    assert run.sender.said() == ()


def test_no_schedule_breaks_anything(disk: Disk) -> None:
    found = search(
        "http-keys", ReferenceSender(disk=disk, profile=KEYS), disk, examples=10, kind=CampaignMachine
    )

    assert found.broken is None, str(found.broken)
    assert found.tried >= 10


@pytest.mark.parametrize(
    "name", ["from the first page", "cursor before mails", "ignores a pause", "ignores a cancel"]
)
def test_who_does_it_wrong_is_found(disk: Disk, name: str) -> None:
    """As what he is, and the schedule is played again without the machine."""
    (bad,) = (each for each in ALL if each.name == name)
    sender = bad.made(disk, "http-keys")

    for dice in range(1, 7):
        found = search("http-keys", sender, disk, examples=40, kind=CampaignMachine, dice=dice)
        if found.broken is not None:
            break

    assert found.broken is not None
    assert bad.kind in {each.kind for each in found.broken.findings}
    findings, _ = perform(found.broken.schedule, sender, disk, CampaignRun)
    assert findings == found.broken.findings


def test_a_schedule_with_a_campaign_is_made_small(disk: Disk) -> None:
    """By the world that has one."""
    (bad,) = (each for each in ALL if each.name == "everybody at once")
    schedule = Schedule(
        profile="http-keys",
        steps=(
            Step(do="enqueue", number=1),
            Step(do="begin_campaign"),
            Step(do="heal"),
            Step(do="wait", seconds=45.0),
        ),
    )

    small = shrunk(schedule, bad.made(disk, "http-keys"), disk)

    assert isinstance(small, Schedule)
    assert [step.do for step in small.steps] == ["begin_campaign"]
