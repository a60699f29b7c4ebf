"""Senders whose campaigns go wrong: each is caught as what it is, and as nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.simulation.zoo.campaigns import SENDERS
from scenarios.simulation.zoo.keeper import BadSender
from tests.scenarios.simulation.zoo.hunting import caught

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

#: What is found as well wherever somebody got two mails for one, or none.
FOLLOWS = {"duplicated": {"tried again", "identity changed", "bytes differ"}, "lost": {"unsaid"}}


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_a_sender_is_caught_by_its_sin_alone(tmp_path: Path, sender: BadSender) -> None:
    """Within a few cells, and the sender without sin is clean on every one of them; nothing else is found of it on the way."""
    went = caught(sender, tmp_path)

    assert set(went.seen) <= {sender.kind} | FOLLOWS.get(sender.kind, set())
