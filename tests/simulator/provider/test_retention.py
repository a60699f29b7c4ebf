"""How much is kept."""

from __future__ import annotations

import pytest

from simulator.provider.retention import FOR_EVER, Retention


@pytest.mark.parametrize("bounds", [{"age_s": 1.0}, {"count": 0}, {"bytes": 7}])
def test_any_bound_is_a_bound(bounds: dict[str, float]) -> None:
    assert Retention(**bounds).is_bounded  # type: ignore[arg-type]
    assert not FOR_EVER.is_bounded
