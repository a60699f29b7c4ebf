"""The short way of a `POST` that hands in one mail: a whole request in one piece, to which nothing can happen.

No task, no scope, no second turn of the loop: read, booked, kept with everything else of this turn, answered in one
write. Whatever is not plain – a request in pieces, pipelining, codings, a mistake, a key that was seen before, an
account in which something could go wrong – goes the long way (`sending`) from its first byte, and nothing has happened
before. What both do is the same, to the byte.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from simulator.dialects.native.answers import whole_yes
from simulator.dialects.native.request import read
from simulator.driven import Waiter
from simulator.provider.answer import Accepted
from simulator.provider.ledger import Attempt, Sent
from simulator.provider.message import Submission
from simulator.servers.http.desk import Desk
from simulator.servers.http.head import read_head
from simulator.store import StoreError

if TYPE_CHECKING:
    from simulator.servers.http.connection import Visitor

_log = logging.getLogger(__name__)

#: Larger requests do not come in one piece, and their bodies are parsed in a thread.
LARGEST_BYTES = 64 * 1024
#: Headers that change how a request is read, or what follows it.
_NOT_PLAIN = frozenset(
    {
        b"connection",
        b"content-encoding",
        b"expect",
        b"proxy-connection",  # The parser ends the connection for it as for `connection`.
        b"transfer-encoding",
        b"upgrade",
    }
)

TellWhenKept = Callable[[Waiter[StoreError | None]], None]
"""Sets a waiter when everything that was booked so far is durable: to None, or to what went wrong."""


class QuickDesk:
    """Takes requests in at once. `date` sees to it that answers have a Date."""

    def __init__(self, desk: Desk, tell_when_kept: TellWhenKept) -> None:
        self._desk = desk
        self._provider = desk.provider
        self._tell_when_kept = tell_when_kept
        self._pending = 0
        self._nobody: asyncio.Future[None] | None = None

    def take(self, visitor: Visitor, data: bytes) -> bool:
        """Take in a request, whose answer follows when it is kept. False: nothing has happened, go the long way."""
        glance = visitor.glance
        if len(data) > LARGEST_BYTES or not self._provider.quick.is_open or not glance.at(data):
            return False
        path = glance.url.decode("ascii")
        if "%" in path or "?" in path or "#" in path or not path.startswith("/"):
            return False
        desk = self._desk
        now = desk.now()
        head = read_head(
            {"path": path, "headers": glance.headers, "http_version": "1.1"}, self._provider, now
        )
        if not _NOT_PLAIN.isdisjoint(head.headers):
            return False
        setup = head.setup
        if head.trouble is not None or setup.api.key_header(path) is None or desk.refusal() is not None:
            return False
        keys = setup.keys
        mail = read(
            glance.body,
            key=head.detail.key,
            now=now,
            host=desk.hostname,
            body_field=None if keys.carrier == "header" else keys.body_field,
            max_chars=keys.max_chars,
        )
        if not isinstance(mail, Submission):
            return False
        line = visitor.line
        taken = self._provider.quick.hand_in(
            self._provider.account(head.account, now), mail, line.peer, line.name, now
        )
        if taken is None:
            return False
        attempt, words = taken
        line.name = attempt.connection
        line.keep_alive_for(setup.api.keep_alive_s)
        self._pending += 1
        visitor.waits = True
        self._tell_when_kept(_Pending(self, visitor, attempt, words))
        return True

    def kept(self, visitor: Visitor, attempt: Attempt, words: Accepted, trouble: StoreError | None) -> None:
        """It is kept: say so. Or it is not, and neither yes nor no would be true: say nothing."""
        desk, line = self._desk, visitor.line
        desk.moved()
        now = desk.now()
        sent, said = Sent.NOTHING, None
        if trouble is not None:
            line.hang_up()
        elif not line.is_gone():
            closes = visitor.leaves
            line.transport.write(whole_yes(words, line.fields, closes=closes))
            sent, said = Sent.UNKNOWN if line.has_ended() else Sent.COMPLETE, "200"
            if closes:
                line.close()
        self._provider.quick.end(attempt, sent, said, now)
        desk.wire.turns.ended(attempt.account)
        desk.moved()
        self._pending -= 1
        if self._nobody is not None and not self._pending and not self._nobody.done():
            self._nobody.set_result(None)
        visitor.answered()

    async def idle(self, timeout_s: float) -> None:
        """Return when everybody has an answer."""
        if self._pending:
            self._nobody = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._nobody}, timeout=timeout_s)


class _Pending:
    """A request that waits for its acceptance to be kept."""

    __slots__ = ("_attempt", "_desk", "_visitor", "_words")

    def __init__(self, desk: QuickDesk, visitor: Visitor, attempt: Attempt, words: Accepted) -> None:
        self._desk, self._visitor, self._attempt, self._words = desk, visitor, attempt, words

    def done(self) -> bool:
        return False

    def set_result(self, trouble: StoreError | None, /) -> None:
        try:
            self._desk.kept(self._visitor, self._attempt, self._words, trouble)
        except Exception:  # Others wait for the same write: they must hear of it.
            _log.exception("a bug of ours")
            self._visitor.line.hang_up()

    def __await__(self) -> Generator[Any, None, StoreError | None]:
        raise AssertionError("nobody waits for it: it is told")
