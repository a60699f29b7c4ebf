"""How an account takes batches. What becomes of one is in `test_batches.py`."""

from __future__ import annotations

from simulator.provider.batch import MODES, RESULTS, BatchRules


def test_an_account_that_was_not_set_up_takes_batches_in_the_first_ways() -> None:
    rules = BatchRules()

    assert (rules.mode, rules.results) == (MODES[0], RESULTS[0])
