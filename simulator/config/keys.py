"""The table `[idempotency]`: how an account treats idempotency keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from simulator.config.forms import read_flag, read_number
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.idempotency import KeyRules


def read_keys(data: object, place: Place) -> KeyRules:
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, [field.name for field in dataclasses.fields(KeyRules)])
    given: dict[str, Any] = {
        key: read_flag(place, key, value)
        if key in ("honoured", "required")
        else read_number(place, key, value)
        for key, value in data.items()
    }
    rules = KeyRules(**given)
    if rules.required and not rules.honoured:
        raise place.wrong(
            '"required" is true and "honoured" is false; a key that is asked for must be honoured'
        )
    return rules
