"""What is demanded where mails know of each other: made-up histories first, then the worlds themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.checks import Finding
from scenarios.history import History
from scenarios.simulation.manners import judged
from scenarios.simulation.matrix import ASKED, Block
from scenarios.simulation.playing import cells
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.shapes import KNOWING
from tests.scenarios.made import tried

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

ONE, TWO = "user1.1@example.com", "user2.2@example.com"


def told(shape: str, *tries: tuple[str, bool], findings: tuple[Finding, ...] = ()) -> list[str]:
    """What is found where these attempts were made: (recipient, whether it was accepted)."""
    attempts = tuple(
        tried(number, recipients=(recipient,), took=took) for number, (recipient, took) in enumerate(tries)
    )
    return [each.kind for each in judged(KNOWING[shape].owed, History(attempts=attempts), findings)]


@pytest.mark.parametrize(
    ("shape", "tries", "expected"),
    [
        ("in order", [(ONE, False), (ONE, True), (TWO, True)], []),
        ("in order", [(ONE, False), (TWO, True), (ONE, True)], ["out of order"]),
        ("in order", [(ONE, False), (TWO, True)], []),
        ("one depends on the other", [(ONE, True), (TWO, True)], []),
        ("one depends on the other", [(ONE, False), (TWO, True), (ONE, True)], ["too soon"]),
        ("one depends on the other", [(ONE, False), (TWO, True)], ["too soon"]),
        ("a newer code", [(TWO, True)], []),
        ("a newer code", [(ONE, True), (TWO, True)], ["superseded and sent"]),
        ("one is suppressed", [(TWO, True)], []),
        ("one is suppressed", [(TWO, True), (ONE, False)], ["suppressed and sent"]),
    ],
)
def test_what_was_said_at_enqueue_is_demanded(
    shape: str, tries: list[tuple[str, bool]], expected: list[str]
) -> None:
    assert told(shape, *tries) == expected


def test_nobody_is_blamed_for_a_mail_that_rightly_did_not_go() -> None:
    def given_up(recipient: str) -> Finding:
        return Finding(kind="given up", recipient=recipient, sentence="…")

    both = (given_up(ONE), given_up(TWO))
    assert told("a newer code", findings=both) == ["given up"]
    assert told("in order", findings=both) == ["given up", "given up"]
    assert told("one depends on the other", (ONE, False), findings=both[1:]) == []
    assert told("one depends on the other", (ONE, True), findings=both[1:]) == ["given up"]
    lost = Finding(kind="lost", recipient=ONE, sentence="…")
    assert told("one is suppressed", findings=(lost,)) == ["lost"]


@pytest.mark.parametrize("shape", KNOWING)
@pytest.mark.parametrize("script", ["ok", "422"])
def test_the_reference_sender_keeps_to_it_whoever_dies(tmp_path: Path, shape: str, script: str) -> None:
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID[ASKED])
    block = Block(profile=ASKED, script=(script,), shape=shape, victim="worker", kinds=("commit",))
    played = list(cells(block, sender, disk))
    assert [(str(each.cell), each.findings) for each in played if each.findings] == []
    assert len(played) > 3
