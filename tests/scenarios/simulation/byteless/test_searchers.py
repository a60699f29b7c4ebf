"""Areas are spread over processes, and come back whole."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from scenarios.simulation.byteless.search import Area, Searched, Size, areas
from scenarios.simulation.byteless.searchers import Searcher, run
from scenarios.simulation.byteless.sender import OnlyOnTheWire
from scenarios.simulation.cast import REFERENCE, CastError


def ran(todo: list[Area], jobs: int) -> list[Searched]:
    done: list[Searched] = []
    run(todo, jobs=jobs, sender=REFERENCE, each=done.append)
    return sorted((replace(each, cpu_s=0.0) for each in done), key=lambda each: each.area.id)


def test_two_processes_find_what_one_finds() -> None:
    """Counts, rules and times; only the order in which they come is chance."""
    todo = list(itertools.islice(areas(Size.QUICK, ["smtp-at-most-once"]), 4))

    assert ran(todo, 2) == ran(todo, 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_enough_is_enough(jobs: int) -> None:
    """A search without an end ends when it is told to."""
    done: list[Searched] = []
    endless = areas(Size.RANDOM, ["http-keys"])

    run(endless, jobs=jobs, sender=REFERENCE, each=done.append, enough=lambda: len(done) >= 2)

    assert 2 <= len(done) <= 2 + jobs


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_sender_that_is_none_is_told(jobs: int) -> None:
    """Across processes, too."""
    with pytest.raises(CastError, match="no sender is called 'nonsense'"):
        run([Area(profile="http-keys", script=("ok",))], jobs=jobs, sender="nonsense", each=print)


def test_a_program_of_its_own_is_told() -> None:
    """Anybody's asyncio sender is for the wire level."""
    searcher = Searcher("scenarios.simulation.python_sender:PythonSender")

    with pytest.raises((OnlyOnTheWire, TypeError)):
        searcher.search(Area(profile="http-keys", script=("ok",)))
