"""A cell without bytes is the same story as on the wire: the same history, not only the same verdict."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from scenarios.history import History
from scenarios.simulation import cell as wired
from scenarios.simulation.behaviours import BY_WIRE, columns
from scenarios.simulation.byteless.cell import Shelves, Told, play
from scenarios.simulation.byteless.sender import OnlyOnTheWire, Sender, of
from scenarios.simulation.cell import Cell
from scenarios.simulation.matrix import FEW
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.shapes import KNOWING

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


def told(history: History) -> History:
    """Without the marks, which only people read."""
    return dataclasses.replace(history, marks=())


class Both:
    """Plays cells on both levels."""

    def __init__(self, folder: Path, profile: str) -> None:
        self.disk = Disk(folder)
        self.sender = ReferenceSender(disk=self.disk, profile=BY_ID[profile])
        self.model = of(self.sender)
        self.shelves = Shelves()

    def differ(self, cell: Cell) -> bool:
        here = play(cell, self.model, self.shelves)
        there = wired.play(cell, self.sender, self.disk)
        return (told(here.history), here.findings, here.reached) != (
            told(there.history),
            there.findings,
            there.reached,
        )


def unnamed(history: History) -> list[tuple[object, ...]]:
    """Return when somebody came, what it was told, and what all were told in the end, but not who it was."""
    attempts = [
        (each.opened_at, each.closed_at, each.answer, each.rules, each.retry_after_s)
        for each in history.attempts
    ]
    return [*attempts, *sorted((each.state, each.attempts) for each in history.said)]


#: Without bytes no request brings several mails, and nobody hears what becomes of them.
@pytest.mark.parametrize(
    "profile", [name for name, each in BY_ID.items() if name != "http-batches" and not each.hears]
)
def test_every_behaviour_is_the_same_story(tmp_path: Path, profile: str) -> None:
    """And the victim comes by the same crash points, as often."""
    both, points = Both(tmp_path, profile), 0
    for name in columns(profile, BY_ID[profile].wire, byteless=True):
        if profile == "http-with-spare" and not (name in FEW[profile] or BY_WIRE["http"][name].on):
            continue  # The main provider is that of http-keys.
        cell = Cell(profile=profile, script=(name,), shape=BY_WIRE[BY_ID[profile].wire][name].shape)
        here = play(cell, both.model, both.shelves, counts=True)
        there = wired.play(cell, both.sender, both.disk)

        passed = {point: len(moments) for point, moments in here.moments.items() if point[0] != "step"}
        assert passed == {point: count for point, count in there.passed.items() if point[0] != "sql"}, name
        if cell.shape == "one mail":
            assert told(here.history) == told(there.history), name
        else:
            # Which of two that come at the same instant is heard first is another thing on each level.
            assert unnamed(here.history) == unnamed(there.history), name
        assert here.findings == there.findings == []
        points += sum(passed.values())
    assert points > 800


@pytest.mark.parametrize(
    ("profile", "script"),
    [
        ("http-keys", ("taken, closed", "422")),
        ("http-keys-forgotten", ("taken, reset",)),
        ("http-lookup-lagging", ("taken, 500",)),
        ("smtp-at-most-once", ("dot 451",)),
        ("smtp-at-least-once", ("taken, closed",)),
    ],
)
def test_every_crash_is_the_same_story(tmp_path: Path, profile: str, script: tuple[str, ...]) -> None:
    """At every other commit, some of them twice, and at some of the other points."""
    both = Both(tmp_path, profile)
    cell = Cell(profile=profile, script=script)
    dry = play(cell, both.model, both.shelves, counts=True)
    points = [
        CrashPoint(kind, name, count)
        for (kind, name), moments in sorted(dry.moments.items())
        for count in range(1, len(moments) + 1)
    ]
    commits = [each for each in points if each.kind == "commit"]
    others = [each for each in points if each.kind in ("point", "reply")]
    cells = [dataclasses.replace(cell, crash=each) for each in (*commits[::2], *others[::10])]
    cells += [
        dataclasses.replace(cell, crash=each, again=CrashPoint("commit", "unreported", 2))
        for each in commits[1::4]
    ]

    assert [str(each) for each in cells if both.differ(each)] == []
    assert len(cells) >= 10


def test_a_line_that_no_mail_needs_is_given_back_soon(tmp_path: Path) -> None:
    """Where one may talk at a time, the other of two workers waits for its back-off, and not until the provider hangs up."""
    both = Both(tmp_path, "smtp-at-least-once")
    cell = Cell(
        profile="smtp-at-least-once",
        script=("one at a time",),
        shape="two mails, two workers",
        crash=CrashPoint("commit", "lost", 5),
        again=CrashPoint("commit", "lost", 2),
    )
    here = play(cell, both.model, both.shelves)
    there = wired.play(cell, both.sender, both.disk)

    assert here.reached
    assert here.findings == there.findings == []
    assert unnamed(here.history) == unnamed(there.history)
    assert here.virtual_s == there.virtual_s < 200.0


def test_an_application_that_dies_promised_nothing_or_everything(tmp_path: Path) -> None:
    """The business transaction and the outbox are one."""
    both = Both(tmp_path, "http-keys")
    for name, owed in (("lost", 0), ("unreported", 1)):
        cell = Cell(profile="http-keys", victim="application", crash=CrashPoint("commit", name, 1))

        assert not both.differ(cell)
        assert len(play(cell, both.model, both.shelves).history.obligations) == owed


def frozen(name: str, count: int, seconds: float = 35.0) -> Told:
    profile = "smtp-at-most-once"
    cell = Cell(
        profile=profile,
        script=("taken late",),
        crash=CrashPoint("freeze", name, count),
        frozen_s=seconds,
    )
    return play(cell, Sender(profile=BY_ID[profile]), Shelves(), counts=True)


def test_a_frozen_worker_meets_its_successor() -> None:
    """Stopped past its lease, by a step or behind a named point."""
    for outcome in (frozen("", 9), frozen("point after mark", 1)):
        assert outcome.reached
        assert outcome.findings == []
        workers = {mark.text.split()[1] for mark in outcome.history.marks if mark.text.endswith("starts")}
        assert workers == {"1", "2"}


def test_a_freeze_has_two_names() -> None:
    """Before a step, or behind the named point in the step before it: the same, and the name holds on every level."""
    dry = play(
        Cell(profile="smtp-at-most-once", script=("taken late",)),
        Sender(profile=BY_ID["smtp-at-most-once"]),
        Shelves(),
        counts=True,
    )
    tried = 0
    for step, (kind, name, count) in dry.named.items():
        if step < dry.steps:
            by_name, by_step = frozen(f"{kind} {name}", count), frozen("", step + 1)
            assert told(by_name.history) == told(by_step.history), (step, kind, name, count)
            tried += 1
    assert tried > 10


def test_a_freeze_by_name_is_the_same_story(tmp_path: Path) -> None:
    """Here and on the wire."""
    both = Both(tmp_path, "smtp-at-most-once")
    cells = [
        Cell(
            profile="smtp-at-most-once",
            script=("taken late",),
            crash=CrashPoint("freeze", name, 1),
            frozen_s=seconds,
        )
        for name in ("point after mark", "point before settle", "reply whole", "commit lost")
        for seconds in (0.5, 35.0)
    ]

    assert [str(each) for each in cells if both.differ(each)] == []


def test_a_point_that_is_never_met_says_nothing() -> None:
    """And is told as such."""
    cell = Cell(profile="http-keys", crash=CrashPoint("commit", "lost", 99))

    assert not play(cell, Sender(profile=BY_ID["http-keys"]), Shelves()).reached


def test_equal_moments_are_equal_crashes() -> None:
    """What is played once for many points is true of each of them."""
    profile = "smtp-at-least-once"
    sender, shelves = Sender(profile=BY_ID[profile]), Shelves()
    cell = Cell(profile=profile, script=("taken, closed",))
    dry = play(cell, sender, shelves, counts=True)
    classes: dict[object, list[CrashPoint]] = {}
    for (kind, name), moments in dry.moments.items():
        for count, moment in enumerate(moments, 1):
            classes.setdefault(moment, []).append(CrashPoint(kind, name, count))

    for points in classes.values():
        stories = [
            told(play(dataclasses.replace(cell, crash=each), sender, shelves).history) for each in points
        ]
        assert all(story == stories[0] for story in stories), points
    assert len(classes) < sum(map(len, classes.values())) / 2


def test_a_provider_as_victim_is_for_the_wire() -> None:
    """Said in a sentence."""
    cell = Cell(profile="http-keys", victim="provider")

    with pytest.raises(OnlyOnTheWire, match="only the sender dies"):
        play(cell, Sender(profile=BY_ID["http-keys"]), Shelves())


def test_what_is_said_at_enqueue_is_for_the_wire() -> None:
    """Every shape whose mails know of each other: said in a sentence, and not by an error of a table."""
    for shape in KNOWING:
        with pytest.raises(OnlyOnTheWire, match=f"'{shape}' says more of its mails"):
            play(Cell(profile="http-keys", shape=shape), Sender(profile=BY_ID["http-keys"]), Shelves())
