"""The table `[idempotency]`: how an account treats idempotency keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.config.forms import (
    read_choice,
    read_flag,
    read_header_name,
    read_number,
    read_text,
    read_whole,
)
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.idempotency import CARRIERS, FORMS, WAYS, KeyRules

#: How each setting is read; a test holds that every field of `KeyRules` stands here.
SETTINGS: dict[str, Any] = {
    "honoured": read_flag,
    "required": read_flag,
    "window_s": read_number,
    "lookup_lag_s": read_number,
    "header": read_header_name,
    "replay_header": read_header_name,
    "body_field": read_text,
    "max_chars": lambda place, key, value: read_whole(place, key, value, least=1),
    "in_flight_s": read_number,
    "carrier": lambda place, key, value: read_choice(place, key, value, CARRIERS),
    "form": lambda place, key, value: read_choice(place, key, value, FORMS),
    **{situation: lambda place, key, value: read_choice(place, key, value, WAYS[key]) for situation in WAYS},
}


def read_keys(data: object, place: Place) -> KeyRules:
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, SETTINGS)
    rules = KeyRules(**{key: SETTINGS[key](place, key, value) for key, value in data.items()})
    if rules.required and not rules.honoured:
        raise place.wrong(
            '"required" is true and "honoured" is false; a key that is asked for must be honoured'
        )
    if rules.carrier != "header" and not all(rules.body_field.split(".")):
        raise place.wrong(
            f'"body_field" is {shown(rules.body_field)}; it must name a member of the JSON body, like "idempotency_key"'
        )
    return rules
