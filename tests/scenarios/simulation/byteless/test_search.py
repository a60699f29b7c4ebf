"""The search covers what it says, finds what is planted, and finds nothing in the reference sender."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from scenarios.simulation.behaviours import columns
from scenarios.simulation.byteless.cell import Shelves, play
from scenarios.simulation.byteless.search import (
    DRAWN,
    KINDS,
    Area,
    Searched,
    Size,
    areas,
    kinds_of,
    never_struck,
    search,
    stop_before,
)
from scenarios.simulation.byteless.searchers import Searcher
from scenarios.simulation.byteless.sender import Sender
from scenarios.simulation.cast import REFERENCE
from scenarios.simulation.cell import Cell
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.profiles import BY_ID, PROFILES

UNMARKED = "tests.scenarios.simulation.planted:unmarked"


def reference(profile: str) -> Sender:
    return Sender(profile=BY_ID[profile])


def test_the_reference_sender_is_clean() -> None:
    """Every behaviour × every crash point of every profile, and each behaviour really struck."""
    searcher = Searcher(REFERENCE)
    searched = [searcher.search(area) for area in areas(Size.QUICK)]

    assert [each.error for each in searched if each.error] == []
    assert [str(found.cell) for each in searched for found in each.found] == []
    assert never_struck(searched, "{0}: {1}".format) == []
    assert sum(each.cells for each in searched) > 8_000
    assert sum(each.played for each in searched) < sum(each.cells for each in searched) / 2


def test_classes_cover_what_they_say() -> None:
    """As many cells as there are crash points, whether each is played or one for many."""
    area = Area(profile="smtp-at-most-once", script=("dot 451",))
    classed, every = (search(area, reference(area.profile), every=each) for each in (False, True))

    assert classed.cells == every.cells == every.played
    assert classed.played < every.played / 2
    assert (classed.failed, every.failed, classed.error, every.error) == (0, 0, None, None)
    assert classed.fired == every.fired == {"1: dot 451"}


def test_two_crashes_and_stops_are_searched() -> None:
    """Every pair of crash points, and a stop at every step, by its name if it has one."""
    profile = "http-keys"
    once = search(Area(profile=profile, script=("503",)), reference(profile))
    twice = search(Area(profile=profile, script=("503",), twice=True), reference(profile))
    stopped = search(
        Area(profile=profile, script=("503",), kinds=(), holds_s=(0.001, 35.0)), reference(profile)
    )

    assert twice.cells > 20 * once.cells
    assert stopped.cells > 40
    assert [each.failed for each in (once, twice, stopped)] == [0, 0, 0]


def test_a_stop_is_called_by_a_name_that_holds_on_the_wire() -> None:
    """If there is one in the step before."""
    sender = reference("smtp-at-most-once")
    dry = play(Cell(profile="smtp-at-most-once", script=("ok",)), sender, Shelves(), counts=True)
    stops = [stop_before(dry, step) for step in range(1, dry.steps + 1)]

    assert CrashPoint("freeze", "point after mark", 1) in stops
    assert CrashPoint("freeze", "point after settle", 1) in stops
    assert CrashPoint("freeze", "reply whole", 3) in stops
    assert CrashPoint("freeze", "", 1) in stops
    assert len(set(stops)) == len(stops)


def test_what_is_planted_is_found() -> None:
    """A sender that commits nothing at the point of no return sends twice after a crash."""
    searcher = Searcher(UNMARKED)
    searched = searcher.search(Area(profile="smtp-at-most-once", script=("ok",)))

    assert searched.found
    assert {kinds_of(each.findings) for each in searched.found} == {("duplicated",)}
    assert searched.failed > 5
    assert len(searched.found) == 2, "a few of a kind are enough"
    assert searched.played == searched.cells, "another sender may remember what no world sees"


def test_the_same_dice_draw_the_same_cells() -> None:
    """A random search can be repeated, and another seed is another search."""

    def drawn(seed: int) -> Searched:
        (area,) = itertools.islice(areas(Size.RANDOM, ["http-keys"], seed=seed), 1)
        return dataclasses.replace(search(area, reference(area.profile)), cpu_s=0.0)

    one, again, other = drawn(7), drawn(7), drawn(8)
    assert one == again
    assert one.fired != other.fired
    assert one.cells == one.played >= DRAWN / 2
    assert one.error is None
    assert one.found == []


def test_a_part_that_speaks_sql_breaks_the_area_off() -> None:
    """It says nothing about the sender, and is not taken for clean."""
    searcher = Searcher("tests.scenarios.simulation.planted:unfenced")
    searched = searcher.search(Area(profile="smtp-at-most-once", script=("ok",)))

    assert searched.error is not None
    assert "in SQL" in searched.error
    assert searched.found == []


@pytest.mark.parametrize("size", [Size.QUICK, Size.WIDE, Size.PAIRS])
def test_a_size_is_what_it_says(size: Size) -> None:
    """All of it, each area once, the smallest scripts first."""
    listed = list(areas(size))

    assert len({each.id for each in listed}) == len(listed)
    assert [len(each.script) for each in listed] == sorted(len(each.script) for each in listed)
    assert {each.profile for each in listed} == {each.id for each in PROFILES}
    scripts = {each.script for each in listed if each.profile == "http-keys"}
    names = set(columns("http-keys", "http", byteless=True))
    if size is Size.PAIRS:
        assert scripts == set(itertools.product(names - {"ok"}, repeat=2))
        assert {each.shape for each in listed} == {"one mail", "two mails, two workers"}
    else:
        assert scripts == {(name,) for name in names}
    assert all(each.kinds in ((), KINDS) for each in listed)


def test_what_was_searched_in_name_only_is_told() -> None:
    """A rule that never strikes says nothing."""
    searched = Searched(area=Area(profile="smtp-at-most-once", script=("dot 451",)))

    assert never_struck([searched], "{0}: {1}".format) == ["smtp-at-most-once: dot 451"]
    searched.fired = {"1: dot 451"}
    assert never_struck([searched], "{0}: {1}".format) == []
