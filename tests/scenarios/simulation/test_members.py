"""What is demanded of a campaign, by made-up histories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scenarios.history import History, Said
from scenarios.simulation.members import Course, Rest, judged, promised
from scenarios.simulation.shapes import CAMPAIGNS
from simulator.provider.obligations import Reported
from tests.scenarios.made import at, copy, tried

MEMBERS = CAMPAIGNS["a campaign"].owed
ONE, TWO, THREE = (each.recipients[0] for each in MEMBERS[:3])
COURSE = Course(began_at=at(0), gap_s=30.0)


def found(course: Course, *tries: tuple[float, str], taken: bool = True) -> list[str]:
    """What is found where members were tried at these times."""
    attempts = tuple(
        tried(
            number, recipients=(who,), took=taken, begins_s=begins_s, sent="complete" if taken else "nothing"
        )
        for number, (begins_s, who) in enumerate(tries)
    )
    return [each.kind for each in judged(MEMBERS, History(attempts=attempts), course)]


def test_each_at_his_turn_is_right() -> None:
    """Or later; nobody is in a hurry."""
    assert found(COURSE, (0.0, ONE), (31.0, THREE)) == []
    assert found(COURSE, (70.0, ONE), (70.0, THREE)) == []


def test_who_must_not_be_written_to_is_not_even_put_in() -> None:
    """A row is too much."""
    assert found(COURSE, (0.0, TWO)) == ["suppressed and sent"]
    said = Said(key="k", recipient=TWO, state=Reported.SUPPRESSED)
    assert [each.kind for each in judged(MEMBERS, History(said=(said,)), COURSE)] == ["suppressed and sent"]


def test_nobody_is_written_to_before_his_turn() -> None:
    """A second is what is on its way. Whose turn it is the campaign may choose."""
    assert found(COURSE, (0.0, THREE), (29.5, ONE)) == []
    assert found(COURSE, (0.0, ONE), (20.0, THREE)) == ["too fast"]


@pytest.mark.parametrize(("until", "kind"), [(at(100), "paused and sent"), (None, "cancelled and sent")])
def test_nobody_new_is_written_to_while_it_rests(until: object, kind: str) -> None:
    """But who was in somebody's hands, or may have been taken already."""
    rest = Rest(since=at(40), until=until)  # type: ignore[arg-type] # a time, or none
    course = replace(COURSE, rests=(rest,))

    assert found(course, (0.0, ONE), (40.5, THREE)) == []
    assert found(course, (0.0, ONE), (45.0, THREE)) == [kind]
    assert found(course, (0.0, ONE), (110.0, THREE)) == ([kind] if until is None else [])
    in_hand = replace(course, rests=(replace(rest, in_hand=frozenset({THREE})),))
    assert found(in_hand, (0.0, ONE), (45.0, THREE)) == []
    assert found(course, (35.0, THREE), (45.0, THREE), taken=False) == []


def test_everybody_is_owed_but_who_must_not_be_written_to() -> None:
    """And of a campaign that was cancelled, who had not gone by then."""
    everybody = [(each.ref, each.recipients[0]) for each in MEMBERS if not each.suppressed]
    assert promised(MEMBERS, History(), COURSE) == everybody
    paused = replace(COURSE, rests=(Rest(since=at(40), until=at(100)),))
    assert promised(MEMBERS, History(), paused) == everybody

    cancelled = replace(COURSE, rests=(Rest(since=at(40), until=None),))
    assert promised(MEMBERS, History(), cancelled) == []
    assert promised(MEMBERS, History(acceptances=(copy(1, ONE),)), cancelled) == [(MEMBERS[0].ref, ONE)]
