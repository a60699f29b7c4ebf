"""The table `[smtp]`: what EHLO offers, what must come before a mail, and how much a session may hold."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from simulator.config.forms import read_flag, read_number, read_text, read_whole
from simulator.config.place import Place, did_you_mean, refuse_unknown, shown
from simulator.provider.smtp import KEYWORDS, MECHANISMS, SmtpRules


def read_smtp(data: object, place: Place) -> SmtpRules:
    """Read the table. Raise `PlanError`."""
    if not isinstance(data, Mapping):
        raise place.wrong(f"this must be a table of settings, not {shown(data)}")
    refuse_unknown(place, data, FORMS)
    given: dict[str, Any] = {
        key: None if value is None and key in NULLABLE else FORMS[key](place, key, value)
        for key, value in data.items()
    }
    return SmtpRules(**given)


def _texts(place: Place, key: str, value: object, what: str) -> list[str]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise place.wrong(f'"{key}" is {shown(value)}; it must be a list of {what}')
    return [read_text(place, key, each) for each in value]


def _some_of(known: Collection[str], what: str) -> Callable[[Place, str, object], tuple[str, ...]]:
    def read(place: Place, key: str, value: object) -> tuple[str, ...]:
        given = [each.upper() for each in _texts(place, key, value, what)]
        for each in given:
            if each not in known:
                raise place.wrong(f'"{key}" names {shown(each)}; {did_you_mean(each, known)}')
        # In the order of the table, so that the same settings are equal however they were written.
        return tuple(each for each in known if each in given)

    return read


def _lines(place: Place, key: str, value: object) -> tuple[str, ...]:
    given = _texts(place, key, value, "EHLO lines")
    for each in given:
        # RFC 5321, section 4.1.1.1: a keyword, then parameters of printable ASCII.
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*( [!-~]+)*", each) or len(each) > 500:
            raise place.wrong(
                f'"{key}" has {shown(each)}; a line of EHLO is a keyword and its parameters, like "XFORWARD NAME"'
            )
    return tuple(given)


def _banner(place: Place, key: str, value: object) -> str:
    text = read_text(place, key, value)
    if not text.isprintable() or not text.strip() or len(text) > 500:
        raise place.wrong(f'"{key}" is {shown(text)}; it must be one printable line')
    return text


def _size(place: Place, key: str, value: object) -> int:
    return read_whole(place, key, value)


def _at_least_one(place: Place, key: str, value: object) -> int:
    return read_whole(place, key, value, least=1)


def _seconds(place: Place, key: str, value: object) -> float:
    return read_number(place, key, value, above_zero=True)


#: How each setting is written; a test holds that every field of `SmtpRules` stands here.
FORMS: dict[str, Callable[[Place, str, object], Any]] = {
    "banner": _banner,
    "hide": _some_of(KEYWORDS, "EHLO keywords"),
    "offer": _lines,
    "size": _size,
    "ehlo": read_flag,
    "auth": _some_of(MECHANISMS, "mechanisms"),
    "require_auth": read_flag,
    "require_tls": read_flag,
    "max_messages": _at_least_one,
    "max_line_bytes": _at_least_one,
    "max_local_part_bytes": _at_least_one,
    "idle_timeout_s": _seconds,
    "message_timeout_s": _seconds,
}
#: Settings for which JSON's null says "none".
NULLABLE = frozenset(field.name for field in dataclasses.fields(SmtpRules) if "None" in str(field.type))
