"""One connection of HTTP/1.1 with the provider: a request out, its whole answer back, and how far it got.

Why not a client of the shelf: docs/decisions/0011-the-sender-speaks-http-itself.md. The answer is parsed by llhttp (`httptools`), which refuses what is
ambiguous; what is here is the order of things, and what a broken line is called.
Must not hold: which connection is taken, what an answer means.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from typing import cast

import httptools

from reference_sender.policy.evidence import Phase

_CHUNK_OCTETS = 64 * 1024
_MAX_HEAD_OCTETS = 64 * 1024
_MAX_BODY_OCTETS = 1024 * 1024
#: What these codings begin with is told by zlib itself (RFC 9110 section 8.4.1).
_PACKED = frozenset({b"gzip", b"x-gzip", b"deflate"})
#: Fields that tell where a body ends; without them it is the end of the line (RFC 9112 section 6.3).
_FRAMES = frozenset({b"content-length", b"transfer-encoding"})
_ANY_WRAPPING = zlib.MAX_WBITS | 32


class Broken(Exception):
    """There is no whole answer. `trouble` is its name, for people and tables."""

    def __init__(self, trouble: str, says: str) -> None:
        super().__init__(says)
        self.trouble = trouble


@dataclass(slots=True)
class Progress:
    """How far one attempt got; the only thing that outlives an exception."""

    phase: Phase = Phase.CONNECT
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, with its header fields as they came."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first field of this name, which is given in small letters."""
        for each, value in self.headers:
            if each.lower() == name:
                return value
        return None


class Line(asyncio.Protocol):
    """One connection. It asks one thing at a time."""

    def __init__(self) -> None:
        self.idle_since_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._news: asyncio.Future[None] | None = None
        """Who asks waits for it, and then looks what has become of the line."""
        self._is_paused = False
        self._is_spent = False
        """No request can follow."""
        self._heard_s = 0.0
        self._begin()
        self._is_whole = True

    def _begin(self) -> None:
        """Be ready for an answer."""
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._pieces: list[bytes] = []
        self._coding = b""
        self._octets = 0
        self._has_head = self._has_end = self._is_whole = False
        self._trouble: Broken | None = None

    # --- asking ---------------------------------------------------------------------------------------------

    @property
    def is_good(self) -> bool:
        """Whether another request may be sent over it."""
        transport = self._transport
        return self._is_whole and not self._is_spent and transport is not None and not transport.is_closing()

    async def ask(
        self, head: bytes, body: bytes, progress: Progress, *, deadline_s: float, read_timeout_s: float
    ) -> Answer:
        """Send a request and wait for the whole answer. Raises `Broken`, or TimeoutError at the deadline (loop's time).

        The read timeout begins when the request is out, and anew with every piece of the answer.
        """
        transport = self._transport
        assert transport is not None, "it is asked when it is connected"
        if not self.is_good:
            raise Broken("eof", "the line ended before the request")
        self._begin()
        if len(body) <= _CHUNK_OCTETS:
            progress.phase = Phase.SENT
            transport.write(head + body)
        else:
            await self._write(transport, head, body, progress, deadline_s)
        self._heard_s = self._loop.time()
        while not self._is_whole:
            if self._trouble is not None:
                raise self._trouble
            await self._wait(min(deadline_s, self._heard_s + read_timeout_s))
        return Answer(self._status, self._headers, self._unpacked())

    async def _write(
        self, transport: asyncio.Transport, head: bytes, body: bytes, progress: Progress, deadline_s: float
    ) -> None:
        """Write piece by piece, as fast as it is read there; the last one is let go when all others are gone."""
        transport.write(head)
        for start in range(0, len(body), _CHUNK_OCTETS):
            while self._is_paused and not self._is_whole and self._trouble is None:
                await self._wait(deadline_s)
            if self._is_whole or self._trouble is not None:
                # Answered before it was complete, and that is the answer.
                self._is_spent = True
                return
            if start + _CHUNK_OCTETS >= len(body):
                progress.phase = Phase.SENT
            transport.write(body[start : start + _CHUNK_OCTETS])

    async def _wait(self, until_s: float) -> None:
        """Wait for news. Raises TimeoutError at that time."""
        if self._loop.time() >= until_s:
            raise TimeoutError
        news = self._news = self._loop.create_future()
        timer = self._loop.call_at(until_s, self._tell)
        try:
            await news
        finally:
            timer.cancel()
            self._news = None

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _unpacked(self) -> bytes:
        body = b"".join(self._pieces)
        if self._coding not in _PACKED:
            return body
        # Nobody asked for it. What is cut off is read as far as it goes, like any body that is no document.
        unpacking = zlib.decompressobj(_ANY_WRAPPING)
        try:
            unpacked = unpacking.decompress(body, _MAX_BODY_OCTETS + 1)
        except zlib.error as error:
            raise Broken("truncated", f"the answer cannot be unpacked: {error}") from error
        if len(unpacked) > _MAX_BODY_OCTETS:
            raise Broken("truncated", "the answer does not end")
        return unpacked

    def close(self) -> None:
        """Hang up. What was not let go yet is not sent any more."""
        self._is_spent = True
        transport = self._transport
        if transport is not None:
            if transport.get_write_buffer_size():
                transport.abort()
            else:
                transport.close()

    # --- what the transport says --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._is_whole:
            # Behind the answer, or without a question.
            self.close()
            return
        self._heard_s = self._loop.time()
        if not self._has_head:
            self._octets += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_spent = self._is_whole = True
        except httptools.HttpParserError as error:
            self._is_spent = True
            self._broke("garbled", str(error))
        if not self._has_head and self._octets > _MAX_HEAD_OCTETS:
            self._broke("garbled", "the head of the answer does not end")
        if self._is_whole or self._trouble is not None:
            self._tell()

    def eof_received(self) -> None:
        self._ended(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended(error)

    def _ended(self, error: Exception | None) -> None:
        self._is_spent = True
        if not self._is_whole:
            if self._has_head and not self._has_end and error is None:
                self._is_whole = True
            elif self._has_head:
                self._broke("truncated", "the answer is not whole")
            elif error is None:
                self._broke("eof", "the line ended before there was an answer")
            else:
                self._broke("timeout" if isinstance(error, TimeoutError) else "reset", type(error).__name__)
        self._tell()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._tell()

    def _broke(self, trouble: str, says: str) -> None:
        # The first is the cause. A whole answer stays one, whatever comes behind it.
        if self._trouble is None and not self._is_whole:
            self._trouble = Broken(trouble, says)

    # --- what the parser says -------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_whole:
            self._is_spent = True  # another answer, to no question

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_whole:
            return
        plain = name.lower()
        if plain in _FRAMES:
            self._has_end = True
        elif plain == b"content-encoding":
            self._coding = value.strip().lower()
        self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if self._is_whole:
            return
        self._status = self._parser.get_status_code()
        self._has_head, self._octets = True, 0

    def on_body(self, data: bytes) -> None:
        if self._is_whole or self._trouble is not None:
            return
        self._octets += len(data)
        self._pieces.append(data)
        if self._octets > _MAX_BODY_OCTETS:
            self._is_spent = True
            self._broke("truncated", "the answer does not end")

    def on_message_complete(self) -> None:
        if self._is_whole or self._trouble is not None:
            return
        if 100 <= self._status <= 199 and self._status != 101:
            # An interim answer; the final one follows (RFC 9110 section 15.2).
            self._begin()
            return
        self._is_whole = True
        if not self._parser.should_keep_alive():
            self._is_spent = True
