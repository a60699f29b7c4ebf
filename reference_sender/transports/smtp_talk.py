"""An SMTP talk: one connection, command by command, so that the phase is always known.

aiosmtplib's ready-made DATA sends the command and the mail in one go; we need the moment between 354 and the first byte
of the mail, and the moment before the final dot, so that step is ours.
Must not hold: which connection a mail takes (`smtp`), how a reply is read (`smtp_replies`).
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiosmtplib.errors import SMTPException, SMTPResponseException

from reference_sender.life import Parcel
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.transports.smtp_line import Line, own_name
from reference_sender.transports.smtp_options import SmtpOptions, Tls
from reference_sender.transports.smtp_replies import (
    Garbled,
    NotOffered,
    evidence_of,
    reply_octets,
    trouble_of,
    words_of,
)

_CHUNK_OCTETS = 64 * 1024
#: So long after one address of a server the next one is tried as well, in seconds (RFC 8305 section 8).
_NEXT_ADDRESS_S = 0.25
#: So long is waited for the reply to QUIT, in seconds.
_GOODBYE_S = 2.0

# The least a client must wait, per command (RFC 5321 section 4.5.3.2). read_timeout_s can only make them shorter: no server
# may count on more, and whoever waits longer keeps a lease and a connection for one that is gone.
DEADLINES_S: dict[Phase, float] = {
    Phase.GREETING: 300.0,
    Phase.EHLO: 300.0,
    Phase.STARTTLS: 300.0,
    Phase.AUTH: 300.0,
    Phase.MAIL: 300.0,
    Phase.RCPT: 300.0,
    Phase.DATA: 120.0,
    Phase.BODY: 180.0,
    Phase.SENT: 600.0,
}

_DOT_AT_LINE_START = re.compile(rb"(?m)^\.")

#: How a talk may break off.
EXPECTED = (SMTPException, asyncio.TimeoutError, OSError)


class Talk:
    """One connection and where we are in it."""

    def __init__(self, options: SmtpOptions, tls_context: ssl.SSLContext | None) -> None:
        self._options = options
        self._tls_context = tls_context
        self._line: Line | None = None
        self._offers: dict[str, str] = {}
        self.phase = Phase.CONNECT
        self.reusable = False
        self.idle_until = 0.0
        """By the clock of the loop, while no mail needs it."""
        self._read_octets = 0
        """So much of what was heard since the last command was its reply."""

    @property
    def open(self) -> bool:
        return self._line is not None and self._line.is_connected

    @property
    def in_step(self) -> bool:
        """Whether every reply belonged to a command. What was said besides would be taken for the next reply."""
        return self._line is not None and len(self._line.heard) <= self._read_octets

    # -- the steps --------------------------------------------------------------------------------------------

    async def begin(self) -> Evidence | None:
        """Connect, greet, secure the line, log in. Evidence of a refusal, or None when all went well."""
        o = self._options
        self.phase = Phase.CONNECT
        implicit = o.tls_now is Tls.IMPLICIT
        loop = asyncio.get_running_loop()
        # One of its addresses may be dead, and would use up all the time there is. uvloop has no word for it.
        together: dict[str, Any] = (
            {"happy_eyeballs_delay": _NEXT_ADDRESS_S} if isinstance(loop, asyncio.BaseEventLoop) else {}
        )
        async with asyncio.timeout(o.connect_timeout_s):
            _, self._line = await loop.create_connection(
                Line,
                o.host,
                o.port,
                ssl=self._tls_context if implicit else None,
                server_hostname=o.host if implicit else None,
                **together,
            )
        reply = await self._hear(Phase.GREETING)
        if reply.code != 220:
            return reply
        if refusal := await self._ehlo():
            return refusal
        if o.tls_now is Tls.STARTTLS:
            if refusal := await self._starttls():
                return refusal
            if refusal := await self._ehlo():
                return refusal
        return await self._log_in() if o.user is not None else None

    async def hand_over(self, parcel: Parcel, point_of_no_return: Callable[[], Awaitable[bool]]) -> Evidence:
        """MAIL, RCPT, DATA and the mail itself; the evidence is the answer that ended it."""
        self.reusable = False
        size = f" SIZE={len(parcel.raw)}" if "SIZE" in self._offers else ""
        steps = (
            (Phase.MAIL, f"MAIL FROM:<{parcel.sender}>{size}", 2),
            (Phase.RCPT, f"RCPT TO:<{parcel.recipient}>", 2),
            (Phase.DATA, "DATA", 3),
        )
        for phase, command, wanted in steps:
            reply = await self._say(phase, command)
            if reply.code is None or reply.code // 100 != wanted:
                return reply
        if not await point_of_no_return():
            # The row is no longer ours. Hang up: nothing of the mail has left.
            return Evidence(wire=Wire.SMTP, phase=Phase.DATA, trouble="withdrawn")
        reply = await self._send_mail(parcel.raw)
        # Only after a clean end is the connection in a known state; after anything else a new one is cheaper. A yes
        # before the dot leaves half a mail in the line, and our next commands would be its text.
        self.reusable = reply.phase is Phase.SENT and reply.code is not None and reply.code // 100 == 2
        return reply

    async def quit(self) -> None:
        """Say goodbye; whatever happens, the line is closed afterwards."""
        try:
            if self._line is not None and self.open:
                await self._line.execute_command(b"QUIT", timeout=_GOODBYE_S)
        except EXPECTED:
            pass  # the mails were settled long ago
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the line at once."""
        if self._line is not None:
            self._line.abort()

    def trouble(self, error: BaseException) -> Evidence:
        """The evidence of an attempt that got no reply."""
        return Evidence(
            wire=Wire.SMTP, phase=self.phase, trouble=trouble_of(error), answer=type(error).__name__
        )

    # -- how they are done ------------------------------------------------------------------------------------

    async def _ehlo(self) -> Evidence | None:
        name = own_name(self._line)
        reply = await self._say(Phase.EHLO, f"EHLO {name}")
        if reply.code is not None and reply.code // 100 == 5:
            reply = await self._say(Phase.EHLO, f"HELO {name}")
        if reply.code is None or reply.code // 100 != 2:
            return reply
        lines = (reply.answer or "").splitlines()[1:]
        self._offers = {word.upper(): rest.upper() for word, _, rest in (s.partition(" ") for s in lines)}
        return None

    async def _starttls(self) -> Evidence | None:
        self.phase = Phase.STARTTLS
        if "STARTTLS" not in self._offers:
            raise NotOffered("the server offers no STARTTLS")
        assert self._line is not None
        assert self._tls_context is not None
        try:
            await self._line.start_tls(
                self._tls_context,
                server_hostname=self._options.host,
                timeout=self._deadline_s(Phase.STARTTLS),
            )
        except SMTPResponseException as error:
            return Evidence(wire=Wire.SMTP, phase=self.phase, code=error.code, answer=words_of(error.message))
        # What was said before is worth nothing any more (RFC 3207 section 4.2).
        self._forget()
        return None

    async def _log_in(self) -> Evidence | None:
        user, password = self._options.user or "", self._options.password or ""
        self.phase = Phase.AUTH
        ways = self._offers.get("AUTH", "").split()
        if "PLAIN" in ways:
            reply = await self._say(Phase.AUTH, f"AUTH PLAIN {_base64(f'{chr(0)}{user}{chr(0)}{password}')}")
        elif "LOGIN" in ways:
            reply = await self._say(Phase.AUTH, "AUTH LOGIN")
            for secret in (user, password):
                if reply.code != 334:
                    break
                reply = await self._say(Phase.AUTH, _base64(secret))
        else:
            raise NotOffered("the server offers neither AUTH PLAIN nor AUTH LOGIN")
        return None if reply.code == 235 else reply

    async def _send_mail(self, raw: bytes) -> Evidence:
        assert self._line is not None
        body = _DOT_AT_LINE_START.sub(b"..", raw)
        if not body.endswith(b"\r\n"):
            body += b"\r\n"
        self._must_be_in_step(Phase.BODY)
        # The answer is awaited from the start: a server may refuse in the middle of the mail.
        answer = asyncio.ensure_future(self._line.read_response())
        try:
            for start in range(0, len(body), _CHUNK_OCTETS):
                self._line.write(body[start : start + _CHUNK_OCTETS])
                async with asyncio.timeout(self._deadline_s(Phase.BODY)):
                    await self._line.room_or(answer)
                if answer.done():
                    await answer
                    return self._reply()
            # Until here the mail is incomplete and nobody may deliver it. With the dot that ends.
            self.phase = Phase.SENT
            self._line.write(b".\r\n")
            async with asyncio.timeout(self._deadline_s(Phase.SENT)):
                await answer
            return self._reply()
        finally:
            answer.cancel()
            # Look at its end, or the loop complains about an exception that nobody saw.
            await asyncio.gather(answer, return_exceptions=True)

    async def _say(self, phase: Phase, command: str) -> Evidence:
        assert self._line is not None
        self._must_be_in_step(phase)
        await self._line.execute_command(command.encode("ascii"), timeout=self._deadline_s(phase))
        return self._reply()

    async def _hear(self, phase: Phase) -> Evidence:
        assert self._line is not None
        self.phase = phase
        await self._line.read_response(timeout=self._deadline_s(phase))
        return self._reply()

    def _must_be_in_step(self, phase: Phase) -> None:
        """Begin a step. Raises `Garbled` if something was said that nobody had asked for."""
        self.phase = phase
        if not self.in_step:
            raise Garbled("the server said more than it was asked")
        self._forget()

    def _forget(self) -> None:
        assert self._line is not None
        self._line.heard.clear()
        self._read_octets = 0

    def _reply(self) -> Evidence:
        assert self._line is not None
        heard = bytes(self._line.heard)
        evidence = evidence_of(heard, self.phase)
        self._read_octets = reply_octets(heard)
        return evidence

    def _deadline_s(self, phase: Phase) -> float:
        return min(DEADLINES_S[phase], self._options.read_timeout_s)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
