"""Bodies that are not what a success of the native API looks like: one table, shape to body."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from simulator.dialects.http import HttpWords, part_of
from simulator.provider.dress import Odd, Shape

_HTML = b"<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>\n"
_JSON = "application/json"
#: Deeper than the stack of any parser that follows brackets by calling itself.
DEPTH = 100_000


def _without_id(body: bytes) -> bytes:
    document = json.loads(body)
    for member in ("id", "message_id"):
        document.pop(member, None)
    return _dump(document)


def _with_id(body: bytes, value: object) -> bytes:
    return _dump(json.loads(body) | {"id": value})


def _dump(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


#: Shape -> the body made of the usual one.
BODIES: Mapping[Shape, Callable[[bytes], bytes]] = {
    Shape.WHOLE: lambda body: body,
    Shape.ERROR: lambda body: _dump(
        {"status": "error", "error": {"code": "internal_error", "message": "the mail could not be queued"}}
    ),
    Shape.NO_ID: _without_id,
    Shape.NULL_ID: lambda body: _with_id(body, None),
    Shape.NUMBER_ID: lambda body: _with_id(body, 2**63 - 1),
    Shape.ARRAY: lambda body: b"[" + body + b"]",
    Shape.NULL: lambda body: b"null",
    Shape.TEXT: lambda body: b"OK",
    Shape.HTML: lambda body: _HTML,
    Shape.EMPTY: lambda body: b"",
    Shape.CUT: part_of,
    Shape.BOM: lambda body: b"\xef\xbb\xbf" + body,
    Shape.LATIN1: lambda body: body[:-1] + b',"note":"gr\xfc\xdfe"}',
    Shape.TWICE: lambda body: body[:-1] + b',"id":"msg_ffffffffffffffffffff"}',
    Shape.NESTED: lambda body: body[:-1] + b',"more":' + b"[" * DEPTH + b"]" * DEPTH + b"}",
}
_KINDS: Mapping[Shape, str] = {Shape.HTML: "text/html; charset=utf-8"}


def odd(out: HttpWords, how: Odd) -> HttpWords:
    """Return a success with an odd body, made of the usual one (a JSON object)."""
    kind = _KINDS.get(how.shape, _JSON) if how.content_type is None else how.content_type
    headers = tuple((name, value) for name, value in out.headers if name != "Content-Type")
    if kind:
        headers = (("Content-Type", kind), *headers)
    return HttpWords(status=how.code, headers=headers, body=BODIES[how.shape](out.body))
