"""Lengths of time as people write them: `10 s`, `1.5h`, `4 minutes`."""

from __future__ import annotations

import re

from simulator.config.place import Place, did_you_mean, shown

#: Seconds of each unit; the long names may have their plural.
UNITS: dict[str, float] = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86_400.0,
    "day": 86_400.0,
}
NAMES = frozenset({*UNITS, *(f"{unit}s" for unit in UNITS if len(unit) > 2)})
_FORM = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)


def seconds_of(unit: str) -> float | None:
    """Return how many seconds a unit has; None: it is none."""
    name = unit.lower()
    return UNITS[name if name in UNITS else name.removesuffix("s")] if name in NAMES else None


def read_duration(place: Place, key: str, text: str) -> float:
    """Return the seconds of a length of time; without a unit they are seconds. Raise `PlanError`."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise place.wrong(f"{key} is {shown(text)}; it must be a length of time like 90, 30s, 5m, 2h or 1d")
    if len(form["number"]) > 15:
        raise place.wrong(f"{key} is {shown(text)}; it must be a length of time of a hundred years at most")
    seconds = seconds_of(form["unit"] or "s")
    if seconds is None:
        raise place.wrong(
            f"{key} is {shown(text)}; there is no unit {shown(form['unit'])}, {did_you_mean(form['unit'], NAMES)}"
        )
    return float(form["number"]) * seconds
