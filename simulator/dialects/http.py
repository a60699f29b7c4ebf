"""HTTP/1.1 as bytes (RFC 9112): what any HTTP dialect's answer looks like on the wire. Knows no JSON and no mail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

#: Answers with these statuses have no content (RFC 9110, section 6.4.1).
WITHOUT_BODY = frozenset({204, 205, 304})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpWords:
    """A whole HTTP answer. The framing is left to `whole`, or to whoever lies about it on purpose."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def phrase(status: int) -> str:
    """Return the reason phrase of a status, also of one that nobody has registered."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return {1: "Go On", 2: "OK", 3: "Redirect", 4: "Refused"}.get(status // 100, "Failed")


_STATUS_LINES = {status: f"HTTP/1.1 {status} {phrase(status)}\r\n".encode() for status in range(100, 600)}


def head(
    status: int, headers: Sequence[tuple[str, str]], framing: Sequence[bytes], *, closes: bool = False
) -> bytes:
    """Return a head. `framing`: finished lines (without CRLF) that say how long the body is, and the like."""
    lines = [
        f"{name.lower()}: {value}".encode("latin-1", "replace").translate(None, b"\r\n\0")
        for name, value in headers
    ]
    lines += framing
    if closes:
        lines.append(b"connection: close")
    return _STATUS_LINES[status] + b"".join([line + b"\r\n" for line in lines]) + b"\r\n"


def sized(out: HttpWords) -> list[bytes]:
    """Return the framing of a body that comes in one piece."""
    return [] if out.status in (204, 304) else [b"content-length: %d" % len(out.body)]


def whole(
    out: HttpWords, fields: Sequence[bytes] = (), *, closes: bool = False, bodiless: bool = False
) -> bytes:
    """Return an answer as it goes out. `fields`: more header lines; `bodiless`: the answer to a HEAD request."""
    start = head(out.status, out.headers, (*fields, *sized(out)), closes=closes)
    return start if bodiless else start + out.body


def part_of(body: bytes) -> bytes:
    """Return the first half of a body: what a truncated answer consists of. Never the whole of it."""
    return body[: len(body) // 2]
