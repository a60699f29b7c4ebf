"""One connection with a sender: the transport's side, the server's side, and the voice. No command is known here."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, cast

from aiosmtpd.smtp import SMTP, Session

from simulator.dialects.script import Script, in_pieces
from simulator.dialects.smtp import GARBLED, cut, part_of, reply, without_enhanced
from simulator.provider.answer import DragOn, Reply, Slow, Words
from simulator.provider.dress import Doubled, Dress, Dripped
from simulator.provider.ledger import AttemptState
from simulator.provider.smtp import SmtpRules
from simulator.servers.encryption import Encryption
from simulator.servers.smtp.inbox import Inbox
from simulator.servers.wire import Line

if TYPE_CHECKING:
    from simulator.servers.smtp.server import SmtpServer


log = logging.getLogger(__name__)

#: RFC 5321, section 4.2.3: "closing transmission channel", at any stage.
CLOSING = 421
#: How long a TLS handshake may take, in seconds.
HANDSHAKE_S = 30.0
#: Of an account that a reset has just taken away.
DEFAULT_RULES = SmtpRules()


class Connection(SMTP):
    """One connection with a sender.

    What is kept of aiosmtpd: a method per command with its syntax for HELP, session and envelope. Its plumbing
    is replaced, because it gives up on a sender that half-closes, reads mail data line by line, and ends the
    task that waits for a held answer; so its `__init__` (0.3 ms of introspection a connection) is not called.
    """

    session: Session

    def __init__(self, server: SmtpServer, *, implicit_tls: bool = False) -> None:
        """With `implicit_tls` the handshake comes before the greeting (RFC 8314, section 3.3)."""
        self.hostname = server.hostname
        self._server = server
        self._provider = server.provider
        self._wire = server.wire
        self._moved = server.moved
        self._clock = server.clock
        self._monotonic = server.clock.monotonic
        self._loop = asyncio.get_running_loop()
        self.session = Session(self._loop)
        self.task: asyncio.Future[None] | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._writable: asyncio.Future[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._over = False
        self._rules = DEFAULT_RULES
        """The settings of the sender's account, as they were when its last command came."""
        self._is_plain = False
        """Replies have no enhanced codes."""
        self._implicit_tls = implicit_tls
        self._secure = False
        self._encryption: Encryption | None = None
        self._hangs = False
        # What the voice needs to know: the words that would be said now, where, and what was said last.
        self._usual = b""
        self._stage_now = "connect"
        self._said: str | None = None
        self._closing = False
        """What was said last closes the connection."""
        self._drag: DragOn | None = None
        """A rule wants every reply to be late."""

    # --- the transport's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        # uvloop's transports are no subclasses of asyncio's, they only have the same methods.
        stream = cast(asyncio.Transport, transport)
        self._inbox = Inbox(stream, self._clock)
        self._line = Line(stream, turn_deaf=self._inbox.turn_deaf)
        self._line.unread_s = self._rules.idle_timeout_s
        self._peer = _peer(transport)
        self._attempt = self._provider.open("smtp", self._peer, self._clock.now())
        self._refresh()
        self._look_for_idleness()
        self._begin_talking()
        self._server.joined(self)

    def _begin_talking(self) -> None:
        self.task = self._server.begin(self.converse())

    def data_received(self, data: bytes) -> None:
        if self._encryption is None:
            self._take_in_clear(data)
        else:
            self._encryption.feed(data)

    def _take_in_clear(self, data: bytes) -> None:
        """Take what the sender said, in the clear."""
        self._inbox.feed(data)

    def _end_in_clear(self) -> None:
        """The sender has said under TLS that it says no more: as if it had half-closed the line."""
        self.eof_received()

    def eof_received(self) -> bool:
        """Keep the connection: a sender that half-closes after its last command may wait for the replies."""
        self._inbox.ended()
        self._line.ended()
        if self._encryption is not None:
            self._encryption.ended()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._line.lost()
        self._inbox.lost()
        if self._encryption is not None:
            self._encryption.ended()
        self.resume_writing()
        if not self.closed.done():
            self.closed.set_result(None)
        # Also while something is still held on it: nobody is connected any more.
        self._provider.gone(self._attempt.connection)
        self._server.left(self)

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()
        self._line.clogged()

    def resume_writing(self) -> None:
        self._line.freed()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    async def _encrypt(self, context: ssl.SSLContext) -> bool:
        """Do our part of a TLS handshake; what has come in already belongs to it. False: it failed."""
        raw = self._line.transport
        self._encryption = encryption = Encryption(raw, context, self._take_in_clear, self._end_in_clear)
        early = bytes(self._inbox.data)
        self._inbox.data.clear()
        if early:
            encryption.feed(early)
        if self._line.has_ended():
            encryption.ended()
        try:
            # In a task of its own: this session may be none (`simulator.driven`).
            await self._loop.create_task(_shaken(encryption))
        except (OSError, TimeoutError) as problem:  # an SSLError is an OSError
            log.info("TLS handshake with %s failed: %s", self._peer, str(problem) or type(problem).__name__)
            return False
        self.transport = self._line.transport = encryption
        self._secure = True
        return True

    async def converse(self) -> None:
        """Talk with the sender until one of both leaves; never raises."""
        raise NotImplementedError

    # --- the server's side ------------------------------------------------------------------------

    def dismiss(self) -> None:
        """The server stops: finish what is going on, obey no further command."""
        self._inbox.dismiss()

    def is_stuck(self) -> bool:
        """Tell whether only somebody else could end what is going on here (a hang, a held answer)."""
        return self._hangs or self._attempt.state is AttemptState.HELD

    def drop(self) -> None:
        """Close for good; what was written still goes out if the other side takes it at once."""
        transport = self._line.transport
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def _look_for_idleness(self) -> None:
        # One timer at a time; a new one per command would cost more than the command.
        self._refresh()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rules, now = self._rules, self._clock.monotonic()
        limits = (
            (rules.idle_timeout_s, self._inbox.waiting_since),
            (rules.message_timeout_s, self._inbox.message_since),
        )
        left_s = [
            limit_s if since is None else limit_s - (now - since)
            for limit_s, since in limits
            if limit_s is not None
        ]
        if left_s and min(left_s) <= 0:
            self._give_up()
        elif left_s:
            self._timer = self._loop.call_later(min(left_s), self._look_for_idleness)

    def _give_up(self) -> None:
        """The sender took too long."""
        self._inbox.give_up()

    def _refresh(self) -> None:
        """Look how SMTP is to be spoken with this sender: its account, or the account's settings, may have changed."""
        account = self._provider.accounts.get(self._attempt.account)
        rules = DEFAULT_RULES if account is None else account.setup.smtp
        if rules is not self._rules:
            self._rules = rules
            self._is_plain = not rules.offers("ENHANCEDSTATUSCODES")
            self._line.unread_s = rules.idle_timeout_s
            if self._timer is not None:
                self._timer.cancel()
            if not self._line.is_lost():
                # The limits may be others; but what has just come is not late by the new ones.
                self._timer = self._loop.call_soon(self._look_for_idleness)

    # --- the voice --------------------------------------------------------------------------------

    async def speak(self, words: Words) -> None:
        """Say them whole, and wait while the sender does not take them."""
        whole = self._put(words)
        self._said = first_line(whole)
        await self._utter(whole)

    def _put(self, words: Words) -> bytes:
        whole = reply(words, self._clock.now())
        if isinstance(words, Reply) and (words.text is not None or words.enhanced is not None):
            pass  # A rule has the last word.
        elif self._is_plain or self._stage_now in ("connect", "ehlo"):
            # RFC 2034, section 4: no enhanced codes in the greeting and in the reply to EHLO or HELO.
            whole = without_enhanced(whole)
        return whole

    async def speak_in_part(self, words: Words | None) -> None:
        """Say the beginning of these words, or of those that would be said now."""
        whole = self._usual if words is None else reply(words, self._clock.now())
        self._write(part_of(whole))

    async def babble(self, code: int) -> None:
        """Say a line that is no reply; a code has no place in it."""
        await self._utter(GARBLED)

    def script(self, dress: Dress, words: Words | None) -> Script:
        """Return how these words (or those that would be said now) are said in this form."""
        whole = self._usual if words is None else self._put(words)
        self._said = first_line(whole)
        match dress:
            case Dripped(pause_s=pause_s, size_bytes=size_bytes):
                return in_pieces(whole, size_bytes, pause_s)
            case Doubled(code=code, enhanced=enhanced, text=text):
                again = whole if code is None else self._put(Reply(code=code, enhanced=enhanced, text=text))
                self._closing = code == CLOSING
                return Script(pieces=(whole + again,))
            case _:
                raise AssertionError(f"{dress} is a form of HTTP")

    def played(self) -> None:
        """The whole script is out."""

    def _write(self, data: bytes) -> None:
        if not self._line.is_gone():
            self._line.transport.write(data)

    def _worded(self, data: bytes) -> bytes:
        return without_enhanced(data) if self._is_plain else data

    async def _say(self, data: bytes) -> None:
        data = self._worded(data)
        if self._drag is None and self._writable is None:
            # What nearly always happens, without a detour.
            self._write(data)
        else:
            await self._utter(data)

    async def _utter(self, data: bytes) -> None:
        """Let it out, and wait while the sender does not take it."""
        if self._drag is None:
            self._write(data)
        else:
            for piece in cut(data, self._drag.each):
                await self._wire.wait_out(Slow(delay_s=self._drag.delay_s), self._attempt)
                self._write(piece)
        if self._writable is not None:
            await self._writable


async def _shaken(encryption: Encryption) -> None:
    await asyncio.wait_for(encryption.shaken, HANDSHAKE_S)


def first_line(whole: bytes) -> str:
    return whole.partition(b"\r\n")[0].decode("utf-8", "replace")


def _peer(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "")
