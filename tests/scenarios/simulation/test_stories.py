"""Tests of who tells which story: the profile decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.simulation.cast import REFERENCE, cast
from scenarios.simulation.cell import Cell
from scenarios.simulation.intake import Heard
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.stories import play

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.mark.parametrize("profile", ["http-keys", "smtp-hearing"])
def test_the_profile_decides_what_is_asked(profile: str, tmp_path: Path) -> None:
    """Where somebody hears, what was told is there to be judged; the victim's crash points are counted in both."""
    disk = Disk(tmp_path)
    victim = "intake" if BY_ID[profile].hears else "worker"
    cell = Cell(profile=profile, shape=BY_ID[profile].shape, victim=victim)

    outcome = play(cell, cast(REFERENCE, disk, BY_ID[profile]), disk)

    assert isinstance(outcome, Heard) is BY_ID[profile].hears
    assert outcome.findings == []
    assert outcome.passed["commit", "lost"] > 1


def test_who_does_not_hear_cannot_play_where_it_is_asked(tmp_path: Path) -> None:
    disk = Disk(tmp_path)

    with pytest.raises(AssertionError, match="hears"):
        play(Cell(profile="http-hearing"), ReferenceSender(disk=disk, profile=BY_ID["http-hearing"]), disk)
