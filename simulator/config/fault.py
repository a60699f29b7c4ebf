"""What goes wrong: the name of a fault or of one of its spellings, and its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from simulator.config.forms import PARAMETERS
from simulator.config.place import Place, did_you_mean, shown
from simulator.provider.faults import FAULTS, SPELLINGS, Fault


def read_fault(place: Place, data: Mapping[str, Any], known: Collection[str]) -> tuple[Fault, str | None]:
    """Read the fault of a table, and the stage that its spelling fixes. `known`: keys that others read."""
    known = ("fault", *known)
    name, spelling_stage, defaults = _named(place, data)
    kind = FAULTS[name]
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key in data:
        if key in known or key in fields:
            continue
        if key in PARAMETERS:
            having = [f'"{other}"' for other, it in FAULTS.items() if _has_field(it, key)]
            raise place.wrong(
                f'the fault "{data["fault"]}" has no key "{key}"; it belongs to {" and ".join(having)}'
            )
        raise place.wrong(f'there is no key "{key}"; {did_you_mean(key, (*known, *fields))}')
    parameters = defaults | {key: PARAMETERS[key](place, key, data[key]) for key in fields if key in data}
    for key, field in fields.items():
        if key not in parameters and field.default is dataclasses.MISSING:
            raise place.wrong(f'the fault "{data["fault"]}" needs the key "{key}"')
    return kind(**parameters), spelling_stage


def _has_field(kind: type[Fault], key: str) -> bool:
    return any(field.name == key for field in dataclasses.fields(kind))


def _named(place: Place, data: Mapping[str, Any]) -> tuple[str, str | None, dict[str, Any]]:
    """Return the fault's own name, the stage its spelling fixes, and the spelling's defaults."""
    if "fault" not in data:
        raise place.wrong(f'the key "fault" is missing; known are {", ".join(sorted({*FAULTS, *SPELLINGS}))}')
    given = data["fault"]
    if isinstance(given, str) and given in FAULTS:
        return given, None, {}
    if isinstance(given, str) and given in SPELLINGS:
        spelling = SPELLINGS[given]
        return spelling.fault, spelling.stage, dict(spelling.defaults)
    raise place.wrong(
        f'"fault" is {shown(given)}, which is no fault; {did_you_mean(given, {*FAULTS, *SPELLINGS})}'
    )
