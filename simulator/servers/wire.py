"""The one place that touches a transport: waits, hangs, hangs up, resets, holds back.

An answer of the provider says what happens; here it happens. SMTP and HTTP hand in a `Voice` that knows
how words are said on their wire, and a `Line` around the transport. Nothing here decides anything.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from simulator.dialects import tls
from simulator.dialects.script import Script
from simulator.provider.answer import (
    Accepted,
    Alert,
    Answer,
    DragOn,
    Dressed,
    Garble,
    Hang,
    HangUp,
    Hold,
    InTurn,
    KeepExpecting,
    Refused,
    Reply,
    Reset,
    Results,
    ShowCertificate,
    Slow,
    TellFirst,
    Truncate,
    Unasked,
    WhenHeard,
    Words,
)
from simulator.provider.dress import Dress
from simulator.provider.ledger import Attempt, AttemptState, Sent
from simulator.servers.alarms import Alarms

#: How long a closed line still waits for the other side to close too, in seconds.
LINGER_S = 2.0
#: How long the other side may take nothing at all of what was said to it, in seconds, if it does not fit on its way.
UNREAD_S = 60.0


class Line:
    """One connection with a sender. The server's protocol calls `lost` from `connection_lost`.

    `turn_deaf`, where the protocol has it, makes the protocol throw away whatever comes in from then on.
    Only with it can a line be closed by FIN while the sender still talks (see `hang_up`).
    """

    def __init__(self, transport: asyncio.Transport, *, turn_deaf: Callable[[], None] | None = None) -> None:
        self.transport = transport
        self._turn_deaf = turn_deaf
        self._over = asyncio.Event()
        self._gone = False
        self._ended = False
        self._hung_up = False
        self._linger: asyncio.TimerHandle | None = None
        self.unread_s: float | None = UNREAD_S
        """See `clogged`; None: there is no limit."""
        self._untaken = 0
        self._watch: asyncio.TimerHandle | None = None

    def clogged(self) -> None:
        """More was said than the other side takes (`pause_writing`): if it takes nothing for `unread_s`, it is seen out.

        Whoever never reads would else hold its line, and what was said on it, for ever: also a line that we have
        closed, for the kernel keeps asking whether there is room.
        """
        if self._watch is None and self.unread_s is not None and not self._gone:
            self._untaken = self.transport.get_write_buffer_size()
            self._watch = asyncio.get_running_loop().call_later(self.unread_s, self._see_out)

    def freed(self) -> None:
        """The other side has taken most of what was said (`resume_writing`)."""
        if self._watch is not None and not self.transport.is_closing():
            self._watch.cancel()
            self._watch = None

    def _see_out(self) -> None:
        self._watch = None
        left = self.transport.get_write_buffer_size()
        if not left or self._gone:
            return
        if left < self._untaken:
            self.clogged()  # It is slow, but there.
        else:
            self.transport.abort()

    def close(self) -> None:
        """Close behind what was said. Whoever does not take it is not waited for without end."""
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self.clogged()

    def hang_up(self) -> None:
        """Close in an orderly way: what was written goes out, then FIN.

        A kernel that closes a socket with unread input sends RST instead of FIN, and the RST may overtake
        the last reply (RFC 9112, section 9.6, tells the same of HTTP). So we only stop talking, let the
        sender talk into the void, and close for good when it closes too or `LINGER_S` later.
        """
        if self.is_gone():
            return
        self._hung_up = True
        if self._turn_deaf is None or self._ended or not self.transport.can_write_eof():
            self.close()
            return
        self._turn_deaf()
        try:
            self.transport.write_eof()
        except OSError:
            # The other side was faster: there is nobody left to wait for.
            self.close()
            return
        self._linger = asyncio.get_running_loop().call_later(LINGER_S, self.close)

    def reset(self) -> None:
        """Break the line: RST, and whatever was not sent yet is thrown away.

        SO_LINGER with a timeout of zero makes `close` send RST (socket(7)); `abort` closes without flushing.
        """
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass  # The other side was faster and the descriptor is gone: broken is what we wanted.
        self.transport.abort()

    def turn_deaf(self) -> None:
        """Throw away whatever comes in from now on: memory stays bounded, and the end is still noticed."""
        if self._turn_deaf is not None:
            self._turn_deaf()

    def ended(self) -> None:
        """The other side sent FIN (`eof_received`): it says no more, and may or may not listen still."""
        self._ended = True
        self._over.set()
        if self._hung_up:
            self.close()

    def lost(self) -> None:
        """The connection is over, from whichever side."""
        self._gone = True
        self._over.set()
        for timer in (self._linger, self._watch):
            if timer is not None:
                timer.cancel()

    def has_ended(self) -> bool:
        """Tell whether the other side has said that it says no more."""
        return self._ended

    def is_gone(self) -> bool:
        """Tell whether nothing can be said on this line any more."""
        return self._gone or self._hung_up or self.transport.is_closing()

    def is_lost(self) -> bool:
        """Tell whether the connection is over. One that closes behind its last words is not: those go out."""
        return self._gone

    async def gone(self) -> None:
        """Return when the other side gave up: the connection is over, or it sent FIN."""
        await self._over.wait()


class Voice(Protocol):
    """How one wire says words."""

    async def speak(self, words: Words) -> None:
        """Say them whole."""
        ...

    async def speak_in_part(self, words: Words | None) -> None:
        """Say the beginning only, and make sure it is on its way; the line is closed right after.

        None: there were no words yet (a stage before any reply); say the beginning of a usual reply.
        """
        ...

    async def babble(self, code: int) -> None:
        """Say something that is no reply of this protocol."""
        ...

    def script(self, dress: Dress, words: Words | None) -> Script:
        """Return how these words are said in this form. HTTP only."""
        ...

    def played(self) -> None:
        """The whole script is out. HTTP only."""
        ...


class Holds:
    """The answers that wait for `POST release`, by account. `changed` is told the account whenever one comes or goes."""

    def __init__(self, changed: Callable[[str], None] = lambda account: None) -> None:
        self._changed = changed
        self._waiting: dict[str, list[asyncio.Event]] = {}

    def held(self, account: str) -> int:
        """Return how many answers wait."""
        return len(self._waiting.get(account, ()))

    @property
    def all_held(self) -> int:
        """How many answers of all accounts wait."""
        return sum(map(len, self._waiting.values()))

    async def wait(self, account: str) -> None:
        """Return when the account's answers are released."""
        released = asyncio.Event()
        waiting = self._waiting.setdefault(account, [])
        waiting.append(released)
        self._changed(account)
        try:
            await released.wait()
        finally:
            if released in waiting:
                waiting.remove(released)
                self._changed(account)

    def release(self, account: str) -> int:
        """Let go everything that is held for this account; return how much that was."""
        held = self._waiting.get(account, [])
        waiting, held[:] = list(held), []
        for released in waiting:
            released.set()
        if waiting:
            self._changed(account)
        return len(waiting)


class Turns:
    """Requests that wait for one in front of them to end, by account."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def next(self, account: str) -> asyncio.Future[None]:
        """Return what is done when the account's next request ends."""
        waiting = self._waiting.get(account)
        if waiting is None:
            waiting = self._waiting[account] = asyncio.get_running_loop().create_future()
        return waiting

    def ended(self, account: str) -> None:
        """A request of this account has ended: whoever waits for one may look again."""
        waiting = self._waiting.pop(account, None)
        if waiting is not None:
            waiting.set_result(None)


class Wire:
    """Carries answers out. `moved` is called whenever an attempt changes, so that waiters can look again."""

    def __init__(
        self,
        alarms: Alarms,
        holds: Holds,
        moved: Callable[[], None],
        *,
        tell: Callable[[str, Collection[str]], Awaitable[None]] | None = None,
    ) -> None:
        """`tell`: tells an account's webhook what has happened to attempts' mails, and returns when that was tried."""
        self._alarms = alarms
        self._holds = holds
        self._moved = moved
        self._tell = tell
        self.turns = Turns()

    async def wait_out(self, answer: Answer | None, attempt: Attempt) -> Answer | None:
        """Spend the waits at the beginning of an answer; return what is left to be said (None: go on as usual).

        A hold lasts until it is released even if the sender is gone by then: a provider that is slow with
        a request does not notice that nobody waits for it any more.
        """
        while True:
            match answer:
                case Slow(delay_s=delay_s, then=then):
                    await self._alarms.sleep(attempt.account, delay_s)
                    answer = then
                case Hold(then=then):
                    # Not always open before: what is said on a line after an attempt's end (SMTP `quit`)
                    # is held in the name of that attempt.
                    before, attempt.state = attempt.state, AttemptState.HELD
                    self._moved()
                    try:
                        await self._holds.wait(attempt.account)
                    finally:
                        attempt.state = before
                        self._moved()
                    answer = then
                case TellFirst(within_s=within_s, attempts=attempts, then=then):
                    await self._tell_first(attempt.account, attempts, within_s)
                    answer = then
                case _:
                    return answer

    async def _tell_first(self, account: str, attempts: Collection[str], within_s: float) -> None:
        if self._tell is None:
            return
        telling = asyncio.ensure_future(self._tell(account, attempts))
        over = asyncio.ensure_future(self._alarms.sleep(account, within_s))
        try:
            await asyncio.wait({telling, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            telling.cancel()
            over.cancel()

    async def wait_in_turn(
        self, turn: InTurn, attempt: Attempt, ask: Callable[[], Answer | None]
    ) -> Answer | None:
        """Wait for requests to end until `ask` has another answer than to wait; return that, or what `turn` says then."""
        over = asyncio.ensure_future(self._alarms.sleep(attempt.account, turn.for_s))
        try:
            while not over.done():
                await asyncio.wait(
                    {over, self.turns.next(attempt.account)}, return_when=asyncio.FIRST_COMPLETED
                )
                answer = ask()
                if not isinstance(answer, InTurn):
                    return answer
            return turn.then
        finally:
            over.cancel()

    async def deliver(self, answer: Answer, attempt: Attempt, voice: Voice, line: Line) -> Sent:
        """Do what the answer says; return how much of it really went out.

        COMPLETE means handed to a connection that was still there; whether it arrived nobody can know.
        UNKNOWN means handed to a connection whose other side had sent FIN: perhaps it still listens.
        """
        rest = await self.wait_out(answer, attempt)
        match rest:
            case None:
                return Sent.NOTHING
            case Accepted() | Refused() | Reply() | Results():
                if line.is_gone():
                    return Sent.NOTHING
                await voice.speak(rest)
                if line.is_lost():
                    return Sent.NOTHING
                return Sent.UNKNOWN if line.has_ended() else Sent.COMPLETE
            case Garble(code=code):
                if line.is_gone():
                    return Sent.NOTHING
                await voice.babble(code)
                return Sent.PARTIAL
            case Truncate(then=then):
                if line.is_gone():
                    return Sent.NOTHING
                await voice.speak_in_part(then)
                line.hang_up()
                return Sent.PARTIAL
            case Alert(alert=alert):
                if not line.is_gone():
                    line.transport.write(tls.alert(alert))
                    line.hang_up()
                return Sent.NOTHING
            case HangUp():
                line.hang_up()
                return Sent.NOTHING
            case Reset():
                line.reset()
                return Sent.NOTHING
            case Hang(for_s=for_s):
                line.turn_deaf()
                if for_s is None:
                    await line.gone()
                else:
                    await self._hang(for_s, attempt.account, line)
                return Sent.NOTHING
            case Dressed(dress=dress, then=then):
                return await self._play(voice.script(dress, then), attempt, voice, line)
            case KeepExpecting():
                raise AssertionError("whoever reads the body knows that")
            case WhenHeard() | Unasked() | DragOn() | ShowCertificate():
                raise AssertionError("who begins a dialogue or a handshake does that")
            case InTurn():
                raise AssertionError("who waits for a request in front asks again after it")
            case Slow() | Hold() | TellFirst():
                raise AssertionError("wait_out leaves no waits at the front")

    async def _play(self, script: Script, attempt: Attempt, voice: Voice, line: Line) -> Sent:
        said = Sent.NOTHING
        for number, piece in enumerate(script.pieces):
            if number and script.pause_s:
                await self._alarms.sleep(attempt.account, script.pause_s)
            if line.is_gone():
                return said
            line.transport.write(piece)
            said = Sent.PARTIAL
        if not script.whole:
            line.hang_up()
            return said
        voice.played()
        return Sent.UNKNOWN if line.has_ended() else Sent.COMPLETE

    async def _hang(self, for_s: float, account: str, line: Line) -> None:
        gone = asyncio.ensure_future(line.gone())
        over = asyncio.ensure_future(self._alarms.sleep(account, for_s))
        try:
            await asyncio.wait({gone, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            over.cancel()
        line.hang_up()
