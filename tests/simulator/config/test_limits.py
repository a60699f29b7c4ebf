"""The table `[limits]` is read as it is meant."""

from __future__ import annotations

from simulator.config.limits import read_limits
from simulator.config.place import Place
from simulator.provider.limits import Limits


def test_what_is_not_given_stays_as_usual_and_null_is_no_limit() -> None:
    assert read_limits({}, Place("p")) == Limits()
    assert read_limits({"max_recipients": None, "burst": 3}, Place("p")) == Limits(
        max_recipients=None, burst=3
    )
