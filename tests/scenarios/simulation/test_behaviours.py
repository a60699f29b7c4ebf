"""Tests of the behaviours: each is a rule that the simulator takes, at a stage where it can strike."""

from __future__ import annotations

import pytest

from scenarios.simulation.behaviours import BY_WIRE, HEALTHY, HTTP, SMTP, Behaviour
from simulator.config import read_plan, warnings
from simulator.provider.faults import FAULTS
from tests.simulator.provider.faults.samples import sample


@pytest.mark.parametrize(
    ("wire", "behaviour"),
    [(wire, each) for wire, table in BY_WIRE.items() for each in table.values() if each.rule],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_behaviour_is_a_rule_of_the_plan_language(wire: str, behaviour: Behaviour) -> None:
    """It is read without a complaint and without a warning."""
    setup = read_plan({"rule": [{"dialect": wire, "attempt": 1, **behaviour.rule}]}, "test")

    assert warnings(setup) == []


def test_names_are_unique() -> None:
    """A name says which column of the matrix is meant."""
    assert len(BY_WIRE["http"]) == len(HTTP)
    assert len(BY_WIRE["smtp"]) == len(SMTP)


def test_both_wires_can_be_healthy() -> None:
    """The first column is the provider without any fault."""
    assert BY_WIRE["http"]["ok"] is BY_WIRE["smtp"]["ok"] is HEALTHY


@pytest.mark.parametrize("wire", sorted(BY_WIRE))
def test_every_kind_of_fault_takes_part(wire: str) -> None:
    """A fault that no column shows would be proved nowhere."""
    spoken = {each.rule.get("fault") for each in BY_WIRE[wire].values()}
    # `hold` is for harnesses with hands; recipients refused one by one are a shape, not an attempt.
    elsewhere = {"hold", "refuse_recipients"}
    # Odd forms of one wire or of an answer: what a sender sees of them is tested on the wire (tests/simulator/servers).
    shown = {"redirect", "gateway", "odd_body"}
    elsewhere |= {name for name, fault in FAULTS.items() if set(fault.stages) in ({"http"}, {"smtp"})} - shown
    elsewhere |= {"drip", "two_answers"}
    answers = {
        name for name, fault in FAULTS.items() if wire in fault.stages and sample(name).answer() is not None
    }

    assert answers - elsewhere <= spoken
