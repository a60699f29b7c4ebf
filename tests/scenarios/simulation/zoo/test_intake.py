"""Bad intakes: each is caught as what it is, while the intake without sin is clean in the same storms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.hearing import KINDS
from scenarios.promises import BY_NAME
from scenarios.simulation.world import silence
from scenarios.simulation.zoo.intake import INTAKES, MOST, BadIntake, hunt

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with silence():
        yield


@pytest.mark.parametrize("bad", INTAKES, ids=lambda bad: bad.name)
def test_a_bad_intake_is_caught(bad: BadIntake, tmp_path: Path) -> None:
    went = hunt(bad, tmp_path)
    assert [(name, finding.sentence) for name, finding in went.innocent] == []
    assert went.caught is not None, f"{bad.name} got away; seen was {went.seen}"


def test_whoever_has_no_sin_gets_away(tmp_path: Path) -> None:
    went = hunt(BadIntake(name="saint", sin="None.", kind="event lost", storms=("twice",)), tmp_path)
    assert (went.caught, went.seen) == (None, ())


def test_every_kind_of_finding_catches_somebody() -> None:
    assert {bad.kind for bad in INTAKES} == set(KINDS)
    assert len({bad.name for bad in INTAKES}) == len(INTAKES)
    assert MOST >= 53
    assert {name for bad in INTAKES for name in bad.promises} <= set(BY_NAME)
