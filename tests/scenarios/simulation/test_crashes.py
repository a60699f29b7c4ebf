"""Tests of crash points: which there are, which are one, and where they stand in the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scenarios.simulation.cell import Cell, Outcome
from scenarios.simulation.crashes import FREEZE_ONCE, classes, crash_of, points, same_end, same_future
from scenarios.simulation.processes import CrashPoint

DIED = Cell(profile="http-keys", script=("503",), crash=CrashPoint("commit", "lost", 1))
RUN = Outcome(
    cell=Cell(profile="http-keys"),
    steps=2,
    passed={("commit", "lost"): 2, ("sql", "before"): 1},
    moments={
        ("step", ""): [(0.0, 1), (0.0, 3)],
        ("commit", "lost"): [(0.0, 1), (0.0, 2)],
        ("sql", "before"): [(0.0, 2)],
    },
)


def test_points_are_listed_kind_by_kind() -> None:
    """Every step, and every point as often as somebody came by."""
    assert [str(each) for each in points(RUN, ("commit", "step"))] == [
        "commit lost #1",
        "commit lost #2",
        "step #1",
        "step #2",
    ]


def test_points_of_one_moment_are_one_and_the_telling_one_comes_first() -> None:
    """Who is stopped keeps its memory: there each point is one of its own."""
    groups = classes(RUN, ("step", "sql", "commit"))

    assert [[str(each) for each in group] for group in groups] == [
        ["commit lost #1", "step #1"],
        ["step #2"],
        ["commit lost #2", "sql before #1"],
    ]
    assert len(classes(RUN, ("freeze",))) == 2


def test_once_a_moment_is_at_its_first_step() -> None:
    """Two steps with nothing between them are alike to who is stopped; where nobody noted moments each is a stop."""
    run = replace(RUN, steps=4, moments={("step", ""): [(0.0, 1), (0.0, 1), (0.0, 3), (0.0, 3)]})

    assert [(each.kind, each.count) for each in points(run, (FREEZE_ONCE,))] == [("freeze", 1), ("freeze", 3)]
    assert len(points(replace(run, moments={}), (FREEZE_ONCE,))) == 4


@pytest.mark.parametrize(
    ("cell", "column"),
    [
        (Cell(profile="http-keys"), "no crash"),
        (replace(DIED, crash=None, script=("503", "500", "ok")), "sequence of 3"),
        (DIED, "worker: commit"),
        (replace(DIED, script=("503", "500")), "worker: commit in a sequence"),
        (replace(DIED, again=CrashPoint("step", "", 1)), "worker: commit, twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_cell_stands_in_one_column(cell: Cell, column: str) -> None:
    """By who dies, where, and behind what."""
    assert crash_of(cell) == column


def test_one_future_may_have_two_pasts() -> None:
    """What was on the wire before the crash counts for the end, not for the future."""
    one, other = Outcome(cell=DIED, trace="a", future="x"), Outcome(cell=DIED, trace="b", future="x")

    assert same_future(one, other)
    assert not same_end(one, other)
    assert not same_future(one, Outcome(cell=DIED, trace="a", future="y"))
