"""The one place that touches a transport: waits, hangs, hangs up, resets, holds back.

An answer of the provider says what happens; here it happens. SMTP and HTTP hand in a `Voice` that knows
how words are said on their wire, and a `Line` around the transport. Nothing here decides anything.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Protocol

from simulator.clock import Clock
from simulator.provider.answer import (
    Accepted,
    Answer,
    Garble,
    Hang,
    HangUp,
    Hold,
    Refused,
    Reply,
    Reset,
    Slow,
    Truncate,
    Words,
)
from simulator.provider.ledger import Attempt, AttemptState, Sent


class Line:
    """One connection with a sender. The server's protocol calls `lost` from `connection_lost`."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._gone = asyncio.Event()

    def hang_up(self) -> None:
        """Close in an orderly way: what was written goes out, then FIN."""
        self.transport.close()

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

    def lost(self) -> None:
        """The connection is over, from whichever side."""
        self._gone.set()

    def is_gone(self) -> bool:
        """Tell whether nothing can be said on this line any more."""
        return self._gone.is_set() or self.transport.is_closing()

    async def gone(self) -> None:
        """Return when the connection is over."""
        await self._gone.wait()


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


class Holds:
    """The answers that wait for `POST release`, by account."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Event]] = {}

    async def wait(self, account: str) -> None:
        """Return when the account's answers are released."""
        released = asyncio.Event()
        waiting = self._waiting.setdefault(account, [])
        waiting.append(released)
        try:
            await released.wait()
        finally:
            if released in waiting:
                waiting.remove(released)

    def release(self, account: str) -> int:
        """Let go everything that is held for this account; return how much that was."""
        waiting = self._waiting.pop(account, [])
        for released in waiting:
            released.set()
        return len(waiting)


class Wire:
    """Carries answers out. `moved` is called whenever an attempt changes, so that waiters can look again."""

    def __init__(self, clock: Clock, holds: Holds, moved: Callable[[], None]) -> None:
        self._clock = clock
        self._holds = holds
        self._moved = moved

    async def wait_out(self, answer: Answer | None, attempt: Attempt) -> Answer | None:
        """Spend the waits at the beginning of an answer; return what is left to be said (None: go on as usual).

        A hold lasts until it is released even if the sender is gone by then: a provider that is slow with
        a request does not notice that nobody waits for it any more.
        """
        while True:
            match answer:
                case Slow(delay_s=delay_s, then=then):
                    await self._clock.sleep(delay_s)
                    answer = then
                case Hold(then=then):
                    attempt.state = AttemptState.HELD
                    self._moved()
                    try:
                        await self._holds.wait(attempt.account)
                    finally:
                        attempt.state = AttemptState.OPEN
                        self._moved()
                    answer = then
                case _:
                    return answer

    async def deliver(self, answer: Answer, attempt: Attempt, voice: Voice, line: Line) -> Sent:
        """Do what the answer says; return how much of it really went out.

        COMPLETE means handed to a connection that was still there; whether it arrived nobody can know.
        """
        rest = await self.wait_out(answer, attempt)
        match rest:
            case None:
                return Sent.NOTHING
            case Accepted() | Refused() | Reply():
                if line.is_gone():
                    return Sent.NOTHING
                await voice.speak(rest)
                return Sent.NOTHING if line.is_gone() else Sent.COMPLETE
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
            case HangUp():
                line.hang_up()
                return Sent.NOTHING
            case Reset():
                line.reset()
                return Sent.NOTHING
            case Hang(for_s=None):
                await line.gone()
                return Sent.NOTHING
            case Hang(for_s=for_s):
                await self._hang(for_s or 0.0, line)
                return Sent.NOTHING
            case Slow() | Hold():
                raise AssertionError("wait_out leaves no waits at the front")

    async def _hang(self, for_s: float, line: Line) -> None:
        gone = asyncio.ensure_future(line.gone())
        over = asyncio.ensure_future(self._clock.sleep(for_s))
        try:
            await asyncio.wait({gone, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            over.cancel()
        line.hang_up()
