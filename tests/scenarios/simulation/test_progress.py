"""Tests of how far a run is said to be."""

from __future__ import annotations

from scenarios.simulation.matrix import Size, blocks
from scenarios.simulation.played import Played
from scenarios.simulation.progress import Course, weight


def test_every_block_weighs_something() -> None:
    """Or the bar would stand still."""
    assert all(weight(block) > 0 for block in blocks(Size.FULL))


def test_what_a_journal_knew_is_done_and_says_nothing_about_the_pace() -> None:
    """Half is known at once; a quarter takes ten seconds, so the last one will, too."""
    todo = [block for block in blocks(Size.QUICK, ("http-keys",)) if block.kinds == ("commit",)][:4]
    time = iter([0.0, 1.0, 1.0, 11.0, 21.0])
    course = Course(todo, known={block.id for block in todo[:2]}, now=lambda: next(time))
    said = []
    for block in todo:
        course.ends(Played(block=block.id, profile=block.profile, cells=3, played=2))
        said.append((round(course.part, 3), course.left_s and round(course.left_s, 3)))

    assert said == [(0.25, None), (0.5, None), (0.75, 10.0), (1.0, 0.0)]
    assert str(course) == "4 of 4 blocks (100%), 12 cells by 8 worlds, 0 failed"
