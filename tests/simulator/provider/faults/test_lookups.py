"""The faults of the look-up answer nothing themselves; each sees the ledger in its own wrong way."""

from __future__ import annotations

from simulator.provider.faults import FindEverything, FindNothing, FindWhatWas
from simulator.provider.lookup import View


def test_each_has_its_view() -> None:
    assert FindNothing().view() == View(hides=True)
    assert FindWhatWas(age_s=5).view() == View(age_s=5)
    assert FindEverything().view() == View(everything=True)


def test_they_exist_at_the_look_up_only() -> None:
    for fault in (FindNothing(), FindWhatWas(age_s=5), FindEverything()):
        assert fault.stages == {"http": ("lookup",)}
        assert fault.answer() is None
