"""What comes over a connection is read in pieces, so that a request begins with one, wherever another one ends before it.

The parser does not tell where it has stopped. Whoever knows where the request begins that stopped it can see what is
wrong with it (`refusal.unreadable`).
"""

from __future__ import annotations

from collections.abc import Iterable

from simulator.servers.http.bounds import may_end

#: Of what comes at once, so many places are looked at where a request that began earlier may end: with more of them in
#: a body in chunks nobody is to keep us busy.
MAX_CUTS = 256


class Pieces:
    """Cuts what comes. Told by whoever parses: `is_within` and `body_bytes`."""

    __slots__ = ("_cuts", "_piece", "begun", "body_bytes", "is_within", "unread")

    def __init__(self) -> None:
        self.unread = b""
        self.begun = b""
        """What was read since some request began, the newest piece included; empty where that is too long ago."""
        self.is_within = False
        """The newest request has begun, and is not here to its end."""
        self.body_bytes = 0
        """Of the newest request, as far as it was read."""
        self._piece = b""
        self._cuts = 0

    def come(self, data: bytes) -> None:
        """This came, and everything before it was read."""
        self.unread, self._cuts = data, 0

    def afresh(self) -> bytes:
        """Return all that is unread: no request is under way."""
        self.begun = self._piece = self.unread
        self.unread = b""
        return self._piece

    def onwards(self, headers: Iterable[tuple[bytes, bytes]] | None, *, knows_method: bool) -> bytes:
        """Return what is unread up to where the request that is under way may be over.

        `headers`: its own; None: its head is not read yet. `knows_method`: what was read of it so far is of no interest.
        """
        size = len(self.unread)
        if self._cuts < MAX_CUTS:
            self._cuts += 1
            size = may_end(self.unread, None if headers is None else self._left(headers))
        self._piece, self.unread = self.unread[:size], self.unread[size:]
        self.begun = self.begun + self._piece if self.begun and not knows_method else b""
        return self._piece

    def give_back(self, read: int) -> None:
        """Of the newest piece only so many bytes were read."""
        self.unread = self._piece[read:] + self.unread

    def done(self, *, in_line: bool) -> None:
        """Keep nothing, or only the beginning of a request whose request line is not here yet."""
        self._piece = self.unread = b""
        if not in_line:
            self.begun = b""

    def _left(self, headers: Iterable[tuple[bytes, bytes]]) -> int | None:
        """Return how much of a body of known length is still to come; None: it is of another kind."""
        lengths = (int(value) for name, value in headers if name == b"content-length")
        length = next(lengths, None)
        return None if length is None else length - self.body_bytes
