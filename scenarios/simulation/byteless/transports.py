"""The sender's side of a line: the transports of `reference_sender.transports` without what they talk over.

Each does what its original does, step by step, and gathers the same `Evidence`; what was said is read by the original's
own code. Here lives the order of steps and what a broken line is called. A test lays both side by side.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Protocol

from aiosmtplib.errors import SMTPException

from reference_sender.life import Docket, Parcel
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.lookup import Found, LookedUp, NotFound, Unavailable
from reference_sender.policy.settings import Settings
from reference_sender.transports import http as over_http
from reference_sender.transports import smtp_replies
from reference_sender.transports.smtp_talk import DEADLINES_S
from scenarios.simulation.byteless.http import BIT, Get, Head, Post
from scenarios.simulation.byteless.line import TURN, End, Expired, Line
from scenarios.simulation.byteless.smtp import Command, Verb

#: So long the HTTP client keeps a connection that nobody uses, in seconds (aiohttp's `keepalive_timeout`).
KEPT_S = 15.0

Point = Callable[[], Awaitable[bool]]


class Exchange(Protocol):
    """Where a transport gets its lines."""

    async def dial(self, wire: Wire) -> Line:
        """Connect with the provider."""
        ...

    def time(self) -> float:
        """Seconds since the world began."""
        ...

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call this after so many seconds, rounded up to a whole one."""
        ...


class Broken(Exception):
    """The line broke before there was an answer. The message is what `Evidence.trouble` calls it."""


# --- HTTP -------------------------------------------------------------------------------------------


class _HttpClient:
    """Lines that are used again while they are good."""

    def __init__(self, exchange: Exchange, settings: Settings) -> None:
        self._exchange = exchange
        self._settings = settings
        self._keeps = settings.policy.dedupes
        self._idle: deque[Line] = deque()
        self._tidies = False

    async def ask(
        self, request: Post | Get, let_go: Callable[[], Awaitable[None]] | None = None
    ) -> tuple[Head, Any]:
        """Ask, and return head and body of the answer. Raises `Broken`. `let_go` is awaited before the request leaves."""
        deadline = self._exchange.time() + self._settings.total_timeout_s
        line = self._kept() or await self._exchange.dial(Wire.HTTP)
        good = False
        try:
            if let_go is not None:
                await let_go()
            line.tell(request)
            head, body = await self._answer(line, deadline)
            good = line.is_open and not (head.closes or head.is_followed) and self._keeps
            return head, body
        finally:
            if good:
                self._keep(line)
            else:
                line.close()

    async def _answer(self, line: Line, deadline: float) -> tuple[Head, Any]:
        head = await self._hear(line, deadline)
        while head is BIT:
            head = await self._hear(line, deadline)
        if head is End.FIN:
            raise Broken("eof")
        if head is End.RST:
            raise Broken("reset")
        if head.flaw:
            raise Broken(head.flaw)
        if head.is_followed and not self._keeps:
            # Behind an answer that is the last one there must not be another; elsewhere it is thrown away.
            raise Broken("garbled")
        body = head.body
        if not body and head.size:
            body = await self._hear(line, deadline)
        if isinstance(body, End) or (isinstance(body, bytes) and len(body) < head.size):
            # What broke it does not matter: the answer is not whole.
            if not isinstance(body, End):
                await self._hear(line, deadline)
            raise Broken("truncated")
        return head, body

    async def _hear(self, line: Line, deadline: float) -> Any:
        try:
            return await line.hear(min(self._settings.read_timeout_s, deadline - self._exchange.time()))
        except Expired:
            raise Broken("timeout") from None

    def _kept(self) -> Line | None:
        while self._idle:
            line = self._idle.popleft()
            if line.is_open and self._exchange.time() - line.since <= KEPT_S:
                return line
            line.close()
        return None

    def _keep(self, line: Line) -> None:
        line.since = self._exchange.time()
        self._idle.append(line)
        if not self._tidies:
            self._tidies = True
            self._exchange.later(KEPT_S, self._tidy)

    def _tidy(self) -> None:
        """Close what nobody used for too long; as the original, it looks now and then, not in time."""
        deadline = self._exchange.time() - KEPT_S
        for line in [each for each in self._idle if not each.is_open or each.since < deadline]:
            self._idle.remove(line)
            line.close()
        self._tidies = bool(self._idle)
        if self._tidies:
            self._exchange.later(KEPT_S, self._tidy)

    async def close(self) -> None:
        for line in self._idle:
            line.close()
        self._idle.clear()


class HttpTransport:
    """Sends a mail; see `Evidence` for what it tells."""

    def __init__(self, exchange: Exchange, settings: Settings) -> None:
        self._client = _HttpClient(exchange, settings)

    async def send(self, parcel: Parcel, *, key: str, point_of_no_return: Point) -> Evidence:
        phase, withdrawn = Phase.CONNECT, False

        async def let_go() -> None:
            nonlocal phase, withdrawn
            phase = Phase.BODY
            if not await point_of_no_return():
                withdrawn = True
                raise Broken("withdrawn")
            phase = Phase.SENT

        try:
            head, body = await self._client.ask(Post(key, _request_body(parcel)), let_go)
        except Broken as broken:
            return Evidence(wire=Wire.HTTP, phase=phase, trouble=str(broken))
        return _http_evidence(
            head.status, head.retry_after, body, parcel.recipient, phase, _Named(parcel), head.limits
        )

    async def close(self) -> None:
        await self._client.close()


class HttpLookup:
    """Asks the provider whether it knows a mail, by key and then by Message-ID."""

    def __init__(self, exchange: Exchange, settings: Settings) -> None:
        self._client = _HttpClient(exchange, settings)

    async def find(self, docket: Docket) -> LookedUp:
        for parameter, value in (
            ("idempotency_key", docket.idempotency_key),
            ("message_id", docket.message_id),
        ):
            try:
                head, entries = await self._ask(Get(parameter, value))
            except Broken as broken:
                return Unavailable(reason=f"the look-up fails ({broken})")
            if head.status != 200:
                return Unavailable(reason=f"the look-up answers {head.status}")
            if isinstance(entries, bytes):
                try:
                    entries = json.loads(entries)["data"]
                except (ValueError, KeyError, TypeError) as error:
                    return Unavailable(reason=f"the look-up fails ({over_http.trouble_of(error)})")
            for entry in entries:
                if over_http.is_ours(entry, docket, parameter, value):
                    return Found(provider_id=str(entry["id"]))
        return NotFound()

    async def _ask(self, request: Get) -> tuple[Head, Any]:
        try:
            return await self._client.ask(request)
        except Broken as broken:
            # The original's library repeats a GET once if the line breaks before there is an answer.
            if str(broken) not in ("eof", "reset"):
                raise
            return await self._client.ask(request)

    async def close(self) -> None:
        await self._client.close()


class _Named:
    """A parcel for the cache of answers: of it, only the recipient is read, and that is a key of its own."""

    __slots__ = ("parcel",)

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named)


@lru_cache(maxsize=4096)
def _http_evidence(
    status: int,
    retry_after: str | None,
    body: bytes,
    recipient: str,
    phase: Phase,
    named: _Named,
    limits: tuple[tuple[str, str], ...],
) -> Evidence:
    return over_http.evidence_of(status, retry_after, body, named.parcel, phase, limits=limits)


def _request_body(parcel: Parcel) -> bytes:
    return _body_of(parcel.sender, parcel.recipient, parcel.raw, _Named(parcel))


@lru_cache(maxsize=256)
def _body_of(sender: str, recipient: str, raw: bytes, named: _Named) -> bytes:
    return over_http.request_body(named.parcel)


# --- SMTP -------------------------------------------------------------------------------------------


class SmtpTransport:
    """Sends a mail; connections are used again while they are good."""

    def __init__(self, exchange: Exchange, settings: Settings) -> None:
        self._exchange = exchange
        self._settings = settings
        self._idle: list[_Talk] = []
        self._tidying: Any = None
        self._leaving: list[asyncio.Task[None]] = []

    async def send(self, parcel: Parcel, *, key: str, point_of_no_return: Point) -> Evidence:
        deadline = self._exchange.time() + self._settings.total_timeout_s
        if (talk := self._idle_talk()) is not None:
            evidence = await self._attempt(talk, parcel, point_of_no_return, deadline)
            if not smtp_replies.hung_up_while_idle(evidence):
                return evidence
        talk = _Talk(self._exchange, self._settings)
        return await self._attempt(talk, parcel, point_of_no_return, deadline)

    async def _attempt(
        self, talk: _Talk, parcel: Parcel, point_of_no_return: Point, deadline: float
    ) -> Evidence:
        talk.deadline = deadline
        try:
            refusal = None if talk.open else await talk.begin()
            evidence = refusal or await talk.hand_over(parcel, point_of_no_return)
        except Broken as broken:
            evidence = Evidence(wire=Wire.SMTP, phase=talk.phase, trouble=str(broken))
        except BaseException:
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
        talk.idle_until = self._exchange.time() + self._settings.smtp_idle_s
        self._idle.append(talk)
        if self._tidying is None:
            self._tidying = asyncio.get_running_loop().call_at(talk.idle_until, self._tidy)

    def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        while self._idle and self._idle[0].idle_until <= self._exchange.time():
            leaving = loop.create_task(self._idle.pop(0).quit())
            self._leaving.append(leaving)
            leaving.add_done_callback(self._leaving.remove)
        self._tidying = loop.call_at(self._idle[0].idle_until, self._tidy) if self._idle else None

    async def close(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None
        idle, self._idle = self._idle, []
        await asyncio.gather(*self._leaving, *(talk.quit() for talk in idle))


class _Talk:
    """One connection and where we are in it."""

    def __init__(self, exchange: Exchange, settings: Settings) -> None:
        self._exchange = exchange
        self._settings = settings
        self._line: Line | None = None
        self.phase = Phase.CONNECT
        self.reusable = False
        self.in_step = True
        self.deadline = 0.0
        self.idle_until = 0.0

    @property
    def open(self) -> bool:
        return self._line is not None and self._line.is_open

    async def begin(self) -> Evidence | None:
        """Connect and greet. Evidence of a refusal, or None when all went well."""
        self._line = await self._exchange.dial(Wire.SMTP)
        reply = await self._hear(Phase.GREETING)
        if reply.code != 220:
            return reply
        reply = await self._say(Phase.EHLO, Command(Verb.EHLO))
        if reply.code is not None and reply.code // 100 == 5:
            reply = await self._say(Phase.EHLO, Command(Verb.HELO))
        return None if reply.code is not None and reply.code // 100 == 2 else reply

    async def hand_over(self, parcel: Parcel, point_of_no_return: Point) -> Evidence:
        """MAIL, RCPT, DATA and the mail itself; the evidence is the answer that ended it."""
        self.reusable = False
        for phase, command, wanted in (
            (Phase.MAIL, Command(Verb.MAIL, parcel.sender), 2),
            (Phase.RCPT, Command(Verb.RCPT, parcel.recipient), 2),
            (Phase.DATA, Command(Verb.DATA), 3),
        ):
            reply = await self._say(phase, command)
            if reply.code is None or reply.code // 100 != wanted:
                return reply
        if not await point_of_no_return():
            return Evidence(wire=Wire.SMTP, phase=Phase.DATA, trouble="withdrawn")
        assert self._line is not None
        self.phase = Phase.BODY
        self._line.tell(Command(Verb.BODY, raw=parcel.raw))
        await TURN
        reply = await self._say(Phase.SENT, Command(Verb.DOT))
        self.reusable = reply.code is not None and reply.code // 100 == 2
        # Whatever was said besides belongs to nothing, and would be taken for the reply to a later command.
        self.in_step = not self._line.skip() and self.in_step
        return reply

    async def quit(self) -> None:
        """Say goodbye; whatever happens, the line is closed afterwards."""
        try:
            if self.open:
                assert self._line is not None
                self._line.tell(Command(Verb.QUIT))
                await self._line.hear(2.0)
        except Expired:
            pass  # the mails were settled long ago
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the line at once."""
        if self._line is not None:
            self._line.close()

    async def _say(self, phase: Phase, command: Command) -> Evidence:
        assert self._line is not None
        self.phase = phase
        if not self.in_step:
            raise Broken("garbled")
        self._line.tell(command)
        return await self._hear(phase)

    async def _hear(self, phase: Phase) -> Evidence:
        assert self._line is not None
        self.phase = phase
        within_s = min(DEADLINES_S[phase], self._settings.read_timeout_s)
        until = min(self._exchange.time() + within_s, self.deadline)
        begun = b""
        try:
            while True:
                heard = await self._line.hear(until - self._exchange.time())
                if not isinstance(heard, bytes):
                    break
                heard = begun = begun + heard
                if _is_whole(heard):
                    break
        except Expired:
            raise Broken("timeout") from None
        if heard is End.FIN:
            raise Broken("eof")
        if heard is End.RST:
            raise Broken("reset")
        evidence = _smtp_evidence(heard, phase)
        if evidence is None:
            raise Broken("garbled")
        self.in_step = smtp_replies.reply_octets(heard) == len(heard)
        return evidence


def _is_whole(heard: bytes) -> bool:
    """Whether a reply has come to its last line."""
    return heard.endswith(b"\n") and heard[heard.rfind(b"\n", 0, -1) + 1 :][3:4] != b"-"


@lru_cache(maxsize=4096)
def _smtp_evidence(heard: bytes, phase: Phase) -> Evidence | None:
    try:
        return smtp_replies.evidence_of(heard, phase)
    except SMTPException:
        return None
