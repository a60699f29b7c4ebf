"""Lengths of time are read as people write them."""

from __future__ import annotations

import pytest

from simulator.config.durations import read_duration, seconds_of
from simulator.config.place import Place, PlanError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("30s", 30),
        ("1.5 h", 5400),
        ("4 minutes", 240),
        ("5M", 300),
        ("250ms", 0.25),
        ("2 days", 172_800),
    ],
)
def test_a_number_with_a_unit_is_a_duration(text: str, seconds: float) -> None:
    assert read_duration(Place("p"), "x", text) == seconds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("soon", 'x is "soon"; it must be a length of time like 90, 30s, 5m, 2h or 1d'),
        ("", "it must be a length of time"),
        ("-3s", "it must be a length of time"),
        ("1e9", "it must be a length of time"),
        ("5 mintues", 'there is no unit "mintues", did you mean "minutes"?'),
        ("9" * 20, "it must be a length of time"),
    ],
)
def test_what_is_none_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_duration(Place("p"), "x", text)
    assert says in str(caught.value)


def test_short_units_have_no_plural() -> None:
    assert (seconds_of("ss"), seconds_of("hs"), seconds_of("s"), seconds_of("seconds")) == (
        None,
        None,
        1.0,
        1.0,
    )
