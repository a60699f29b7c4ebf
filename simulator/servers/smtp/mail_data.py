"""Mail data on its way in: where it ends, where its headers end, and what it was before it was made transparent.

Works on whole pieces, not on lines: lines may be of any length (many real mails have lines far over the
998 characters of RFC 5322), and 10 MB take milliseconds.
"""

from __future__ import annotations

from operator import itemgetter
from typing import ClassVar

from simulator.provider.message import HEADER_LIMIT_BYTES


class MailData:
    """What follows DATA (RFC 5321, section 4.5.2): finds its end, takes the transparent dots out.

    Only CRLF . CRLF is an end, whatever else looks like one: a server that takes LF . LF for it lets strangers
    smuggle mail in (CVE-2023-51764).
    """

    _END: ClassVar[bytes] = b"\r\n.\r\n"

    def __init__(self, limit_bytes: int) -> None:
        # The CRLF of the DATA command counts: a lone dot in the first line is an end too.
        self._data = bytearray(b"\r\n")
        self._limit_bytes = limit_bytes
        # Transparent dots do not count, and at worst every three octets have one (`..` CRLF for `.` CRLF).
        self._room = limit_bytes + limit_bytes // 3 + 16
        self._searched = 0
        self._head_searched = 0
        self.too_large = False
        self.size_bytes = 0
        """How much has come in, with transparent dots."""

    def feed(self, inbox: bytearray) -> bool:
        """Move what belongs to the mail out of `inbox`. True: the end was there, the rest stays in `inbox`."""
        self._data += inbox
        self.size_bytes += len(inbox)
        inbox.clear()
        end = self._data.find(self._END, self._searched)
        if end >= 0:
            inbox += memoryview(self._data)[end + len(self._END) :]
            del self._data[end + 2 :]
            self.too_large = self.too_large or len(self._data) > self._room
            return True
        if len(self._data) > self._room:
            self.too_large = True
            del self._data[: -len(self._END)]
        self._searched = max(0, len(self._data) - len(self._END) + 1)
        return False

    def head(self) -> bytes | None:
        """Return the header block once it is whole (or longer than anybody reads); None before."""
        if self.too_large:
            return b""
        end = self._data.find(b"\r\n\r\n", self._head_searched)
        if end >= 0:
            return bytes(self._data[2 : end + 4])
        if len(self._data) > HEADER_LIMIT_BYTES:
            return bytes(self._data[2:])
        self._head_searched = max(0, len(self._data) - 3)
        return None

    def raw(self) -> bytes | None:
        """Return the mail as it was before it was made transparent; None if it is too large."""
        if self.too_large:
            return None
        mail = bytes(memoryview(self._data.replace(b"\r\n.", b"\r\n"))[2:])
        self.too_large = len(mail) > self._limit_bytes
        return None if self.too_large else mail


#: The first and the last octet of a line.
_FIRST, _LAST = itemgetter(0), itemgetter(-1)


def plain_mail(data: bytes) -> bytes | None:
    """Return the mail, if what follows DATA is one in one piece with nothing else, no dot to be taken out, and sound.

    None: let `MailData`, `has_bare_line_ends` and the like look. Lines are looked at all at once, by what begins and ends them: to
    search for `CRLF .` or to count CRLF would take twice as long.
    """
    if not data.endswith(b"\r\n.\r\n") or b"\0" in data:
        return None
    lines = data.split(b"\n")
    # What follows the last LF, and the line with the dot.
    del lines[-2:]
    if data.count(b"\r") != len(lines) + 1:
        return None
    try:
        if set(map(_LAST, lines)) != {13} or 46 in map(_FIRST, lines):
            return None
    except IndexError:
        return None  # There is nothing before an LF.
    return data[:-3]


class Chunks:
    """What follows BDAT (RFC 3030): pieces whose sizes are told before, put together as they are."""

    def __init__(self, limit_bytes: int) -> None:
        self._data = bytearray()
        self._limit_bytes = limit_bytes
        self._left = 0
        self._head_searched = 0
        self.too_large = False
        self.size_bytes = 0
        """How much has come in, of all chunks."""

    def begin(self, size_bytes: int) -> None:
        """A chunk of this size follows."""
        self._left = size_bytes

    def feed(self, inbox: bytearray) -> bool:
        """Move what belongs to the chunk out of `inbox`. True: it is whole, the rest stays in `inbox`."""
        if self._left <= len(inbox):
            piece = inbox[: self._left]
            del inbox[: self._left]
        else:
            piece = inbox[:]
            inbox.clear()
        self._left -= len(piece)
        self.size_bytes += len(piece)
        if not self.too_large:
            self._data += piece
            if len(self._data) > self._limit_bytes:
                self.too_large = True
                self._data.clear()
        return self._left == 0

    def head(self) -> bytes | None:
        """Return the header block once it is whole (or longer than anybody reads); None before."""
        if self.too_large:
            return b""
        end = self._data.find(b"\r\n\r\n", self._head_searched)
        if end >= 0:
            return bytes(self._data[: end + 4])
        if len(self._data) > HEADER_LIMIT_BYTES:
            return bytes(self._data)
        self._head_searched = max(0, len(self._data) - 3)
        return None

    def raw(self) -> bytes | None:
        """Return the mail; None if it is too large."""
        return None if self.too_large else bytes(self._data)


def has_bare_line_ends(raw: bytes) -> bool:
    """Tell whether there is a CR or LF that is not part of CRLF."""
    pairs = raw.count(b"\r\n")
    return raw.count(b"\r") != pairs or raw.count(b"\n") != pairs


def has_longer_line(raw: bytes, limit_bytes: int) -> bool:
    """Tell whether a line has more octets than that, without its CRLF."""
    start = 0
    while len(raw) - start > limit_bytes:
        # The last line end that the limit allows; all the lines before it are shorter anyway.
        end = raw.rfind(b"\r\n", start, start + limit_bytes + 2)
        if end < 0:
            return True
        start = end + 2
    return False
