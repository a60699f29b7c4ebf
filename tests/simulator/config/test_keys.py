"""The table `[idempotency]` is read as it is meant."""

from __future__ import annotations

from simulator.config.keys import read_keys
from simulator.config.place import Place
from simulator.provider.idempotency import KeyRules


def test_what_is_not_given_stays_as_usual() -> None:
    assert read_keys({}, Place("p")) == KeyRules()
    assert read_keys({"window_s": 5}, Place("p")) == KeyRules(window_s=5.0)
