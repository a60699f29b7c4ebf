"""One HTTP connection: uvicorn's protocol with a door in front, and a `Line` that the application can misbehave on."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sized
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from simulator.dialects import http
from simulator.dialects.native.answers import problem
from simulator.servers.http.glance import Glance
from simulator.servers.http.line import HttpLine
from simulator.servers.http.refusal import Refusal, strange_version, unreadable
from simulator.servers.http.upgrade import onwards

if TYPE_CHECKING:
    from simulator.servers.http.secure import SecureVisitor

_log = logging.getLogger(__name__)

#: A request whose head is still incomplete after so many bytes is refused, and one whose body is only framing for so long.
MAX_HEAD_BYTES = 256 * 1024
#: What a target may have; `httptools.parse_url` takes no more.
MAX_TARGET_BYTES = 65_535
_TOO_LARGE = Refusal(431, "head_too_large", f"the head of a request may have {MAX_HEAD_BYTES} bytes at most")
#: How long a connection may idle before its first request and between requests, in seconds.
KEEP_ALIVE_S = 75
#: How long the head of a request may take from its first byte, in seconds: slow-loris senders are seen out.
HEAD_S = 30.0


class Door(Protocol):
    """Whoever looks at connections before anything is read."""

    def is_guarded(self) -> bool:
        """Tell whether a connection that comes now must be looked at."""
        ...

    async def receive(self, visitor: Visitor) -> None:
        """Look at a connection: let it in, or see it out."""
        ...

    def guards_handshakes(self) -> bool:
        """Tell whether a connection that comes now must be looked at before TLS begins."""
        ...

    async def shake_hands(self, visitor: SecureVisitor) -> None:
        """Look at a connection that is to begin with TLS: let it begin, or see it out."""
        ...

    def left(self, line: HttpLine) -> None:
        """The connection is over."""
        ...


class Quick(Protocol):
    """Whoever takes in at once what comes in one piece."""

    def take(self, visitor: Visitor, data: bytes) -> bool:
        """Take in a request, whose answer follows (`Visitor.answered`). False: nothing has happened."""
        ...


class _RefusedHeadError(Exception):
    """Stops the parser at a head that it could read, and that is refused (`Visitor._refusal`)."""


class _Reading(Enum):
    """What we wait for from the sender."""

    FIRST_BYTE = auto()
    HEAD = auto()
    NOTHING = auto()
    """The head is here; whoever reads the body looks after the time itself."""


class _Flow(FlowControl):
    """uvicorn's, but nothing is read while requests wait for their turn.

    uvicorn reads on with each answer, and a piece may bring a thousand requests: whoever pipelines would fill our memory.
    What is answered now is here to its end, or nothing could be waiting behind it.
    """

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()


class Visitor(HttpToolsProtocol):
    """uvicorn's connection, with a door in front and a `Line` to the application.

    Leans on `app_state` (copied into every scope), `cycle`, `flow`, `timeout_keep_alive`, `data_received` and
    `_unsupported_upgrade_warning` of uvicorn's class; the tests of this package are the tests of that.
    """

    def __init__(
        self,
        *,
        door: Door,
        here: set[Visitor],
        quick: Quick | None = None,
        date: Callable[[], None] = lambda: None,
        **uvicorns: Any,
    ) -> None:
        """`quick` takes in at once what it can; `date` sees to it that the answer has a Date."""
        super().__init__(**uvicorns)
        self._door = door
        self._quick = quick
        self._date = date
        self.waits = False
        """A request was taken in at once, and its answer is due."""
        self.leaves = False
        """That answer is the last one."""
        self._answered_at = 0.0
        self._here = here
        here.add(self)
        # Which versions are served is decided here (`on_headers_complete`): the parser's list has 0.9 and 2.0, and no 1.2.
        self.parser.set_dangerous_leniencies(lenient_version=True)
        self._piece = self._unread = b""
        """What is being read, and what the parser has left of it."""
        self._line = b""
        """What has come since the newest request began; empty where that is not known, or its head is here."""
        self._refusal: Refusal | None = None
        self._closed = False
        self._deaf = False
        self._reading = _Reading.FIRST_BYTE
        self._watch: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._field_bytes = 0
        """Of the newest head, as far as it was read: names and values."""
        self._heard_body = False
        self._is_clogged = False
        """An answer is out as far as we are concerned, and the sender does not take it: the next request waits."""
        self._last_words: http.HttpWords | None = None
        self._kept: list[bytes] = []
        self._knocked = asyncio.Event()
        self._reception: asyncio.Task[None] | None = None

    # uvicorn's class narrows the argument in the same way: it only ever serves streams.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self.line = HttpLine(self)
        self.app_state = {"line": self.line}
        self._wait_for(_Reading.FIRST_BYTE)
        if self._door.is_guarded():
            self._closed = True
            self._reception = self.loop.create_task(self._door.receive(self))
            self._reception.add_done_callback(self.tasks.discard)
            self.tasks.add(self._reception)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._closed:
            self._kept.append(data)
            self.transport.pause_reading()
            self._knocked.set()
            return
        if self.waits:
            # What comes before its turn: it may be pipelined.
            self._kept.append(data)
            self.transport.pause_reading()
            return
        if self._quick is not None and data.startswith(b"POST ") and self._takes_at_once(data):
            return
        before, self._heard_body, self._unread = self._reading, False, data
        if before is not _Reading.HEAD:
            self._line = b"" if self._is_in_body() else data
        elif self._line and not self.url:
            self._line += data
        while self._unread:
            self._piece, self._unread = self._unread, b""
            super().data_received(self._piece)
        self._piece = b""
        if self._deaf:
            # It is refused already.
            return
        if self._reading is _Reading.HEAD:
            # Where the head began somewhere behind a body, nobody knows how much of this piece is head.
            self._head_bytes += 0 if before is _Reading.NOTHING else len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                # The parser would collect an endless head without end.
                self._refuse(*_TOO_LARGE)
            elif self._watch is None:
                self._wait_for(_Reading.HEAD)
        elif self._is_in_body():
            # Extensions of chunks and trailers have no end of their own either.
            self._head_bytes = 0 if self._heard_body else self._head_bytes + len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                detail = f"between and behind chunks {MAX_HEAD_BYTES} bytes may stand at most"
                self._refuse(431, "head_too_large", detail)

    hear = data_received
    """What a sender says; under TLS that is not what comes from the wire."""

    @cached_property
    def glance(self) -> Glance:
        """For requests in one piece; who only idles needs none."""
        return Glance()

    def _takes_at_once(self, data: bytes) -> bool:
        # uvicorn says that there always is one.
        newest = cast("RequestResponseCycle | None", self.cycle)
        if (
            self._reading is _Reading.HEAD
            or (newest is not None and not newest.response_complete)
            or self.pipeline
            or self._last_words is not None
            or self.line.attempt is not None
            or self.flow.write_paused
            or self.line.is_gone()
        ):
            return False
        assert self._quick is not None
        try:
            if not self._quick.take(self, data):
                return False
        except Exception:
            # Perhaps it is booked: the long way would book it once more.
            _log.exception("a bug of ours")
            self._refuse(500, "internal_error", "this is a bug of the simulator; its log has more")
            return True
        self._date()
        self._reading = _Reading.NOTHING
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        return True

    def answered(self) -> None:
        """What was taken in at once is answered."""
        self.waits = False
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        # One timer for many requests: a new one for each would cost more than it brings.
        self._answered_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._idle_for(self.timeout_keep_alive)
        if self._kept:
            early, self._kept = b"".join(self._kept), []
            # First, for what is there may be so much that the line is not to be read on.
            self.transport.resume_reading()
            self.hear(early)

    def _idle_for(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        left_s = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if self.waits or left_s > 0:
            self._idle_for(max(left_s, 1.0))
        else:
            super().timeout_keep_alive_handler()
            self.line.close()

    def shutdown(self) -> None:
        if self.waits:
            self.leaves = True
        else:
            super().shutdown()

    def _is_in_body(self) -> bool:
        # uvicorn says that there always is one.
        newest = cast("RequestResponseCycle | None", self.cycle)
        return newest is not None and newest.more_body

    def on_message_begin(self) -> None:
        self._reading, self._head_bytes, self._field_bytes = _Reading.HEAD, 0, 0
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            detail = f"the target of a request may have {MAX_TARGET_BYTES} bytes at most"
            self._stop(Refusal(414, "uri_too_long", detail))

    def on_header(self, name: bytes, value: bytes) -> None:
        # RFC 9110, section 6.5.1: what stands behind a body is no header, whatever its name.
        if self._reading is _Reading.HEAD:
            # `: ` and the end of the line count too.
            self._field_bytes += len(name) + len(value) + 4
            if self._field_bytes + len(self.url) > MAX_HEAD_BYTES:
                # However few pieces it came in.
                self._stop(_TOO_LARGE)
            super().on_header(name, value)

    def _stop(self, refusal: Refusal) -> NoReturn:
        """Only for what the parser calls: it reads no further, and `send_400_response` says why."""
        self._refusal = refusal
        raise _RefusedHeadError

    def on_headers_complete(self) -> None:
        self._reading, self._head_bytes, self._line = _Reading.NOTHING, 0, b""
        version = self.parser.get_http_version()
        # RFC 9110, section 2.5: a higher minor version is read as the highest that one knows.
        if not version.startswith("1."):
            self._stop(strange_version(version))
        if version == "1.0":
            # RFC 9110, section 10.1.1: a sender that knows no 100 must not hear one.
            self.expect_100_continue = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._heard_body = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        # Where another protocol is asked for, the parser is at the end with the head; we are not.
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """RFC 9110, section 7.8: we go on with HTTP/1.1. So a body follows, which the parser takes for the other protocol."""
        stopped = sys.exception()
        assert isinstance(stopped, httptools.HttpParserUpgrade)
        self.parser, head = onwards(self, self.headers)
        self._unread = head + self._piece[stopped.args[0] :]

    def on_response_complete(self) -> None:
        last = self._last_words
        if last is not None:
            self._say_last(last)
        elif self.transport.is_closing():
            self.line.close()  # uvicorn may have closed it: what is still to go out must not take for ever.
            super().on_response_complete()
        elif self.flow.write_paused:
            # Whoever pipelines and does not read what comes of it would fill our memory: no next request before that.
            self._is_clogged = True
            self.flow.pause_reading()
        else:
            super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.line.clogged()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.line.freed()
        if self._is_clogged:
            self._is_clogged = False
            self.on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._here.discard(self)
        if self._watch is not None:
            self._watch.cancel()
        cycle = self.line.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self._knocked.set()
        self.line.lost()
        self._door.left(self.line)

    def send_400_response(self, msg: str) -> None:
        """uvicorn could not parse what came (it words the reason; ours has two)."""
        self._refuse(*(self._refusal or unreadable(sys.exception(), self._line)))

    # --- at the door ----------------------------------------------------------------------------------

    async def first_bytes(self, timeout_s: float) -> bytes:
        """Return what the sender sends first, without looking into it; empty if it stays silent."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._knocked.wait()
        except TimeoutError:
            pass
        return self._kept[0] if self._kept else b""

    def let_in(self) -> None:
        """Go on as an ordinary connection."""
        self._closed = False
        if self.line.is_gone():
            return
        kept, self._kept = b"".join(self._kept), []
        self.transport.resume_reading()
        if kept:
            self.hear(kept)

    def turn_deaf(self) -> None:
        """Throw away whatever comes, but notice when the sender goes."""
        self._deaf = True
        self._kept.clear()
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self.transport.resume_reading()

    # --- patience -------------------------------------------------------------------------------------

    def _wait_for(self, what: _Reading) -> None:
        """Look after a while whether it has come. Requests that come in one piece never get here."""
        self._reading = what
        self._watch = self.loop.call_later(self._patience_s(), self._look_at_the_clock)

    def _patience_s(self) -> float:
        return HEAD_S if self._reading is _Reading.HEAD else KEEP_ALIVE_S

    def _look_at_the_clock(self) -> None:
        self._watch = None
        if self._deaf or self._closed or self.transport.is_closing() or self._reading is _Reading.NOTHING:
            return
        if self._reading is _Reading.FIRST_BYTE:
            self.line.close()
        else:
            self._refuse(408, "request_timeout", f"the head of a request must be here within {HEAD_S:g} s")

    # --- refusing what is no request --------------------------------------------------------------------

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answer something that never becomes a request, behind the answers that are still due; then close."""
        self._last_words = problem(status, code, detail)
        self._deaf = True
        # uvicorn says that there always is one.
        newest = cast("RequestResponseCycle | None", self.cycle)
        due = newest is not None and not newest.response_complete
        if newest is not None and due and newest.more_body:
            # It is the body of a request whose head was sound: nobody will ever read the rest of it.
            newest.disconnected = True
            newest.message_event.set()
            due = bool(self.pipeline)
            if due:
                self.pipeline.popleft()
        if not due:
            self._say_last(self._last_words)

    def _say_last(self, words: http.HttpWords) -> None:
        if self.pipeline:
            super().on_response_complete()
            return
        if not self.transport.is_closing():
            self.transport.write(http.whole(words, self.line.fields, closes=True))
            self.line.hang_up()
