"""Idempotency keys as they come over HTTP (draft-ietf-httpapi-idempotency-key-header-07, section 2.1)."""

from __future__ import annotations

import re

from simulator.provider.answer import Reason, Refused


def read_key(value: str | None) -> str | Refused | None:
    """Read an idempotency key header: a string of RFC 9651 in double quotes, or the plain characters."""
    if value is None:
        return None
    text = value.strip()
    if text.startswith('"'):
        quoted = re.fullmatch(r'"((?:[^"\\]|\\["\\])*)"', text)
        if quoted is None:
            return Refused(
                reason=Reason.INVALID,
                detail='the idempotency key begins with a double quote but is no quoted string; close it, like "order-1"',
            )
        text = re.sub(r"\\(.)", r"\1", quoted[1])
    if not text:
        return Refused(
            reason=Reason.INVALID, detail="the idempotency key is empty; leave the header out or name a key"
        )
    if len(text) > 255 or not all(" " <= char <= "~" for char in text):
        return Refused(
            reason=Reason.INVALID, detail="an idempotency key has 1 to 255 printable ASCII characters"
        )
    return text
