"""The native HTTP API on uvicorn: requests become attempts, and every fault hits the request it is meant for.

ASGI hides the connection, so a small subclass of uvicorn's protocol hands a `Line` to the application. What
happens is decided by the provider, worded by `dialects.native` and carried out by `wire`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from functools import partial
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from simulator.clock import Clock
from simulator.dialects import native
from simulator.dialects.native import answers
from simulator.dialects.native.answers import HttpWords
from simulator.dialects.native.keys import read_key
from simulator.dialects.native.request import read
from simulator.provider.answer import Accepted, Answer, HangUp, InTurn, Reason, Refused, Reply, Words
from simulator.provider.ledger import Acceptance, Attempt, Sent
from simulator.provider.message import Submission
from simulator.provider.provider import DEFAULT_ACCOUNT, Detail, Provider
from simulator.servers.wire import Line, Wire
from simulator.store import StoreError

#: Larger request bodies are refused. A message of 29 MB fits, as base64 makes four bytes of three.
MAX_BODY_BYTES = 40 * 1024 * 1024
#: How much of a body that is too large is still read (and thrown away), so that the sender hears why.
DRAIN_BYTES = 4 * MAX_BODY_BYTES
#: A request whose head is still incomplete after so many bytes is refused.
MAX_HEAD_BYTES = 256 * 1024
#: Bodies from this size on are parsed in a thread: nobody else should wait for them.
LARGE_BODY_BYTES = 256 * 1024
#: How long a connection may idle between requests.
KEEP_ALIVE_S = 75
#: How long we wait at the door for a first byte to tell senders from the control API, in seconds.
DOOR_S = 0.2

#: Where mail is handed in, and which header names the idempotency key there.
KEY_HEADERS: dict[str, bytes] = {
    "/v1/emails": b"idempotency-key",
    "/send": b"x-dedupe-key",
    "/v3/emails": b"x-idempotency-key",
}

#: Requests of people and harnesses: no fault may lock out those who could heal it.
_NOT_A_SENDER = re.compile(rb"[A-Z]+ (?:https?://[^/ ]+)?/(?:_simulator/|metrics[? ])")


# --- the connection ---------------------------------------------------------------------------------


class HttpLine(Line):
    """One HTTP connection: what its requests share."""

    def __init__(self, transport: asyncio.Transport, *, turn_deaf: Callable[[], None]) -> None:
        super().__init__(transport, turn_deaf=turn_deaf)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "unknown"
        self.name = ""
        """The connection's name in attempts; the first attempt gives it."""
        self.attempt: Attempt | None = None
        """Opened at the door, waiting for its request."""
        self.cycle: RequestResponseCycle | None = None
        """The request being answered right now; with pipelining uvicorn itself only knows the last one read."""


class Door(Protocol):
    """Whoever looks at connections before anything is read."""

    def is_guarded(self) -> bool:
        """Tell whether a connection that comes now must be looked at."""
        ...

    async def receive(self, visitor: Visitor) -> None:
        """Look at a connection: let it in, or see it out."""
        ...

    def left(self, line: HttpLine) -> None:
        """The connection is over."""
        ...


class Visitor(HttpToolsProtocol):
    """uvicorn's connection, with a door in front and a `Line` to the application.

    Leans on `app_state` (copied into every scope), `cycle` and `data_received` of uvicorn's class; the tests
    of this file are the tests of that.
    """

    def __init__(self, *, door: Door, here: set[Visitor], **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._door = door
        self._here = here
        here.add(self)
        self._closed = False
        self._deaf = False
        self._in_head = True
        self._head_bytes = 0
        self._kept: list[bytes] = []
        self._knocked = asyncio.Event()
        self._reception: asyncio.Task[None] | None = None

    # uvicorn's class narrows the argument in the same way: it only ever serves streams.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.line = HttpLine(transport, turn_deaf=self.turn_deaf)
        self.app_state = {"line": self.line}
        if self._door.is_guarded():
            self._closed = True
            self._reception = self.loop.create_task(self._door.receive(self))
            self._reception.add_done_callback(self.tasks.discard)
            self.tasks.add(self._reception)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._closed:
            self._kept.append(data)
            self.transport.pause_reading()
            self._knocked.set()
            return
        # The parser would collect an endless head without end.
        if self._in_head:
            if self._head_bytes > MAX_HEAD_BYTES:
                self.send_400_response("Request head too large.")
                return
            self._head_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._here.discard(self)
        cycle = self.line.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self._knocked.set()
        self.line.lost()
        self._door.left(self.line)

    async def first_bytes(self, timeout_s: float) -> bytes:
        """Return what the sender sends first, without looking into it; empty if it stays silent."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._knocked.wait()
        except TimeoutError:
            pass
        return self._kept[0] if self._kept else b""

    def let_in(self) -> None:
        """Go on as an ordinary connection."""
        self._closed = False
        if self.line.is_gone():
            return
        kept, self._kept = b"".join(self._kept), []
        self.transport.resume_reading()
        if kept:
            self.data_received(kept)

    def turn_deaf(self) -> None:
        """Throw away whatever comes, but notice when the sender goes."""
        self._deaf = True
        self._kept.clear()
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self.transport.resume_reading()


# --- the server -------------------------------------------------------------------------------------


class HttpServer:
    """A listener of our own around uvicorn's protocol: no signal handlers, no ticking main loop, no lifespan."""

    def __init__(self, app: ASGIApp, door: Door, clock: Clock) -> None:
        self._app = app
        self._door = door
        self._clock = clock
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._here: set[Visitor] = set()
        """Every connection, from the moment it is accepted; uvicorn counts it when it is made."""
        self._stopping = False
        self._second = -1
        self._config = Config(
            app=self._serve,
            http=Visitor,
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            log_level="error",
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._config.load()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._visitor, host, port, backlog=2048)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self, grace_s: float) -> None:
        """Stop listening, let requests end for `grace_s` at most, then cut what is left."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        for visitor in list(self._state.connections):
            visitor.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=grace_s)
        await self._cut()
        # Only now: a request that is cancelled must know that its connection is over.
        left = list(self._state.tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def _cut(self) -> None:
        """Abort all connections; each reports its end in one of the next turns of the loop."""
        for _ in range(100):
            for visitor in list(self._here):
                if visitor.transport is not None:
                    visitor.transport.abort()
            if not self._here:
                return
            await asyncio.sleep(0)

    def _visitor(self) -> Visitor:
        return Visitor(
            door=self._door, here=self._here, config=self._config, server_state=self._state, app_state={}
        )

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        line: HttpLine = scope["state"]["line"]
        cycle = getattr(receive, "__self__", None)
        assert isinstance(cycle, RequestResponseCycle), "this is not the uvicorn we know"
        line.cycle = cycle
        self._date()
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            # uvicorn would log a traceback and try to say 500 on a line that we cut ourselves.
            if not self._stopping:
                raise

    def _date(self) -> None:
        """RFC 9110, section 6.6.1: an origin server with a clock sends Date."""
        now = self._clock.now()
        second = int(now.timestamp())
        if second != self._second:
            self._second = second
            self._state.default_headers = [(b"date", format_datetime(now, usegmt=True).encode())]


# --- how HTTP says words ----------------------------------------------------------------------------


class HttpVoice:
    """Says words as the answer of one request."""

    def __init__(self, send: Send, clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self.said: str | None = None
        self.is_complete = False

    async def speak(self, words: Words) -> None:
        """Say the whole answer."""
        out = answers.answer(words, self._clock.now())
        await self._head(out)
        await self._body(out.body)

    async def speak_in_part(self, words: Words | None) -> None:
        """Say the head, which promises a whole body, and half of that."""
        out = answers.answer(words or _usual(), self._clock.now())
        await self._head(out)
        await self._body(answers.part_of(out.body), more=True)

    async def babble(self, code: int) -> None:
        """Say a well-formed head around a broken body."""
        out = answers.garbled(code)
        await self._head(out)
        await self._body(out.body)

    async def _head(self, out: HttpWords) -> None:
        self.said = str(out.status)
        await self._send(
            {"type": "http.response.start", "status": out.status, "headers": list(_encoded(out))}
        )

    async def _body(self, body: bytes, *, more: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
        self.is_complete = not more


class BodyVoice(HttpVoice):
    """Goes on after the head has been said (`Verdict.after_head`)."""

    def __init__(self, send: Send, clock: Clock, words: Words) -> None:
        super().__init__(send, clock)
        self._out = answers.answer(words, clock.now())

    async def say_head(self) -> None:
        await self._head(self._out)

    async def speak(self, words: Words) -> None:
        await self._body(self._out.body)

    async def speak_in_part(self, words: Words | None) -> None:
        await self._body(answers.part_of(self._out.body), more=True)

    async def babble(self, code: int) -> None:
        # As long as the head has promised: the body is what is broken here, not the framing.
        size, junk = len(self._out.body), answers.garbled(code).body
        await self._body((junk * (size // len(junk) + 1))[:size])


class DoorVoice:
    """Answers a connection whose request nobody has looked at; the connection ends after that."""

    def __init__(self, line: Line, clock: Clock) -> None:
        self._line = line
        self._clock = clock
        self.said: str | None = None

    async def speak(self, words: Words) -> None:
        self._write(answers.answer(words, self._clock.now()))

    async def speak_in_part(self, words: Words | None) -> None:
        out = answers.answer(words or _usual(), self._clock.now())
        self._write(out, answers.part_of(out.body))

    async def babble(self, code: int) -> None:
        self._write(answers.garbled(code))

    def _write(self, out: HttpWords, body: bytes | None = None) -> None:
        self.said = str(out.status)
        lines = [b"HTTP/1.1 %d %s" % (out.status, b"OK" if out.status == 200 else b"")]
        lines += [name + b": " + value for name, value in (*_encoded(out), (b"connection", b"close"))]
        self._line.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + (out.body if body is None else body))


def _encoded(out: HttpWords) -> Iterable[tuple[bytes, bytes]]:
    for name, value in out.headers:
        yield name.lower().encode("latin-1"), value.encode("latin-1", "replace")
    if out.status not in (204, 304):
        yield b"content-length", str(len(out.body)).encode()


def _usual() -> Words:
    """What an answer would have looked like, where none was found yet."""
    return Accepted(id="msg_00000000000000000000", message_id=None, recipients=())


# --- the application --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A request, read and parsed, before the provider is asked anything."""

    detail: Detail
    mail: Submission | Refused | Reply


class NativeApi:
    """The sender's side of the HTTP wire, and its `Door`. `app` is the ASGI application."""

    def __init__(
        self,
        provider: Provider,
        wire: Wire,
        commit: Callable[[], Awaitable[None]],
        moved: Callable[[], None],
        clock: Clock,
        *,
        hostname: str = "mail.simulator.test",
        trouble_with_ledger: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._provider = provider
        self._wire = wire
        self._commit = commit
        self._moved = moved
        self._clock = clock
        self._hostname = hostname
        self._trouble_with_ledger = trouble_with_ledger
        self.routes = [
            *(Route(path, _Sending(self), methods=["POST"]) for path in KEY_HEADERS),
            Route("/v1/emails", self._look_up, methods=["GET"]),
            Route("/v1/emails/{id}", self._show, methods=["GET"]),
        ]
        self.app = Starlette(routes=self.routes, exception_handlers={HTTPException: _problem})

    # --- at the door (stage `connect`) --------------------------------------------------------------

    def is_guarded(self) -> bool:
        """Only a plan with a rule for `connect` makes us look: nobody has said yet which account it is."""
        plan = self._provider.accounts[DEFAULT_ACCOUNT].plan.plan
        return any(("http", "connect") in rule.stages for rule in plan.rules)

    async def receive(self, visitor: Visitor) -> None:
        """Ask the rules of stage `connect`, unless it is no sender that comes."""
        line = visitor.line
        first = await visitor.first_bytes(DOOR_S)
        if _NOT_A_SENDER.match(first) or line.is_gone():
            visitor.let_in()
            return
        attempt = self._open(line)
        try:
            answer = self._provider.step(attempt, "connect", Detail(), self._clock.now())
            self._moved()
            rest = await self._wire.wait_out(answer, attempt)
            if rest is None and not line.is_gone():
                line.attempt = attempt
                visitor.let_in()
                return
            visitor.turn_deaf()
            voice = DoorVoice(line, self._clock)
            sent = Sent.NOTHING if rest is None else await self._wire.deliver(rest, attempt, voice, line)
            self._provider.told(attempt, sent, self._clock.now(), answer=voice.said)
            line.hang_up()
        finally:
            if line.attempt is not attempt:
                self._close(attempt)

    def left(self, line: HttpLine) -> None:
        """Close the attempt of a connection that never made a request."""
        attempt, line.attempt = line.attempt, None
        if attempt is not None:
            self._provider.told(attempt, Sent.NOTHING, self._clock.now())
            self._close(attempt)

    # --- handing in mail ----------------------------------------------------------------------------

    async def hand_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one `POST`: one attempt."""
        line: HttpLine = scope["state"]["line"]
        attempt, line.attempt = line.attempt or self._open(line), None
        voice = HttpVoice(send, self._clock)
        try:
            request = await self._read(scope, receive)
            if request is None:
                self._provider.told(attempt, Sent.NOTHING, self._clock.now(), answer="sender left")
                return
            voice = await self._answer(attempt, request, send, voice, line)
        except asyncio.CancelledError:
            self._provider.told(attempt, Sent.NOTHING, self._clock.now())
            raise
        finally:
            self._close(attempt)
        if not voice.is_complete:
            # An application that returns without an answer gets a 500 and a line in the log from uvicorn,
            # unless the connection is known to be over.
            await line.gone()

    async def _answer(
        self, attempt: Attempt, request: _Read, send: Send, voice: HttpVoice, line: HttpLine
    ) -> HttpVoice:
        answer = await self._trouble(attempt, request)
        after_head: Words | None = None
        if answer is None:
            assert isinstance(request.mail, Submission)
            answer, after_head = await self._submit(attempt, request.mail)
        self._moved()
        if after_head is None:
            sent = await self._wire.deliver(answer, attempt, voice, line)
        else:
            voice = headed = BodyVoice(send, self._clock, after_head)
            await headed.say_head()
            sent = await self._wire.deliver(answer, attempt, headed, line)
            sent = Sent.PARTIAL if sent is Sent.NOTHING else sent
        said = voice.said if after_head is None else None
        self._provider.told(attempt, sent, self._clock.now(), answer=said)
        return voice

    async def _trouble(self, attempt: Attempt, request: _Read) -> Answer | None:
        """Walk the stages before booking; return what goes wrong, None if the mail can be booked."""
        for stage in ("request", "validate", "accept"):
            answer = self._provider.step(attempt, stage, request.detail, self._clock.now())
            if answer is not None:
                self._moved()
                answer = await self._wire.wait_out(answer, attempt)
            if isinstance(answer, InTurn):
                ask = partial(self._ask_for_key, attempt, request.detail)
                answer = await self._wire.wait_in_turn(answer, attempt, ask)
            if answer is not None:
                return answer
            if stage == "validate" and not isinstance(request.mail, Submission):
                return request.mail
        return None

    def _ask_for_key(self, attempt: Attempt, detail: Detail) -> Answer | None:
        return self._provider.claim(attempt, detail, self._clock.now())

    async def _submit(self, attempt: Attempt, mail: Submission) -> tuple[Answer, Words | None]:
        """Book; return what is said, and the words whose head goes out first if only the body is hit."""
        now = self._clock.now()
        if self._trouble_with_ledger() is not None:
            # Nothing is booked that could not be kept, so this no is true.
            return Reply(code=503, text="the ledger cannot be written just now; try again later"), None
        verdict = self._provider.submit(attempt, mail, now)
        if isinstance(verdict.words, Refused):
            return verdict.answer, None
        # The attempt is kept with its acceptance: should we die now, both are known, and that nobody was told.
        self._provider.told(attempt, Sent.UNKNOWN, now)
        try:
            await self._commit()
        except StoreError:
            # Booked, and nobody knows whether it is kept: neither yes nor no would be true, so nothing is said.
            return HangUp(), None
        return verdict.answer, verdict.words if verdict.after_head else None

    async def _read(self, scope: Scope, receive: Receive) -> _Read | None:
        """Read a request to its end and parse it. None: the sender left before it was complete."""
        headers = dict(reversed(scope["headers"]))  # The first of a name counts.
        credential = _credential(headers)
        key = read_key(_header(headers, KEY_HEADERS[scope["path"]]))
        detail = Detail(
            credential=credential if isinstance(credential, str) else None,
            key=key if isinstance(key, str) else None,
        )
        body = await read_body(headers, receive)
        if body is None:
            return None
        for problem in (credential, key, body):
            if isinstance(problem, Refused | Reply):
                return _Read(detail=detail, mail=problem)
        assert isinstance(body, bytes)
        assert key is None or isinstance(key, str)
        now = self._clock.now()
        if len(body) < LARGE_BODY_BYTES:
            mail = read(body, key=key, now=now, host=self._hostname)
        else:
            mail = await asyncio.to_thread(read, body, key=key, now=now, host=self._hostname)
        if isinstance(mail, Submission):
            detail = Detail(
                credential=detail.credential,
                sender=mail.sender,
                recipients=mail.recipients,
                key=mail.key,
                message_id=mail.message_id,
                headers=mail.headers,
                fingerprint=mail.fingerprint,
            )
        return _Read(detail=detail, mail=mail)

    # --- looking mail up ----------------------------------------------------------------------------

    async def _look_up(self, request: Request) -> Response:
        if (refused := self._turned_away(request)) is not None:
            return refused
        wanted = request.query_params.multi_items()
        if len(wanted) != 1 or wanted[0][0] not in ("idempotency_key", "message_id"):
            return _response(
                answers.problem(400, "invalid_request", "ask with either ?idempotency_key= or ?message_id=")
            )
        name, value = wanted[0]
        account, now = self._account(request), self._clock.now()
        ledger = self._provider.account(account, now).ledger
        found = ledger.with_key(value) if name == "idempotency_key" else ledger.with_message_id(value)
        return _found({"data": [answers.as_json(each) for each in self._visible(found, account, now)]})

    async def _show(self, request: Request) -> Response:
        if (refused := self._turned_away(request)) is not None:
            return refused
        account, now = self._account(request), self._clock.now()
        acceptance = self._provider.account(account, now).ledger.get(request.path_params["id"])
        if acceptance is None or not self._visible([acceptance], account, now):
            return _response(answers.problem(404, "not_found", "there is no mail with this id"))
        return _found(answers.as_json(acceptance))

    def _turned_away(self, request: Request) -> Response | None:
        credential = _credential(dict(request.scope["headers"]))
        refused = self._provider.turned_away(credential if isinstance(credential, str) else None)
        return None if refused is None else _response(answers.answer(refused, self._clock.now()))

    def _account(self, request: Request) -> str:
        credential = _credential(dict(request.scope["headers"]))
        return self._provider.account_of(credential if isinstance(credential, str) else None)

    def _visible(self, found: list[Acceptance], account: str, now: datetime) -> list[Acceptance]:
        return self._provider.visible(found, account, now)

    # --- attempts -----------------------------------------------------------------------------------

    def _open(self, line: HttpLine) -> Attempt:
        attempt = self._provider.open(
            native.DIALECT, line.peer, self._clock.now(), connection=line.name, account=DEFAULT_ACCOUNT
        )
        line.name = attempt.connection
        return attempt

    def _close(self, attempt: Attempt) -> None:
        self._provider.close(attempt, self._clock.now())
        self._wire.turns.ended(attempt.account)
        self._moved()


class _Sending:
    """A plain ASGI application, so that Starlette neither reads the body nor makes a response of its own."""

    def __init__(self, api: NativeApi) -> None:
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._api.hand_in(scope, receive, send)


async def read_body(headers: Mapping[bytes, bytes], receive: Receive) -> bytes | Refused | None:
    """Read a request's body. None: the sender left. Never keeps more than the limit in memory."""
    too_large = Refused(
        reason=Reason.TOO_LARGE, detail=f"the request body may have {MAX_BODY_BYTES} bytes at most"
    )
    declared = int(headers.get(b"content-length", b"0") or b"0")
    if declared > MAX_BODY_BYTES and headers.get(b"expect", b"").lower() == b"100-continue":
        return too_large  # The sender asked before sending: the best place to say no.
    kept, read = bytearray(), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece: bytes = message.get("body", b"")
        read += len(piece)
        if max(read, declared) > MAX_BODY_BYTES:
            kept.clear()
        else:
            kept += piece
        if not message.get("more_body", False):
            return too_large if read > MAX_BODY_BYTES else bytes(kept)
        if read > DRAIN_BYTES:
            return too_large


def _credential(headers: Mapping[bytes, bytes]) -> str | Reply | None:
    """Return the API key; None if there is none (the default account); a refusal if it is no API key."""
    given = _header(headers, b"authorization")
    if given is None:
        return None
    scheme, _, token = given.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return Reply(code=401, text="the Authorization header must be: Bearer <api key>")
    return token.strip()


def _header(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def _response(out: HttpWords) -> Response:
    return Response(out.body, status_code=out.status, headers=dict(out.headers))


def _found(document: Mapping[str, Any]) -> Response:
    return JSONResponse(document)


async def _problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    known = ", ".join(sorted({*KEY_HEADERS, "/v1/emails/{id}"}))
    detail = {
        404: f"there is nothing at {request.url.path}; known are {known}",
        405: f"{request.method} is not possible at {request.url.path}",
    }.get(problem.status_code, problem.detail)
    code = {404: "not_found", 405: "method_not_allowed"}.get(problem.status_code, "invalid_request")
    headers = list((problem.headers or {}).items())
    return _response(answers.problem(problem.status_code, code, detail, headers))
