"""Where one request ends and the next begins, which the parser does not tell."""

from __future__ import annotations

import httptools

_EMPTY_LINE = b"\r\n\r\n"


def may_end(data: bytes, left: int | None) -> int:
    """Return after how many bytes a request that began before `data` may be over, at the earliest; at least one.

    `left`: the bytes of its body that are still to come; None: it is in its head, or its body comes in chunks. These
    end with an empty line (RFC 9112, sections 2.1 and 7.1), and not every empty line ends them.
    """
    if left is not None:
        return min(left, len(data))
    # The line before the empty one, or half of that, may have come earlier.
    for begun in (b"\n", b"\r\n"):
        if data.startswith(begun):
            return len(begun)
    found = data.find(_EMPTY_LINE)
    return len(data) if found < 0 else found + len(_EMPTY_LINE)


def newest(data: bytes) -> bytes:
    """Return what stands behind the last whole request, or all. `data` begins with a request and stops the parser."""
    reader = _Reader()
    parser = httptools.HttpRequestParser(reader)
    # As a connection does.
    parser.set_dangerous_leniencies(lenient_data_after_close=True, lenient_version=True)
    start = 0
    while start < len(data):
        # Line by line: whatever ends ends there, only a body of known length may end in the midst of one.
        end = data.find(b"\n", start) + 1 or len(data)
        reader.heard = 0
        try:
            parser.feed_data(data[start:end])
        except httptools.HttpParserError:
            return data[start + reader.heard :]
        start = end
    return b""


class _Reader:
    def __init__(self) -> None:
        self.heard = 0
        """So many bytes of a body stand before anything else in this line."""

    def on_body(self, body: bytes) -> None:
        self.heard += len(body)
