"""How a line ends."""

from __future__ import annotations

import pytest

from simulator.provider.answer import Hang, HangUp, Reset
from simulator.provider.faults.endings import End, ending


@pytest.mark.parametrize(("end", "answer"), [("hang_up", HangUp()), ("reset", Reset()), ("hang", Hang())])
def test_a_line_ends_as_it_is_told(end: str, answer: Hang | HangUp | Reset) -> None:
    assert ending(End(end)) == answer
