"""The tables `[limits]` and `[[limit]]`: how much an account may send, and what it hears when it sends more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulator.config.forms import (
    read_choice,
    read_enhanced,
    read_number,
    read_pattern,
    read_text,
    read_whole,
)
from simulator.config.place import Place, refuse_unknown, shown
from simulator.provider.limits import Counts, Limit, Limits, Scope, Told

#: What may be null in JSON: no limit.
_COUNTS = ("per_minute", "per_hour", "per_day", "connections")
_RATE = ("rate_per_s", *_COUNTS)


def read_limits(data: object, place: Place) -> Limits:
    """Read the table `[limits]`."""
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


def _smtp(place: Place, key: str, value: object) -> int:
    code = read_whole(place, key, value)
    if not 400 <= code <= 599:
        raise place.wrong(
            f'"{key}" is {code}; it must be a reply code from 400 to 599, like 421, 450, 451 or 452'
        )
    return code


def _http(place: Place, key: str, value: object) -> int:
    status = read_whole(place, key, value)
    if not 400 <= status <= 599:
        raise place.wrong(f'"{key}" is {status}; it must be a status from 400 to 599, like 429 or 503')
    return status


def _rate(place: Place, key: str, value: object) -> float:
    return read_number(place, key, value, above_zero=True)


def _count(place: Place, key: str, value: object) -> int:
    return read_whole(place, key, value, least=1)


#: How each key of a `[[limit]]` is read; a test holds that every field of `Limit` stands here.
LIMIT_KEYS: dict[str, Callable[[Place, str, object], Any]] = {
    "name": read_text,
    "per": lambda place, key, value: Scope(read_choice(place, key, value, [each.value for each in Scope])),
    "only": read_pattern,
    "rate_per_s": _rate,
    "burst": _count,
    "per_minute": _count,
    "per_hour": _count,
    "per_day": _count,
    "connections": _count,
    "counts": lambda place, key, value: Counts(
        read_choice(place, key, value, [each.value for each in Counts])
    ),
    "smtp": _smtp,
    "enhanced": read_enhanced,
    "http": _http,
    "text": read_text,
    "retry_after": lambda place, key, value: Told(
        read_choice(place, key, value, [each.value for each in Told])
    ),
}


def read_limit(data: object, source: Place) -> tuple[Limit, ...]:
    """Read the list of `[[limit]]` tables."""
    if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
        raise source.wrong(f'"limit" is {shown(data)}; it must be a list ([[limit]] in TOML)')
    return tuple(_read_one(each, source, number) for number, each in enumerate(data, 1))


def _read_one(data: object, source: Place, number: int) -> Limit:
    place = source.at(f"limit {number}")
    if not isinstance(data, Mapping):
        raise place.wrong(f"a limit is a table of keys, not {shown(data)}")
    # What is written back for a limit has every key; null is what is not there.
    given = {key: value for key, value in data.items() if value is not None}
    refuse_unknown(place, given, LIMIT_KEYS)
    read = {"name": f"limit {number}"} | {
        key: LIMIT_KEYS[key](place, key, value) for key, value in given.items()
    }
    limit = Limit(**read)
    if not limit.name.strip() or not limit.name.isprintable() or not limit.name.isascii():
        raise place.wrong(f'"name" is {shown(limit.name)}; give a short name in ASCII or leave it out')
    if not limit.counted and limit.connections is None:
        raise place.wrong(f"it limits nothing; give one of {', '.join(_RATE)}")
    if limit.connections is not None and limit.per not in (Scope.ACCOUNT, Scope.IP):
        raise place.wrong(f'connections are counted per account or ip, not per "{limit.per}"')
    if limit.only is not None and limit.per is Scope.ACCOUNT:
        raise place.wrong('"only" needs a "per": ip, sender or recipient_domain')
    if limit.per is Scope.RECIPIENT_DOMAIN and given.get("counts") == Counts.MAILS:
        raise place.wrong('per "recipient_domain" it counts recipients; leave "counts" out')
    if limit.smtp is not None and limit.enhanced is not None and limit.enhanced[0] != str(limit.smtp)[0]:
        raise place.wrong(f"it says {limit.smtp} and {limit.enhanced}, which contradict each other")
    return limit


def limit_as_json(limit: Limit) -> dict[str, Any]:
    """Return a limit as somebody would write it."""
    data: dict[str, Any] = {"name": limit.name}
    for field in dataclasses.fields(Limit):
        value = getattr(limit, field.name)
        if field.name != "name" and value != field.default:
            data[field.name] = value.text if field.name == "only" else value
    return data
