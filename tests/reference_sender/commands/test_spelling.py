"""Durations and counts as people read them."""

from __future__ import annotations

import pytest

from reference_sender.commands.spelling import spelled_count, spelled_s


@pytest.mark.parametrize(
    ("seconds", "spelled"),
    [
        (0, "0 ms"),
        (0.084, "84 ms"),
        (1.25, "1.2 s"),
        (9.96, "10.0 s"),
        (59.7, "1 min"),
        (12, "12 s"),
        (64, "1 min 4 s"),
        (3_600, "1 h"),
        (7_500, "2 h 5 min"),
        (3_601, "1 h"),
        (190_800, "2 d 5 h"),
        (-64, "-1 min 4 s"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, spelled: str) -> None:
    assert spelled_s(seconds) == spelled


def test_a_count_has_its_noun() -> None:
    assert [spelled_count(n, "mail") for n in (0, 1, 12_345)] == ["0 mails", "1 mail", "12,345 mails"]
    assert spelled_count(2, "copy", "copies") == "2 copies"
