"""A refusal of what never becomes a request, and which one it is that the parser could not read."""

from __future__ import annotations

import re
from typing import NamedTuple

import httptools

#: RFC 9112, section 3, and RFC 9110, section 5.6.2; empty lines before it are let pass (RFC 9112, section 2.2).
_REQUEST_LINE = re.compile(
    rb"(?:\r\n)*(?P<method>[0-9A-Za-z!#$%&'*+.^_`|~-]+) [!-~]+ HTTP/(?P<version>[0-9]\.[0-9])\r\n"
)
#: What the parser says of a connection preface of HTTP/2.
_PREFACE = "Pause on PRI/Upgrade"
#: What it says of methods that are none of HTTP/1, though it knows them: RTSP's, and the one of that preface.
_OTHERS_METHODS = ("Invalid method for HTTP/x.x request", "Expected HTTP/2 Connection Preface")


class Refusal(NamedTuple):
    """What is answered before the connection ends."""

    status: int
    code: str
    detail: str


def strange_version(version: str) -> Refusal:
    """`version` is another major one than HTTP/1, like `2.0` (RFC 9110, section 15.6.6)."""
    detail = f"HTTP/{version} is not spoken here; HTTP/1.1 and HTTP/1.0 are"
    return Refusal(505, "version_not_supported", detail)


def unreadable(stopped: BaseException | None, line: bytes) -> Refusal:
    """Say what is wrong where the parser has stopped. `line`: what has come since the request began; empty if unknown."""
    # Whoever begins with HTTP/2 has said so before the parser gives up (RFC 9113, section 3.4).
    if str(stopped) == _PREFACE:
        return strange_version("2.0")
    whole = _REQUEST_LINE.match(line) if _is_about_method(stopped) else None
    if whole is None:
        return Refusal(400, "invalid_request", "this is not HTTP/1.1 as RFC 9112 writes it")
    version, method = whole["version"].decode(), whole["method"].decode()
    if not version.startswith("1."):
        return strange_version(version)
    # RFC 9110, section 15.6.2: it is a method, of which we know nothing; upper and lower case are two.
    shown = method if len(method) <= 40 else f"{method[:40]}…"
    return Refusal(501, "not_implemented", f"the method {shown} is not known here")


def _is_about_method(stopped: BaseException | None) -> bool:
    return isinstance(stopped, httptools.HttpParserInvalidMethodError) or str(stopped) in _OTHERS_METHODS
