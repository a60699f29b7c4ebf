"""What is demanded where mails know of each other: made-up histories first, then the worlds themselves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from scenarios.checks import Finding
from scenarios.history import History, Try
from scenarios.simulation.manners import judged
from scenarios.simulation.matrix import ASKED, LAST_MOMENT, Block
from scenarios.simulation.playing import cells
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.shapes import EXPIRING, KNOWING
from simulator.provider.obligations import Reported
from tests.scenarios.made import at, copy, history, owed, tried

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

ONE, TWO = "user1.1@example.com", "user2.2@example.com"


#: When the mail of the shape "one that expires" is over in made-up histories, whose attempt n begins in second n.
OVER = {"order-1": at(0.5)}


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


def ended(
    state: Reported | None, *tries: Try, taken_s: int | None = None, crashes: int = 0, given_up: bool = False
) -> list[str]:
    """What is found where a mail that is over after half a second came to this state by these attempts."""
    promised = (owed(ONE, state=state),)
    taken = () if taken_s is None else (copy(taken_s, ONE),)
    made = dataclasses.replace(history(promised, taken, tries), crashes=crashes)
    before = (Finding(kind="given up", recipient=ONE, sentence="…"),) if given_up else ()
    return [each.kind for each in judged(KNOWING["one that expires"].owed, made, before, OVER)]


def one(number: int, answer: str, *, took: bool = False, begins_s: float = 0.0) -> Try:
    return tried(number, answer, recipients=(ONE,), took=took, begins_s=begins_s)


def test_a_mail_whose_time_is_over_is_not_begun_any_more() -> None:
    """Nor handed over, where it was begun before."""
    assert ended(Reported.EXPIRED, one(1, "503")) == []
    assert ended(Reported.ACCEPTED, one(1, "200", took=True), taken_s=0) == []
    assert ended(Reported.ACCEPTED, one(1, "200", took=True), taken_s=5) == ["overdue"]
    assert ended(Reported.EXPIRED, one(1, "503"), one(2, "503", begins_s=9.0)) == ["overdue"]


def test_it_is_said_that_its_time_was_over() -> None:
    """And of nothing else that it ended it, unless the provider did."""
    assert ended(Reported.FAILED, one(1, "422")) == []
    assert ended(Reported.EXPIRED, one(1, "422")) == []
    for state in (Reported.FAILED, Reported.SUPPRESSED, Reported.DEAD, Reported.PENDING, None):
        assert ended(state, one(1, "503")) == ["misreported"]


def test_who_never_tried_let_it_lie() -> None:
    """An end is no excuse where nothing stood in the way; where somebody came, or died, it is one."""
    assert ended(Reported.EXPIRED, given_up=True) == ["given up"]
    assert ended(Reported.EXPIRED, given_up=True, crashes=1) == []
    assert ended(Reported.EXPIRED, one(1, "503"), given_up=True) == []
    late = one(1, "503", begins_s=9.0)
    assert ended(Reported.EXPIRED, late, given_up=True) == ["given up", "overdue"]


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
@pytest.mark.parametrize("script", ["ok", "422", "503"])
def test_the_reference_sender_keeps_to_it_whoever_dies(tmp_path: Path, shape: str, script: str) -> None:
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID[ASKED])
    block = Block(profile=ASKED, script=(script,), shape=shape, victim="worker", kinds=("commit",))
    played = list(cells(block, sender, disk))
    assert [(str(each.cell), each.findings) for each in played if each.findings] == []
    assert len(played) > 3


@pytest.mark.parametrize(
    ("profile", "script", "ends"),
    [
        (ASKED, "503", {Reported.EXPIRED}),
        (ASKED, "taken, closed", {Reported.ACCEPTED, Reported.EXPIRED}),
        (*LAST_MOMENT, {Reported.EXPIRED}),
    ],
)
def test_a_mail_ends_with_its_time_whoever_dies(
    tmp_path: Path, profile: str, script: str, ends: set[Reported]
) -> None:
    """What was taken before stays accepted, also if that is only found out afterwards."""
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID[profile])
    block = Block(profile=profile, script=(script,), shape=EXPIRING.name, victim="worker", kinds=("commit",))
    played = list(cells(block, sender, disk))
    assert [(str(each.cell), each.findings) for each in played if each.findings] == []
    assert {said.state for each in played for said in each.history.said} == ends
