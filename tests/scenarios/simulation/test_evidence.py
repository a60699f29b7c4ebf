"""Tests of the evidence: what a provider said it has said, and what tells two worlds apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.simulation.behaviours import LOOKS
from scenarios.simulation.cell import Cell, play
from scenarios.simulation.evidence import try_of
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from simulator.provider.ledger import Advice, Attempt, Sent, ToldBy
from tests.scenarios.made import ANN, START

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


def test_what_a_dead_provider_said_it_has_said(tmp_path: Path) -> None:
    """It refuses for good and dies before it can note it: the sender rightly calls the mail failed."""
    disk = Disk(tmp_path)
    cell = Cell(
        profile="http-keys", script=("400",), victim="provider", crash=CrashPoint("ledger", "lost", 1)
    )
    outcome = play(cell, ReferenceSender(disk=disk, profile=BY_ID["http-keys"]), disk)

    assert outcome.reached
    assert outcome.findings == []
    assert [each.code for each in outcome.history.attempts] == [400]
    assert outcome.fired == ("1: 400",)


def test_rules_strike_attempts_and_look_ups(tmp_path: Path) -> None:
    """Each is named once, in the order in which it struck; a look-up is no attempt."""
    disk = Disk(tmp_path)
    cell = Cell(profile=LOOKS, script=("taken, asked: 503",))
    outcome = play(cell, ReferenceSender(disk=disk, profile=BY_ID[LOOKS]), disk)

    assert outcome.fired == ("lost: taken", "1: taken, asked: 503")
    assert [each.rules for each in outcome.history.attempts] == [("lost: taken",)]


def test_a_sender_was_told_to_wait_by_what_a_program_reads() -> None:
    """The longest counts; the words of an SMTP reply are for people."""
    attempt = Attempt(
        id="att_1", number=1, account="default", dialect="http", connection="1", peer="", opened_at=START,
        recipients=(ANN,), sent=Sent.COMPLETE, answer="429",
    )  # fmt: skip
    short, long, words = (
        Advice(wait_s=wait_s, at=START, by=by)
        for wait_s, by in ((3.0, ToldBy.HEADER), (7.0, ToldBy.DATE), (99.0, ToldBy.TEXT))
    )

    assert try_of(attempt).retry_after_s is None
    assert try_of(replace(attempt, advice=(words,))).retry_after_s is None
    assert try_of(replace(attempt, advice=(short, long, words))).retry_after_s == 7.0
    assert try_of(replace(attempt, advice=(short, long, words))).recipients == (ANN,)


def test_one_cell_played_twice_cannot_be_told_apart_and_another_can(tmp_path: Path) -> None:
    """By all that was on the wire, and by what came after the death."""
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID["http-keys"])
    quiet = play(Cell(profile="http-keys"), sender, disk)
    dead, same, other = (
        play(Cell(profile="http-keys", script=script, crash=CrashPoint("step", "", 1)), sender, disk)
        for script in (("ok",), ("ok",), ("503",))
    )

    assert dead.trace == same.trace
    assert dead.future == same.future
    assert dead.trace != quiet.trace
    assert dead.future != other.future
