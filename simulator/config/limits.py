"""The table `[limits]`: how much an account may send."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from simulator.config.forms import read_number, read_whole
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.limits import Limits


def read_limits(data: object, place: Place) -> Limits:
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, [field.name for field in dataclasses.fields(Limits)])
    given: dict[str, Any] = {}
    for key, value in data.items():
        if value is None and key != "burst":  # JSON's null: no limit
            given[key] = None
        elif key == "rate_per_s":
            given[key] = read_number(place, key, value, above_zero=True)
        else:
            given[key] = read_whole(place, key, value, least=1)
    return Limits(**given)
