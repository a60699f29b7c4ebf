"""The bytes of answers as a raw sender sees them, with one id and one instant in place of all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

#: Stage -> the bytes that the sender sees.
Says = Callable[[str], bytes]

#: Ids and instants, which are other ones each time, and what stands for them here. They keep their length.
MSG, MAIL_ID, NOW, WHEN = (
    "msg_" + "0" * 20,
    f"<{'0' * 32}@mail.simulator.test>",
    "now",
    "2026-01-01T00:00:00.000000",
)
_OWN = (
    (rb"msg_[0-9a-f]{20}", MSG.encode()),
    (rb"<[0-9a-f]{32}@", b"<" + b"0" * 32 + b"@"),
    (rb"date: [^\r]+", b"date: " + NOW.encode()),
    (rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", WHEN.encode()),
)


def own_away(data: bytes) -> bytes:
    """Return it with the usual ids and instants in place of its own."""
    for its, ours in _OWN:
        data = re.sub(its, ours, data)
    return data


def answer(status: str, kind: str, body: str | bytes, *more: str, at: str = "") -> bytes:
    """Return a whole answer. At the door nobody knows of a request, so the line is closed behind it."""
    raw = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {kind}",
        *more,
        f"date: {NOW}",
        f"content-length: {len(raw)}",
        *(["connection: close"] if at == "connect" else []),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def accepted_one(*more: str, names_it: bool = True) -> bytes:
    """Return a yes to a mail to Ada. `names_it`: it says its ids."""
    names = {"id": MSG, "message_id": MAIL_ID} if names_it else {}
    told = names | {"status": "accepted", "accepted": ["ada@example.com"], "rejected": []}
    return answer("200 OK", "application/json", compact(told), *more)


def found(*keys: str) -> bytes:
    """Return the answer of a look-up that finds the mails with these keys."""
    shown = [
        {
            "id": MSG,
            "message_id": MAIL_ID,
            "idempotency_key": key,
            "status": "accepted",
            "to": ["ada@example.com"],
            "accepted": ["ada@example.com"],
            "rejected": [],
            "created_at": f"{WHEN}+00:00",
        }
        for key in keys
    ]
    return answer("200 OK", "application/json", compact({"data": shown}))


def problem(status: str, code: str, *more: str, detail: str | None = None, **facts: Any) -> Says:
    number, _, phrase = status.partition(" ")
    told = {
        "type": "about:blank",
        "title": phrase,
        "status": int(number),
        "detail": detail or phrase,
        "code": code,
    }
    return lambda at: answer(status, "application/problem+json", compact(told | facts), *more, at=at)
