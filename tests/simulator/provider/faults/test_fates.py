"""Tests of the fault that decides what becomes of a mail."""

from __future__ import annotations

from simulator.provider.fate import Destiny, Fate
from simulator.provider.faults import DecideFate


def test_it_answers_nothing_and_hands_its_particulars_on() -> None:
    """The sender hears an ordinary yes; what the rule says of the fate is in the destiny."""
    fault = DecideFate(
        fate=Fate.SOFT_BOUNCE,
        after_s=2,
        code=450,
        enhanced="4.2.1",
        text="away",
        category="policy",
        suppresses=False,
    )

    assert fault.answer() is None
    assert fault.destiny() == Destiny(
        fate=Fate.SOFT_BOUNCE,
        after_s=2,
        code=450,
        enhanced="4.2.1",
        text="away",
        category="policy",
        suppresses=False,
    )
