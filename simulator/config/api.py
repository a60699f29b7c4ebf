"""The table `[http]`: how an account's HTTP API is cut."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simulator.config.forms import read_choice, read_flag, read_header_name, read_number
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.api import RATE_FIELDS, ApiRules


def _read_aliases(place: Place, key: str, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise place.wrong(
            f'"{key}" is {shown(value)}; it must be a table of paths and header names, like {{ "/send" = "X-Key" }}'
        )
    for path, header in value.items():
        if not re.fullmatch(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+/?", path) or path.startswith(
            ("/_simulator", "/metrics", "/v1/emails/")
        ):
            raise place.wrong(f'"{key}" names {shown(path)}; it must be a path of its own, like "/mail/send"')
        if not read_header_name(place, f"{key}.{path}", header):
            raise place.wrong(f'"{key}" gives {shown(path)} no header; name one, like "Idempotency-Key"')
    return tuple(value.items())


#: How each setting is read; a test holds that every field of `ApiRules` stands here.
SETTINGS: dict[str, Any] = {
    "api_key_required": read_flag,
    "request_gzip": read_flag,
    "keep_alive_s": lambda place, key, value: read_number(place, key, value, above_zero=True),
    "rate_fields": lambda place, key, value: read_choice(place, key, value, RATE_FIELDS),
    "aliases": _read_aliases,
}


def read_api(data: object, place: Place) -> ApiRules:
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, SETTINGS)
    return ApiRules(**{key: SETTINGS[key](place, key, value) for key, value in data.items()})
