"""The table `[retention]`, and the options of `serve` that say the same: how much of the ledger is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from simulator.config.durations import read_duration
from simulator.config.forms import read_number, read_whole
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.retention import Retention

#: More mails, or bytes of them, nobody has.
MOST_KEPT = 10**18 - 1

#: Bytes of each unit. In powers of 1000, as disks are sold.
SIZES = {"": 1, "b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000, "tb": 1_000_000_000_000}
_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)


def read_size(place: Place, key: str, value: object) -> int:
    """Read a number of bytes, or a text like `500MB` or `2 GB`. Raise `PlanError`."""
    if isinstance(value, str):
        form = _SIZE.fullmatch(value.strip())
        if form is None or form["unit"].lower() not in SIZES:
            raise place.wrong(f"{key} is {shown(value)}; it must be a size like 500000, 64kB, 500MB or 2GB")
        unit = SIZES[form["unit"].lower()]
        # Whole numbers are not sent through floats, which have no more than fifteen digits that can be trusted.
        size = _whole(form["number"]) * unit if form["number"].isdecimal() else float(form["number"]) * unit
    else:
        size = read_whole(place, key, value)
    if size > MOST_KEPT:
        raise place.wrong(f"{key} is {shown(value)}; it must be a size of {MOST_KEPT:,} bytes at most")
    return int(size)


def read_age(place: Place, key: str, value: object) -> float:
    """Read seconds, or a text like `7 days`. Raise `PlanError`."""
    seconds = read_duration(place, key, value) if isinstance(value, str) else value
    return read_number(place, key, seconds)


def read_count(place: Place, key: str, value: object) -> int:
    """Read a whole number, also from a text. Raise `PlanError`."""
    is_text = isinstance(value, str) and value.strip().isdecimal()
    count = read_whole(place, key, _whole(str(value).strip()) if is_text else value)
    if count > MOST_KEPT:
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a whole number of {MOST_KEPT:,} at most')
    return count


def _whole(digits: str) -> int:
    """Return the number, or one that is too large: thousands of digits are not read (Python does not either)."""
    return int(digits) if len(digits) <= len(str(MOST_KEPT)) else MOST_KEPT + 1


#: How each bound is read; a test holds that every field of `Retention` stands here.
RETENTION_KEYS: dict[str, tuple[str, Callable[[Place, str, object], Any]]] = {
    "age": ("age_s", read_age),
    "count": ("count", read_count),
    "bytes": ("bytes", read_size),
}


def read_retention(data: object, place: Place) -> Retention:
    """Read the table `[retention]`. Raise `PlanError`."""
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, RETENTION_KEYS)
    return Retention(
        **{
            field: read(place, key, data[key])
            for key, (field, read) in RETENTION_KEYS.items()
            if data.get(key) is not None
        }
    )
