"""Tests of timelines: what decides is there, in order, and shorter than a screen."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from scenarios.simulation.cell import Cell, play
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.replay import look
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.timeline import WIDTH, Moment, lines, show
from tests.scenarios.simulation import planted

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

#: Lines of a screen.
SCREEN = 24


def test_a_minimal_counterexample_fits_on_a_screen(tmp_path: Path) -> None:
    """Who, when, what was on the wire, what was committed, who died, and what is wrong with it."""
    disk = Disk(tmp_path)
    sender = planted.unmarked(disk, BY_ID["smtp-at-most-once"])

    seen = look(Cell(profile="smtp-at-most-once", crash=CrashPoint("commit", "lost", 2)), sender, disk)

    text = [line.text for line in seen.lines]
    assert len(text) <= SCREEN
    assert all(len(each) <= WIDTH for each in text)
    told = [
        "application  has promised order-1 to user1.1@example.com: pending",
        "worker 1     commits order-1 to user1.1@example.com: pending → sending (attempt 1)",
        "worker 1     #1 → connects ← 220 → EHLO ← 250 → MAIL shop@example.org ← 250 → RCPT user1.1@example.com",
        "provider     ACCEPTS order-1 for user1.1@example.com",
        "worker 1     DIES: crash point commit lost #2",
        "worker 2     commits order-1 to user1.1@example.com: sending → sending (attempt 2)",
        "DUPLICATED: user1.1@example.com: accepted 2 times, at most 1 is right",
    ]
    where = [next((n for n, line in enumerate(text) if each in line), -1) for each in told]
    assert -1 not in where
    assert where == sorted(where)


def test_an_http_exchange_is_one_line(tmp_path: Path) -> None:
    """Request line, key and size; status and what there is of the body; how the line was closed."""
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID["http-keys"])

    text = "\n".join(
        line.text for line in look(Cell(profile="http-keys", script=("taken, reset",)), sender, disk).lines
    )

    assert "→ connects → POST /v1/emails key order-1.v1" in text
    assert "← RST" in text
    assert "idempotency-replayed: true" in text
    assert "rule strikes: 1: taken, reset" in text


def test_a_marker_that_changes_no_state_is_told_by_its_columns(tmp_path: Path) -> None:
    """The point of no return is the commit that matters most over SMTP."""
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID["smtp-at-most-once"])

    seen = look(Cell(profile="smtp-at-most-once"), sender, disk)

    assert any("commits outgoing_email (in_doubt, updated_at)" in line.text for line in seen.lines)


def test_to_be_watched_changes_nothing(tmp_path: Path) -> None:
    """The same trace with and without a recorder."""
    disk = Disk(tmp_path)
    sender = ReferenceSender(disk=disk, profile=BY_ID["http-keys"])
    cell = Cell(profile="http-keys", script=("taken, hangs",), crash=CrashPoint("sql", "after", 7))

    assert look(cell, sender, disk).trace == play(cell, sender, disk).trace


def test_goodbyes_of_idle_connections_are_no_news() -> None:
    """A close behind a complete answer is left out; a close instead of an answer is what it is all about."""

    def wire(at: float, text: str) -> Moment:
        return Moment(at=at, who="worker 1", kind="wire", text=text, connection=1)

    assert len(lines([wire(0.0, "→ QUIT ← 221"), wire(9.0, "← FIN")])) == 1
    assert len(lines([wire(0.0, "→ final dot"), wire(9.0, "← FIN")])) == 2


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    """A file gets plain text, markup or not."""
    moment = Moment(at=1.0, who="worker [1]", kind="death", text="DIES: [bold]")
    plain, colourful = io.StringIO(), io.StringIO()
    show(Console(file=plain), lines([moment]))
    show(Console(file=colourful, force_terminal=True), lines([moment]))

    assert plain.getvalue() == "     1.000 s  worker [1]   DIES: [bold]\n"
    assert "\x1b[" in colourful.getvalue()
