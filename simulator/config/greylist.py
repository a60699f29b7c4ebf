"""The table `[greylist]`: how long who is put off that comes for the first time, and who never is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulator.config.forms import read_enhanced, read_flag, read_number, read_pattern, read_text, read_whole
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.greylist import Greylist
from simulator.provider.rule import Pattern


def read_greylist(data: object, place: Place) -> Greylist | None:
    """Read the table; JSON's null: nobody is put off. Raise `PlanError`."""
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, FORMS)
    given: dict[str, Any] = {key: FORMS[key](place, key, value) for key, value in data.items()}
    rules = Greylist(**given)
    if rules.within_s <= rules.delay_s:
        raise place.wrong(
            f'"within_s" is {rules.within_s:g} and "delay_s" is {rules.delay_s:g}; nobody could come back in time, '
            f'so make "within_s" the longer one'
        )
    return rules


def greylist_as_json(rules: Greylist | None) -> dict[str, Any] | None:
    """Return the table as somebody would write it."""
    if rules is None:
        return None
    return dataclasses.asdict(rules) | {"whitelist": [pattern.text for pattern in rules.whitelist]}


def _patterns(place: Place, key: str, value: object) -> tuple[Pattern, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise place.wrong(
            f'"{key}" is {shown(value)}; it must be a list like ["*@partner.example", "192.0.2.0/24"]'
        )
    return tuple(read_pattern(place, key, each) for each in value)


def _temporary(place: Place, key: str, value: object) -> int:
    code = read_whole(place, key, value)
    if not 400 <= code <= 499:
        raise place.wrong(f'"{key}" is {code}; who is to come back is told so by a code from 400 to 499')
    return code


#: How each setting is written; a test holds that every field of `Greylist` stands here.
FORMS: dict[str, Callable[[Place, str, object], Any]] = {
    "delay_s": read_number,
    "within_s": read_number,
    "remember_s": read_number,
    "whole_network": read_flag,
    "whitelist": _patterns,
    "code": _temporary,
    "enhanced": read_enhanced,
    "text": read_text,
    "tells": read_flag,
}
