"""The machine of a sender that hears: no schedule breaks anything, and a planted deafness is found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reference_sender.policy.hearing import Fate, Settled
from scenarios.simulation.intake import ListeningSender
from scenarios.simulation.listening import NAMES, ListeningMachine, ListeningRun
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.schedule import Step
from scenarios.simulation.senders import Disk
from scenarios.simulation.stateful import search
from scenarios.simulation.world import silence

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

#: Schedules for each machine; more by MAILPROOF_EXAMPLES.
EXAMPLES = max(6, int(os.environ.get("MAILPROOF_EXAMPLES", "20")) // 3)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with silence():
        yield


def test_no_schedule_breaks_anything(tmp_path: Path) -> None:
    """Where a mail in doubt is sent again; the profiles of the matrix in which somebody hears are played with the others."""
    disk = Disk(tmp_path)
    sender = ListeningSender(disk=disk, profile=BY_ID["smtp-at-least-once"])
    found = search("smtp-at-least-once", sender, disk, examples=EXAMPLES, kind=ListeningMachine)
    assert found.broken is None, str(found.broken)
    assert found.tried >= EXAMPLES


def test_only_who_hears_puts_an_address_on_the_list(tmp_path: Path) -> None:
    """In every profile: an address that the application put there would be one of which nobody told."""
    disk = Disk(tmp_path)
    profile = BY_ID["smtp-at-least-once"]
    with ListeningRun(profile, ListeningSender(disk=disk, profile=profile), disk) as run:
        for step in (Step(do="enqueue", number=2, name="suppressed"), Step(do="wait", seconds=45.0)):
            assert run.take(step) == []
        assert run.end() == []


def _deaf(*_: Any, **__: Any) -> Settled:
    return Settled(fate=Fate.IGNORED, reason="not listening")


def test_who_does_not_listen_is_found(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    sender = ListeningSender(disk=disk, profile=BY_ID["http-keys"], intake_parts={"place": _deaf})
    found = search("http-keys", sender, disk, examples=20, kind=ListeningMachine)
    assert found.broken is not None
    assert {each.kind for each in found.broken.findings} <= {"event lost", "news erased", "not suppressed"}


def test_each_step_does_what_it_says(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    profile = BY_ID["http-keys"]
    with ListeningRun(profile, ListeningSender(disk=disk, profile=profile), disk) as run:
        for step in (
            Step(do="storm", name="twice under another id"),
            Step(do="enqueue", number=2),
            Step(do="kill_intake", count=2, name="unreported"),
            Step(do="wait", seconds=12.0),
        ):
            assert run.take(step) == []
        assert [name for _, name, _ in run.world.deaths] == ["intake"]
        assert run.end() == []
        mind = run.sender.mind()
    assert mind.standing == {"ada.2@example.com": "delivered", "bob.2@example.com": "hard_bounce"}
    assert mind.suppressed == {"bob.2@example.com"}
    assert "twice" in NAMES
