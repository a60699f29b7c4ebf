"""The table `[returns]`: to which mail server bounces and complaints come back, and which of them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulator.config.forms import read_choice, read_flag, read_number, read_text
from simulator.config.place import Place, refuse_unknown, shown
from simulator.config.webhooks import read_schedule
from simulator.provider.returns import ReturnRules

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}))"


def _server(place: Place, key: str, value: object) -> str:
    text = read_text(place, key, value)
    found = re.fullmatch(rf"({_HOST}):([0-9]{{1,5}})", text)
    if found is None or not 0 < int(found[2]) < 65_536:
        raise place.wrong(f'"{key}" is {shown(text)}; it must be HOST:PORT, like "127.0.0.1:2525"')
    return text


def _wires(place: Place, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a list of smtp and http')
    return tuple(read_choice(place, key, each, ("smtp", "http")) for each in value)


def _hostname(place: Place, key: str, value: object) -> str:
    text = read_text(place, key, value)
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})", text):
        raise place.wrong(f'"{key}" is {shown(text)}; it must be a host name')
    return text


def _mailbox(place: Place, key: str, value: object) -> str:
    text = read_text(place, key, value)
    if not re.fullmatch(r"[^\s<>,;@\x00-\x1f\x7f]+@[^\s<>,;@\x00-\x1f\x7f]+", text):
        raise place.wrong(f'"{key}" is {shown(text)}; it must be an address, like "abuse@example.org"')
    return text


#: How each key is read; a test holds that every setting stands here.
RETURN_KEYS: dict[str, Callable[[Place, str, object], Any]] = {
    "smtp": _server,
    "of": _wires,
    "hostname": _hostname,
    "delays": read_flag,
    "complaints_to": _mailbox,
    "timeout_s": lambda place, key, value: read_number(place, key, value, above_zero=True),
    "schedule_s": read_schedule,
}
#: What JSON may say is not there.
_MAY_BE_NULL = ("smtp", "complaints_to")


def read_returns(data: object, place: Place) -> ReturnRules:
    """Read the table. Raise `PlanError`."""
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, RETURN_KEYS)
    given: dict[str, Any] = {
        key: read(place, key, data[key])
        for key, read in RETURN_KEYS.items()
        if key in data and not (data[key] is None and key in _MAY_BE_NULL)
    }
    return ReturnRules(**given)


def returns_as_json(rules: ReturnRules) -> dict[str, Any]:
    """Return settings as somebody would write them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(rules).items()
    }
