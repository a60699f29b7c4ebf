"""What an SMTP sender has sent and nobody has read yet: lines of commands, and mail data up to its final dot.

Memory is bounded: when an inbox is full, the socket is not read. Nothing here knows a command or a reply.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import ClassVar

from simulator.clock import Clock
from simulator.provider.message import HEADER_LIMIT_BYTES

#: Unread input that makes us stop reading from the socket.
INBOX_LIMIT_BYTES = 256 * 1024


class Trouble(Enum):
    """Why there is no line."""

    TOO_LONG = auto()
    GONE = auto()
    """The connection is over, or the sender said that it says no more."""
    IDLE = auto()
    DISMISSED = auto()


class Inbox:
    """What the sender sent and nobody has read yet. Bounded: when it is full, the socket is not read."""

    def __init__(self, transport: asyncio.Transport, clock: Clock) -> None:
        self.data = bytearray()
        self._transport = transport
        self._clock = clock
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self._deaf = False
        self._ended = False
        self._lost = False
        self._dismissed = False
        self.gave_up = False
        """The sender took too long."""
        self.waiting_since: float | None = None
        """Monotonic time since which the session waits for input; None: it does something else."""

    def feed(self, data: bytes) -> None:
        """Take what came."""
        if self._deaf:
            return
        self.data += data
        if len(self.data) > INBOX_LIMIT_BYTES and not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def turn_deaf(self) -> None:
        """Forget what is there, and whatever comes; keep reading, so that the end is noticed."""
        self._deaf = True
        self.data.clear()
        self._resume()

    def ended(self) -> None:
        """The sender sent FIN: what it said before still counts."""
        self._ended = True
        self._wake()

    def lost(self) -> None:
        """The connection is over."""
        self._lost = True
        self._wake()

    def give_up(self) -> None:
        """The sender took too long: whoever waits for it shall not any more."""
        self.gave_up = True
        self._wake()

    def dismiss(self) -> None:
        """The server stops: no further command is read."""
        self._dismissed = True
        self._wake()

    async def more(self) -> bool:
        """Wait for more input than there is now. False: there will be none."""
        if self._lost or self._ended or self.gave_up:
            return False
        self._resume()
        self._waiter = asyncio.get_running_loop().create_future()
        self.waiting_since = self._clock.monotonic()
        size = len(self.data)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self.waiting_since = None
        return len(self.data) > size

    async def line(self, limit_bytes: int) -> bytes | Trouble:
        """Return the next line up to and including its LF. A line that is too long is read to its end."""
        searched = 0
        too_long = False
        # What came before the connection broke is not obeyed any more: nobody could be answered.
        while not self._lost and not self._dismissed:
            end = self.data.find(b"\n", searched)
            if end >= 0:
                line = bytes(self.data[: end + 1])
                del self.data[: end + 1]
                return Trouble.TOO_LONG if too_long or len(line) > limit_bytes else line
            if len(self.data) > limit_bytes:
                too_long = True
                self.data.clear()
            searched = len(self.data)
            if not await self.more() and not self._dismissed:
                return Trouble.IDLE if self.gave_up else Trouble.GONE
        return Trouble.GONE if self._lost else Trouble.DISMISSED

    def _resume(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class MailData:
    """Mail data on its way in: finds its end, takes the transparent dots out (RFC 5321, section 4.5.2).

    Works on whole chunks, not on lines: lines may be of any length (many real mails have lines far over the
    998 characters of RFC 5322), and 10 MB take milliseconds. Only CRLF . CRLF is an end, whatever else looks
    like one: a server that takes LF . LF for it lets strangers smuggle mail in (CVE-2023-51764).
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

    def feed(self, inbox: bytearray) -> bool:
        """Move what belongs to the mail out of `inbox`. True: the end was there, the rest stays in `inbox`."""
        self._data += inbox
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


def has_bare_line_ends(raw: bytes) -> bool:
    """Tell whether there is a CR or LF that is not part of CRLF."""
    pairs = raw.count(b"\r\n")
    return raw.count(b"\r") != pairs or raw.count(b"\n") != pairs
