"""What an SMTP sender has sent and nobody has read yet, and lines of it.

Memory is bounded: when an inbox is full, the socket is not read. Nothing here knows a command or a reply.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto

from simulator.clock import Clock
from simulator.driven import Waiter, parked

#: Unread input that makes us stop reading from the socket.
INBOX_LIMIT_BYTES = 256 * 1024
#: So much of a line that is too long is remembered: enough for a verb.
_BEGINNING = 4


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
        self._waiter: Waiter[None] | None = None
        self._paused = False
        self._deaf = False
        self._ended = False
        self._lost = False
        self._dismissed = False
        self.began_with = b""
        """The first octets of the line that was too long."""
        self.gave_up = False
        """The sender took too long."""
        self.waiting_since: float | None = None
        """Monotonic time since which the session waits for input; None: it does something else."""
        self.message_since: float | None = None
        """Monotonic time since which a message comes in; None: there is none."""

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
        self.resume()

    def resume(self) -> None:
        """Let the socket be read, if it is not."""
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

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

    async def more(self, since: float | None = None) -> bool:
        """Wait for more input than there is now. False: there will be none. `since`: when the waiting really began."""
        if self._lost or self._ended or self.gave_up:
            return False
        self.resume()
        self._waiter = waiter = parked()
        self.waiting_since = self._clock.monotonic() if since is None else since
        size = len(self.data)
        try:
            await waiter
        finally:
            self._waiter = None
            self.waiting_since = None
        return len(self.data) > size

    def take_line(self, limit_bytes: int) -> bytes | None:
        """Return the next line if it is there, sound, and may be obeyed; else None: `line` says what there is."""
        if self._lost or self._dismissed:
            return None
        end = self.data.find(b"\n")
        if not 0 <= end < limit_bytes:
            return None
        line = bytes(self.data[: end + 1])
        del self.data[: end + 1]
        return line

    def take_all(self) -> bytes:
        """Return whatever is there."""
        data = bytes(self.data)
        self.data.clear()
        self.resume()
        return data

    def is_open(self) -> bool:
        """Tell whether more may come that is obeyed."""
        return not (self._lost or self._ended or self._dismissed or self.gave_up or self._deaf)

    async def line(self, limit_bytes: int, since: float | None = None) -> bytes | Trouble:
        """Return the next line up to and including its LF. A line that is too long is read to its end.

        `since`: when the waiting for it really began.
        """
        searched = 0
        too_long = False
        # What came before the connection broke is not obeyed any more: nobody could be answered.
        while not self._lost and not self._dismissed:
            end = self.data.find(b"\n", searched)
            if end >= 0:
                line = bytes(self.data[: end + 1])
                del self.data[: end + 1]
                if too_long:
                    return Trouble.TOO_LONG
                if len(line) > limit_bytes:
                    self.began_with = line[:_BEGINNING]
                    return Trouble.TOO_LONG
                return line
            if len(self.data) > limit_bytes:
                if not too_long:
                    self.began_with = bytes(self.data[:_BEGINNING])
                too_long = True
                self.data.clear()
            searched = len(self.data)
            # One limit for the whole line: a sender that says an octet now and then is as idle as one that says none.
            since = self._clock.monotonic() if since is None else since
            if not await self.more(since) and not self._dismissed:
                return Trouble.IDLE if self.gave_up else Trouble.GONE
        return Trouble.GONE if self._lost else Trouble.DISMISSED

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
