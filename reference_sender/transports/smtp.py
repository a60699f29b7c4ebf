"""The SMTP wire: one transaction per mail, command by command, so that the phase is always known.

Built on aiosmtplib's protocol class. Its ready-made DATA sends the command and the mail in one go; we need the
moment between 354 and the first byte of the mail, and the moment before the final dot, so that step is ours.
Must not hold: what a code means (`policy.classify`), when to try again.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aiosmtplib.errors import SMTPException, SMTPResponseException
from aiosmtplib.protocol import SMTPProtocol
from aiosmtplib.response import SMTPResponse

from reference_sender.life import Parcel
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.transports.smtp_replies import (
    Garbled,
    NotOffered,
    evidence_of,
    hung_up_while_idle,
    reply_octets,
    trouble_of,
    words_of,
)

_CHUNK_OCTETS = 64 * 1024
#: So long is waited for the reply to QUIT, in seconds.
_GOODBYE_S = 2.0

# The least a client must wait, per command (RFC 5321 section 4.5.3.2). read_timeout_s can only make them shorter.
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

_EXPECTED = (SMTPException, asyncio.TimeoutError, OSError)


class Tls(StrEnum):
    """How the line is protected."""

    AUTO = "auto"  # none to this machine itself, implicit on port 465, STARTTLS required everywhere else
    OFF = "off"
    STARTTLS = "starttls"
    IMPLICIT = "implicit"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpOptions:
    """Where the server is and how to talk to it."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    tls: Tls = Tls.AUTO
    connect_timeout_s: float = 30.0
    read_timeout_s: float = 600.0
    total_timeout_s: float = 660.0
    idle_s: float = 5.0
    """How long a connection is kept that no mail needs."""

    @property
    def tls_now(self) -> Tls:
        """The choice with AUTO resolved."""
        if self.tls is not Tls.AUTO:
            return self.tls
        if self.port == 465:
            return Tls.IMPLICIT
        return Tls.OFF if _is_loopback(self.host) else Tls.STARTTLS


class _Line(SMTPProtocol):
    """aiosmtplib's protocol, with two additions: the reply is kept as it came, and writing can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self.heard += data[: max(0, 65_536 - len(self.heard))]
        super().data_received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writable.clear()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._writable.set()

    async def room_or(self, answer: asyncio.Future[SMTPResponse]) -> None:
        """Wait until there is room to write on, or until the server answers early."""
        if self._writable.is_set():
            await asyncio.sleep(0)  # let an answer that is already here be seen
            return
        room = asyncio.ensure_future(self._writable.wait())
        either: tuple[asyncio.Future[Any], ...] = (answer, room)
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            room.cancel()

    def abort(self) -> None:
        """Close at once and throw away what was not written yet: a half mail must not go on leaving."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()


class SmtpTransport:
    """Sends a mail by SMTP; see `Evidence` for what it tells. Connections are used again while they are good."""

    def __init__(self, options: SmtpOptions) -> None:
        self._options = options
        self._idle: list[_Talk] = []
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
        deadline = asyncio.get_running_loop().time() + self._options.total_timeout_s
        if (talk := self._idle_talk()) is not None:
            evidence = await self._attempt(talk, parcel, point_of_no_return, deadline)
            if not hung_up_while_idle(evidence):
                return evidence
        talk = _Talk(self._options, self._context())
        return await self._attempt(talk, parcel, point_of_no_return, deadline)

    async def _attempt(
        self, talk: _Talk, parcel: Parcel, point_of_no_return: Callable[[], Awaitable[bool]], deadline: float
    ) -> Evidence:
        try:
            async with asyncio.timeout_at(deadline):
                refusal = None if talk.open else await talk.begin()
                evidence = refusal or await talk.hand_over(parcel, point_of_no_return)
        except _EXPECTED as error:
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

    def _idle_talk(self) -> _Talk | None:
        while self._idle:
            talk = self._idle.pop()
            if talk.open and talk.in_step:
                return talk
            talk.abort()
        return None

    def _lay_aside(self, talk: _Talk) -> None:
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


class _Talk:
    """One connection and where we are in it."""

    def __init__(self, options: SmtpOptions, tls_context: ssl.SSLContext | None) -> None:
        self._options = options
        self._tls_context = tls_context
        self._line: _Line | None = None
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
        async with asyncio.timeout(o.connect_timeout_s):
            _, self._line = await asyncio.get_running_loop().create_connection(
                _Line,
                o.host,
                o.port,
                ssl=self._tls_context if implicit else None,
                server_hostname=o.host if implicit else None,
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
        except _EXPECTED:
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
        name = _own_name(self._line)
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


def _own_name(line: _Line | None) -> str:
    # An address literal (RFC 5321 section 4.1.3): true, and no name server has to be asked for it.
    transport = line.transport if line is not None else None
    name: Any = transport.get_extra_info("sockname") if transport is not None else None
    try:
        address = ipaddress.ip_address(name[0].partition("%")[0])
    except (ValueError, TypeError, IndexError, AttributeError):
        return "[127.0.0.1]"
    return f"[IPv6:{address}]" if address.version == 6 else f"[{address}]"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
