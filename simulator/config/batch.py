"""The table `[batch]`: how an account's provider treats several mails in one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.config.forms import read_choice, read_code, read_whole
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.batch import MODES, RESULTS, BatchRules

#: How each setting is read; a test holds that every field of `BatchRules` stands here.
SETTINGS: dict[str, Any] = {
    "max_mails": lambda place, key, value: read_whole(place, key, value, least=1),
    "mode": lambda place, key, value: read_choice(place, key, value, MODES),
    "results": lambda place, key, value: read_choice(place, key, value, RESULTS),
    "mixed_status": read_code,
    "none_status": read_code,
}


def read_batch(data: object, place: Place) -> BatchRules:
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, SETTINGS)
    return BatchRules(**{key: SETTINGS[key](place, key, value) for key, value in data.items()})
