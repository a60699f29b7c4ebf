"""How much is kept, as people write it."""

from __future__ import annotations

import dataclasses

import pytest

from simulator.config.place import Place, PlanError
from simulator.config.retention import MOST_KEPT, RETENTION_KEYS, read_retention
from simulator.provider.retention import Retention

PLACE = Place("plan.toml", "[retention]")


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ({}, Retention()),
        ({"age": "7 days", "count": 1_000_000, "bytes": "2GB"}, Retention(age_s=604_800, count=1_000_000, bytes=2_000_000_000)),
        ({"age": 90, "count": "5", "bytes": "1.5 kB"}, Retention(age_s=90, count=5, bytes=1_500)),
        ({"bytes": 17, "age": None}, Retention(bytes=17)),
        ({"bytes": "17", "count": 0}, Retention(bytes=17, count=0)),
        ({"bytes": MOST_KEPT, "count": f" {MOST_KEPT} "}, Retention(bytes=MOST_KEPT, count=MOST_KEPT)),
    ],
    ids=str,
)  # fmt: skip
def test_bounds_are_read(written: dict[str, object], means: Retention) -> None:
    assert read_retention(written, PLACE) == means


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ([], r"plan\.toml: \[retention\]: this must be a table of settings, not \[\]"),
        ({"ages": 1}, 'did you mean "age"'),
        ({"age": "7 moons"}, 'there is no unit "moons"'),
        ({"age": -1}, "must be a number of 0 or more"),
        ({"count": 1.5}, "must be a whole number of 0 or more"),
        ({"count": "many"}, "must be a whole number of 0 or more"),
        ({"bytes": "2 GiB"}, "must be a size like 500000, 64kB, 500MB or 2GB"),
        ({"bytes": -1}, "must be a whole number of 0 or more"),
        (
            {"count": "9" * 40},
            r'"count" is "9{40}"; it must be a whole number of 999,999,999,999,999,999 at most$',
        ),
        ({"count": 10**18}, "must be a whole number of 999,999,999,999,999,999 at most$"),
        ({"bytes": "9" * 40}, "must be a size of 999,999,999,999,999,999 bytes at most$"),
        ({"bytes": "999999999TB"}, "must be a size of 999,999,999,999,999,999 bytes at most$"),
        ({"bytes": 10**18}, "must be a size of 999,999,999,999,999,999 bytes at most$"),
        ({"age": "9" * 40}, "must be a length of time of a hundred years at most$"),
    ],
    ids=str,
)
def test_what_is_no_bound_is_one_sentence(written: object, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        read_retention(written, PLACE)


@pytest.mark.parametrize("key", sorted(RETENTION_KEYS))
def test_more_digits_than_python_reads_are_one_sentence_too(key: str) -> None:
    with pytest.raises(PlanError, match=r" at most$"):
        read_retention({key: "9" * 5_000}, PLACE)


def test_every_bound_can_be_written() -> None:
    assert {field for field, _ in RETENTION_KEYS.values()} == {
        each.name for each in dataclasses.fields(Retention)
    }
