"""Idempotency keys as they come over HTTP: in a header (the IETF's draft, section 2.1), or in the JSON body."""

from __future__ import annotations

import re
from typing import Any

from simulator.dialects.native.fields import Malformed, kind
from simulator.provider.answer import Reason, Refused


def read_key(value: str | None, *, form: str = "any", max_chars: int = 255) -> str | Refused | None:
    """Read an idempotency key header: a string of RFC 9651 in double quotes, or (`form`: any) the plain characters."""
    if value is None:
        return None
    try:
        return _sound(_unquoted(value.strip(), form), max_chars)
    except Malformed as problem:
        return Refused(reason=problem.reason, detail=problem.detail)


def take_key(data: dict[str, Any], field: str, *, max_chars: int = 255) -> str | None:
    """Take the key out of a request's JSON body; what is left is the mail. Raise `Malformed`."""
    *way, name = field.split(".")
    home: Any = data
    for step in way:
        home = home.get(step)
        if not isinstance(home, dict):
            return None
    value = home.pop(name, None)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Malformed(f'"{field}" is {kind(value)}; it must be a text')
    return _sound(value, max_chars)


def _unquoted(text: str, form: str) -> str:
    if text.startswith('"'):
        quoted = re.fullmatch(r'"((?:[^"\\]|\\["\\])*)"', text)
        if quoted is None:
            raise Malformed(
                'the idempotency key begins with a double quote but is no quoted string; close it, like "order-1"'
            )
        return re.sub(r"\\(.)", r"\1", quoted[1])
    if form == "quoted" and text:
        raise Malformed('the idempotency key must be a string in double quotes, like "order-1"')
    return text


def _sound(text: str, max_chars: int) -> str:
    if not text:
        raise Malformed("the idempotency key is empty; leave it out or name one", Reason.INVALID)
    if len(text) > max_chars or not (text.isascii() and text.isprintable()):
        raise Malformed(f"an idempotency key has 1 to {max_chars} printable ASCII characters")
    return text
