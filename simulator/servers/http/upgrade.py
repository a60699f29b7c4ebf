"""A request that asks for another protocol, which it does not get: its body is read all the same (RFC 9110, section 7.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import httptools

if TYPE_CHECKING:
    from simulator.servers.http.connection import Visitor


def onwards(
    visitor: Visitor, headers: Iterable[tuple[bytes, bytes]]
) -> tuple[httptools.HttpRequestParser, bytes]:
    """Return a parser for what stands behind the head with these headers, and the head that it is to read before that.

    httptools takes what follows such a head for the other protocol, and reads no further.
    """
    framing = [
        name + b": " + value + b"\r\n"
        for name, value in headers
        if name in (b"content-length", b"transfer-encoding")
    ]
    parser = httptools.HttpRequestParser(_Onwards(visitor))
    parser.set_dangerous_leniencies(lenient_data_after_close=True, lenient_version=True)
    return parser, b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n"


class _Onwards:
    """Stands between a visitor and a parser that begins behind a head: the first head it reads is only told its framing."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self._is_next = False
        """What comes now is a request of its own."""

    def on_message_begin(self) -> None:
        if self._is_next:
            self._visitor.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self._is_next:
            self._visitor.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_next:
            self._visitor.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._is_next:
            self._visitor.on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._visitor.on_body(body)

    def on_message_complete(self) -> None:
        self._is_next = True
        self._visitor.on_message_complete()
