"""Reading JSON values: each is what it should be, or one sentence says what was given, where, and what would be right."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from simulator.provider.answer import Reason

#: As most addresses are, if they have 320 characters at most.
PLAIN_ADDRESS = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+")
_SPACED_COLON = re.compile(rb'"[ \t\r\n]+:')
_decode = msgspec.json.Decoder().decode

ADDRESS = re.compile(r"[^@\s,;<>()\[\]\"]+@(?:[^@\s,;<>()\[\]\"]+|\[[^@\s\[\]]+\])")


class Malformed(Exception):
    """Never leaves the dialect: `request.read` turns it into a `Refused`."""

    def __init__(self, detail: str, reason: Reason = Reason.INVALID) -> None:
        super().__init__(detail)
        self.detail = detail
        self.reason = reason


def parse(body: bytes) -> Any:
    """Parse JSON (RFC 8259) in UTF-8, strictly: each member once, no `NaN`. Raise `Malformed`."""
    quickly = _parse_plain(body)
    if quickly is not None:
        return quickly
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_each_once, parse_constant=_no_constant)
    except UnicodeDecodeError as problem:
        raise Malformed(f"the body is not UTF-8 at byte {problem.start}; send JSON in UTF-8") from problem
    except json.JSONDecodeError as problem:
        raise Malformed(
            f"the body is not JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}"
        ) from problem
    except (ValueError, RecursionError) as problem:
        # Numbers of thousands of digits, brackets of thousands of levels.
        raise Malformed("the body is JSON beyond what this service reads") from problem


def _parse_plain(body: bytes) -> dict[str, Any] | None:
    """Parse an object of texts, lists and objects without surprises, as nearly all are. None: look more closely.

    A quick decoder does not say whether a member came twice. But then there is one more quote with a colon behind it
    than there are members; where there are more for another reason (a text that quotes), nothing is lost.
    """
    if _SPACED_COLON.search(body):
        return None
    try:
        data = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if type(data) is not dict:
        return None
    members = len(data)
    for value in data.values():
        is_a = type(value)
        if is_a is dict:
            members += len(value)
            value = value.values()
        elif is_a is not list:
            value = (value,)
        for each in value:
            if type(each) is not str:
                return None
    return data if body.count(b'":') == members else None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # RFC 8259, section 4: what a name that comes twice means is anybody's guess. A mail must not be guessed.
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Malformed(f"the body has the member {shown(name)} twice; give it once")
            seen.add(name)
    return found


def _no_constant(name: str) -> Any:
    raise Malformed(f"the body is not JSON: {name} is no number that JSON knows")


def as_object(data: object, where: str) -> dict[str, Any]:
    """Take a JSON object."""
    if not isinstance(data, dict):
        raise Malformed(f"{where} is {kind(data)}; it must be a JSON object")
    return data


def mailboxes(data: Mapping[str, Any], field: str) -> list[tuple[str, str]]:
    """Take a list of addresses; return display names and addresses."""
    given = data.get(field)
    if given is None:
        raise Malformed(f'"{field}" is missing; give a list of addresses')
    if not isinstance(given, list):
        raise Malformed(f'"{field}" is {kind(given)}; it must be a list of addresses')
    if not given and field == "to":
        raise Malformed('"to" is empty; give at least one address', Reason.NO_RECIPIENTS)
    found = []
    for number, each in enumerate(given, 1):
        if type(each) is str and len(each) <= 320 and PLAIN_ADDRESS.fullmatch(each):
            found.append(("", each))  # As nearly always.
            continue
        where = f'"{field}", address {number}'
        if not isinstance(each, str):
            raise Malformed(f"{where} is {kind(each)}; it must be a text")
        found.append(mailbox(sound(each, where), where, Reason.NO_RECIPIENTS))
    return found


def mailbox(text: str, where: str, reason: Reason) -> tuple[str, str]:
    """Return display name and address."""
    if len(text) <= 320 and PLAIN_ADDRESS.fullmatch(text):
        return "", text
    name, address = "", line(text, where).strip()
    if address.endswith(">"):
        name, _, address = address[:-1].rpartition("<")
        name = name.strip()
    if len(address) > 320 or "<" in name or ">" in name or not ADDRESS.fullmatch(address):
        raise Malformed(
            f'{where} is {shown(text)}; an address looks like "a@example.org" or "Name <a@example.org>"',
            reason,
        )
    if len(name) >= 2 and name.startswith('"') and name.endswith('"'):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return name, address


def text(data: Mapping[str, Any], field: str) -> str | None:
    """Take a text, or None where there is none."""
    given = data.get(field)
    if given is None:
        return None
    if type(given) is not str:
        raise Malformed(f'"{field}" is {kind(given)}; it must be a text')
    return given if given.isascii() else sound(given, f'"{field}"')


def sound(text: str, where: str) -> str:
    """Take a text that can be written in UTF-8."""
    # JSON can spell half a character ("\ud800"), which no encoding can write.
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise Malformed(f"{where} contains half of a surrogate pair; send whole characters")
    return text


def line(text: str, where: str) -> str:
    """Take a text of one line."""
    if text.isprintable():
        return text
    if any(char in text for char in "\r\n\0\v\f\x1c\x1d\x1e\x85\u2028\u2029"):
        raise Malformed(f"{where} contains a line break or NUL; a header has one line")
    return text


def from_base64(text: str, where: str) -> bytes:
    """Decode base64."""
    try:
        # Line breaks every 76 characters are common in base64; anything else is a mistake.
        return base64.b64decode("".join(text.split()).encode("ascii"), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise Malformed(f"{where} is not base64: {problem}") from problem


def only(data: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """Refuse members that nobody knows: a misspelt one would be lost in silence."""
    unknown = sorted(set(data) - known)
    if unknown:
        raise Malformed(
            f"{where} has the unknown key {shown(unknown[0])}; known are {', '.join(sorted(known))}"
        )


def kind(value: object) -> str:
    """Name what a JSON value is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def shown(value: str) -> str:
    """Return a text of the sender's, shortened, as it may stand in a sentence of one line."""
    return repr(value if len(value) <= 80 else f"{value[:80]}…")
