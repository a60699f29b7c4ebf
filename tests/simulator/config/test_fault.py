"""The name of a fault and its parameters. Every mistake: tests/simulator/config/test_rules.py."""

from __future__ import annotations

import pytest

from simulator.config.fault import read_fault
from simulator.config.place import Place, PlanError
from simulator.provider.faults import HangUpOnThem, ReplyWith


def test_a_spelling_says_at_which_stage() -> None:
    assert read_fault(Place("p"), {"fault": "accept_then_hang_up"}, ()) == (HangUpOnThem(), "reply")
    assert read_fault(Place("p"), {"fault": "reply", "code": 451}, ()) == (ReplyWith(code=451), None)


def test_keys_of_others_are_left_to_them() -> None:
    assert read_fault(Place("p"), {"fault": "hang_up", "who": 1}, ("who",)) == (HangUpOnThem(), None)
    with pytest.raises(PlanError, match='there is no key "who"'):
        read_fault(Place("p"), {"fault": "hang_up", "who": 1}, ())
