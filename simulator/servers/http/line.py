"""The line of one HTTP connection: what its requests share, and what uvicorn must know of answers that go out past it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from simulator.provider.ledger import Attempt
from simulator.servers.wire import Line

if TYPE_CHECKING:
    from simulator.servers.http.connection import Visitor


class HttpLine(Line):
    """One HTTP connection: what its requests share."""

    def __init__(self, visitor: Visitor) -> None:
        super().__init__(visitor.transport, turn_deaf=visitor.turn_deaf)
        self._visitor = visitor
        peer = visitor.transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "unknown"
        self.name = ""
        """The connection's name in attempts; the first attempt gives it."""
        self.attempt: Attempt | None = None
        """Opened at the door, waiting for its request."""
        self.cycle: RequestResponseCycle | None = None
        """The request being answered right now; with pipelining uvicorn itself only knows the last one read."""

    # An answer goes out as one piece of bytes that we have made, past uvicorn, which would write head and body
    # apart and lets nobody say anything odd. What uvicorn must know of it is said by `begun` and `answered`.

    @property
    def fields(self) -> list[bytes]:
        """The header lines that every answer has (`Date`)."""
        return [name + b": " + value for name, value in self._visitor.server_state.default_headers]

    @property
    def is_head_request(self) -> bool:
        return self.cycle is not None and self.cycle.scope["method"] == "HEAD"

    def closes(self) -> bool:
        """Tell whether the answer that is said now is the last one of this connection.

        So it is where the request has not been read to its end (RFC 9110, section 10.1.1, RFC 9112, section 9.3):
        what is left of it would be taken for the next request.
        """
        cycle = self.cycle
        return cycle is None or not cycle.keep_alive or cycle.more_body

    def begun(self) -> None:
        """The head of the answer is out."""
        if self.cycle is not None:
            self.cycle.response_started = True
            self.cycle.waiting_for_100_continue = False

    def answered(self) -> None:
        """The answer is out as a whole: on to the next request, or the end."""
        cycle = self.cycle
        if cycle is None:
            return
        self.begun()
        unread = cycle.more_body
        cycle.response_complete = True
        cycle.message_event.set()
        if unread:
            self.hang_up()
        elif not cycle.keep_alive:
            self.close()
        cycle.on_response()

    def keep_alive_for(self, seconds: float) -> None:
        """Let this connection idle so long between requests."""
        self._visitor.timeout_keep_alive = seconds  # type: ignore[assignment] # uvicorn says int and counts in fractions as well

    def never_says_continue(self) -> None:
        """Do not answer `Expect: 100-continue` with 100: the sender must go on by itself."""
        if self.cycle is not None:
            self.cycle.waiting_for_100_continue = False

    async def drained(self) -> None:
        """Return when the sender takes what was said, or is gone."""
        if self._visitor.flow.write_paused and not self.is_gone():
            await self._visitor.flow.drain()
