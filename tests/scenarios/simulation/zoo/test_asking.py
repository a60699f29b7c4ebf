"""Senders that ask, and make the wrong thing of the answer: each is caught as what it is, and only where something goes wrong there."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.simulation.behaviours import BY_WIRE, LOOKS, columns
from scenarios.simulation.cell import Cell, play
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk
from scenarios.simulation.zoo.asking import SENDERS
from scenarios.simulation.zoo.keeper import BadSender
from tests.scenarios.simulation.zoo.hunting import caught

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_a_sender_is_caught_by_its_sin_alone(tmp_path: Path, sender: BadSender) -> None:
    """Within a few cells, and the sender without sin is clean on every one of them."""
    caught(sender, tmp_path)


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_nowhere_else_is_it_seen(tmp_path: Path, sender: BadSender) -> None:
    """Wherever answers are lost, and whoever asks is told the truth as early as the profile says."""
    disk = Disk(tmp_path)
    made = sender.made(disk, LOOKS)
    for name in columns(LOOKS, BY_ID[LOOKS].wire):
        behaviour = BY_WIRE["http"][name]
        if name.startswith(("taken", "request")) and not behaviour.is_asked:
            seen = play(Cell(profile=LOOKS, script=(name,), shape=behaviour.shape), made, disk)
            assert seen.findings == [], name
