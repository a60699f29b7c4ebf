"""Names that were seen, perhaps."""

from __future__ import annotations

import pytest

from simulator.provider.seen import FEW, Seen


@pytest.mark.parametrize("many", [1, FEW, FEW + 1, 3 * FEW])
def test_what_was_seen_is_known(many: int) -> None:
    seen = Seen()
    names = [f"order-{n}-confirmation" for n in range(many)]
    assert [name for name in names if name in seen] == []

    seen.update(names)

    assert [name for name in names if name not in seen] == []


def test_few_others_are_taken_for_seen() -> None:
    """0.5 % of those that go into few bits, and next to none of the thousands behind them."""
    seen = Seen()
    seen.update(f"order-{n}" for n in range(FEW + 1_000))

    assert sum(f"other-{n}" in seen for n in range(20_000)) < 300


def test_who_has_seen_little_is_small() -> None:
    """There may be thousands of accounts."""
    seen = Seen()
    seen.update(f"order-{n}" for n in range(FEW - 1))

    assert seen._many is None
