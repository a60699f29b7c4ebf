"""A campaign in a world: it has its course, and whoever dies in it, each member has his mail once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reference_sender.outbox.store import Store
from scenarios.simulation.cell import Cell
from scenarios.simulation.crashes import classes, points, same_end
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.shapes import CAMPAIGNS
from scenarios.simulation.stories import play
from simulator.provider.obligations import Reported

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.fixture
def sender(tmp_path: Path) -> ReferenceSender:
    return ReferenceSender(disk=Disk(tmp_path), profile=BY_ID["http-keys"])


def cell_of(shape: str, victim: str = "expander", crash: CrashPoint | None = None) -> Cell:
    return Cell(profile="http-keys", shape=shape, victim=victim, crash=crash)


def states(sender: ReferenceSender) -> dict[str, Reported]:
    return {each.recipient.partition("@")[0]: each.state for each in sender.said()}


@pytest.mark.parametrize("shape", [name for name in CAMPAIGNS if "cancelled" not in name])
def test_everybody_has_his_mail_but_who_must_not_be_written_to(sender: ReferenceSender, shape: str) -> None:
    """Once, at his turn; in a pause nobody new has."""
    outcome = play(cell_of(shape), sender, sender.disk)

    assert outcome.findings == []
    assert states(sender) == dict.fromkeys(("member1", "member3", "member4", "member5"), Reported.ACCEPTED)
    assert len(outcome.history.acceptances) == len(outcome.history.obligations) == 4


def test_who_had_not_gone_when_it_was_cancelled_does_not_go(sender: ReferenceSender) -> None:
    """Nor is he owed."""
    outcome = play(cell_of("a campaign, cancelled"), sender, sender.disk)

    assert outcome.findings == []
    gone = {"member1": Reported.ACCEPTED, "member3": Reported.EXPIRED, "member4": Reported.EXPIRED}
    assert states(sender) == gone
    assert [each.recipient for each in outcome.history.obligations] == ["member1@example.com"]


def test_two_at_once_come_too_late_with_every_page(
    sender: ReferenceSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has read a page while the other wrote it writes nothing."""
    written: list[bool] = []
    write_page = Store.write_page

    def noted(*arguments: Any, **more: Any) -> bool:
        written.append(write_page(*arguments, **more))
        return written[-1]

    monkeypatch.setattr(Store, "write_page", noted)
    outcome = play(cell_of("a campaign, two at once"), sender, sender.disk)

    assert written == [True, False] * 3
    assert outcome.passed["point", "before write_page"] == 3
    assert sender.disk.rows("SELECT pages, members, enqueued, known FROM campaign") == [(3, 5, 4, 0)]


@pytest.mark.parametrize(
    ("shape", "victim", "kinds"),
    [
        ("a campaign", "expander", ("commit", "point")),
        ("a campaign, two at once", "expander", ("commit",)),
        ("a campaign, paused", "person", ("commit",)),
        ("a campaign, cancelled", "person", ("commit",)),
        ("a campaign, cancelled", "worker", ("commit",)),
    ],
)
def test_whoever_dies_nothing_is_wrong(
    sender: ReferenceSender, shape: str, victim: str, kinds: tuple[str, ...]
) -> None:
    """Between pages and in the middle of one, before and behind the commit of a pause; somebody takes up what he left."""
    dry = play(cell_of(shape, victim), sender, sender.disk)
    found = points(dry, kinds)
    assert len(found) >= 2

    for point in found:
        outcome = play(cell_of(shape, victim, point), sender, sender.disk)
        assert outcome.reached, str(outcome.cell)
        assert outcome.findings == [], str(outcome.cell)
        assert sender.disk.rows("SELECT state FROM campaign") == [
            ("cancelled" if shape.endswith("cancelled") else "done",)
        ]


def test_crash_points_that_are_one_come_to_one_end(sender: ReferenceSender) -> None:
    """The first and the last of each class."""
    dry = play(cell_of("a campaign, paused"), sender, sender.disk, moments=True)
    several = [each for each in classes(dry, ("sql", "commit", "point")) if len(each) > 1]
    assert len(several) > 3

    for group in several:
        first, last = (
            play(replace(dry.cell, crash=point), sender, sender.disk) for point in (group[0], group[-1])
        )
        assert same_end(first, last), f"{first.cell} | {last.cell}"
