"""The SMTP wire: one transaction per mail, on a connection that is used again while it is good.

Must not hold: the steps of a transaction (`smtp_talk`), what a code means (`policy.classify`), when to try again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from reference_sender.life import Parcel
from reference_sender.policy.evidence import NO_LETTERS, Evidence, Phase, Wire
from reference_sender.transports.smtp_options import SmtpOptions, Tls
from reference_sender.transports.smtp_replies import hung_up_while_idle
from reference_sender.transports.smtp_talk import EXPECTED, Talk


class SmtpTransport:
    """Sends a mail by SMTP; see `Evidence` for what it tells. Connections are used again while they are good."""

    def __init__(self, options: SmtpOptions) -> None:
        self._options = options
        self._idle: list[Talk] = []
        """The one that was used last is at the end, and is taken first: so those that are too many grow old."""
        self._tidying: asyncio.TimerHandle | None = None
        self._leaving: list[asyncio.Task[None]] = []
        self._tls_context: ssl.SSLContext | None = None

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        """Make one attempt. `point_of_no_return` is awaited between 354 and the first byte of the mail.

        SMTP has no place for an idempotency key; `key` is not sent.
        """
        if not (parcel.sender + parcel.recipient).isascii():
            return Evidence(wire=Wire.SMTP, phase=Phase.CONNECT, trouble=NO_LETTERS)
        deadline = asyncio.get_running_loop().time() + self._options.total_timeout_s
        if (talk := self._idle_talk()) is not None:
            evidence = await self._attempt(talk, parcel, point_of_no_return, deadline)
            if not hung_up_while_idle(evidence):
                return evidence
        talk = Talk(self._options, self._context())
        return await self._attempt(talk, parcel, point_of_no_return, deadline)

    async def _attempt(
        self, talk: Talk, parcel: Parcel, point_of_no_return: Callable[[], Awaitable[bool]], deadline: float
    ) -> Evidence:
        try:
            async with asyncio.timeout_at(deadline):
                refusal = None if talk.open else await talk.begin()
                evidence = refusal or await talk.hand_over(parcel, point_of_no_return)
        except EXPECTED as error:
            evidence = talk.trouble(error)
        except BaseException:
            # Cancelled, or a bug: either way the line must not stay open with half a mail in it.
            talk.abort()
            raise
        if talk.reusable:
            self._lay_aside(talk)
        else:
            talk.abort()
        return evidence

    def _idle_talk(self) -> Talk | None:
        while self._idle:
            talk = self._idle.pop()
            if talk.open and talk.in_step:
                return talk
            talk.abort()
        return None

    def _lay_aside(self, talk: Talk) -> None:
        loop = asyncio.get_running_loop()
        talk.idle_until = loop.time() + self._options.idle_s
        self._idle.append(talk)
        if self._tidying is None:
            self._tidying = loop.call_at(talk.idle_until, self._tidy)

    def _tidy(self) -> None:
        """Say goodbye where no mail was for too long. A connection that is left is in no list, so no mail can take it."""
        loop = asyncio.get_running_loop()
        while self._idle and self._idle[0].idle_until <= loop.time():
            leaving = loop.create_task(self._idle.pop(0).quit())
            self._leaving.append(leaving)
            leaving.add_done_callback(self._leaving.remove)
        self._tidying = loop.call_at(self._idle[0].idle_until, self._tidy) if self._idle else None

    def _context(self) -> ssl.SSLContext | None:
        # Building one costs about 40 ms, so all connections share it.
        if self._tls_context is None and self._options.tls_now is not Tls.OFF:
            self._tls_context = ssl.create_default_context()
        return self._tls_context

    async def close(self) -> None:
        """Say goodbye on idle connections. What comes back does not matter: QUIT never changes an outcome."""
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None
        idle, self._idle = self._idle, []
        # All at once: a server that does not answer holds up the end of the worker for the patience of one.
        await asyncio.gather(*self._leaving, *(talk.quit() for talk in idle))
