"""The native HTTP API as an ASGI application, without a framework in the way; and the door before it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from simulator.clock import Clock
from simulator.dialects.native.answers import problem
from simulator.provider.answer import Answer, HangUp, ShowCertificate, WhenHeard, spoken
from simulator.provider.api import PATHS
from simulator.provider.ledger import Attempt, Sent
from simulator.provider.provider import DEFAULT_ACCOUNT, Detail, Provider
from simulator.servers.http.batch import hand_in_batch
from simulator.servers.http.connection import Visitor
from simulator.servers.http.desk import Desk
from simulator.servers.http.head import read_head
from simulator.servers.http.line import HttpLine
from simulator.servers.http.lookup import look_up
from simulator.servers.http.quick import QuickDesk, TellWhenKept
from simulator.servers.http.secure import SecureVisitor
from simulator.servers.http.sending import hand_in
from simulator.servers.http.voice import HttpVoice
from simulator.servers.wire import Wire

#: How long we wait at the door for a first byte to tell senders from the control API, in seconds.
DOOR_S = 0.2

EMAILS = "/v1/emails"
BATCH = "/v1/emails/batch"

#: Requests of people and harnesses: no fault may lock out those who could heal it.
_NOT_A_SENDER = re.compile(rb"[A-Z]+ (?:https?://[^/ ]+)?/(?:_simulator/|(?:metrics|healthz|readyz)?[? ])")


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
        tell_when_kept: TellWhenKept | None = None,
    ) -> None:
        """Without `tell_when_kept` every request goes the long way."""
        self._provider = provider
        self._wire = wire
        self._moved = moved
        self._desk = Desk(
            provider,
            wire,
            commit,
            moved,
            clock,
            hostname=hostname,
            trouble_with_ledger=trouble_with_ledger,
        )
        self.quick = None if tell_when_kept is None else QuickDesk(self._desk, tell_when_kept)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path, method = scope["path"], scope["method"]
        if method == "POST" and path == BATCH:
            await hand_in_batch(self._desk, scope, receive)
        elif method == "POST" and self._takes_mail(scope, path):
            await hand_in(self._desk, scope, receive)
        elif method in ("GET", "HEAD") and path == EMAILS:
            await look_up(self._desk, scope, None)
        elif method in ("GET", "HEAD") and _id_in(path):
            await look_up(self._desk, scope, _id_in(path))
        else:
            await self._refuse(scope, path, method)

    def _takes_mail(self, scope: Scope, path: str) -> bool:
        return (
            path in PATHS
            or read_head(scope, self._provider, self._desk.now()).setup.api.key_header(path) is not None
        )

    async def _refuse(self, scope: Scope, path: str, method: str) -> None:
        allowed = self._allowed(scope, path)
        if allowed:
            detail = f"{method} is not possible at {path[:80]}; {' and '.join(allowed)} {'is' if len(allowed) == 1 else 'are'}"
            out = problem(405, "method_not_allowed", detail, [("Allow", ", ".join(allowed))])
        else:
            known = ", ".join([*PATHS, BATCH, EMAILS + "/{id}"])
            out = problem(404, "not_found", f"there is nothing at {path[:80]!r}; known are {known}")
        line: HttpLine = scope["state"]["line"]
        await HttpVoice(line, self._desk.clock).say(out)

    def _allowed(self, scope: Scope, path: str) -> list[str]:
        allowed = ["GET", "HEAD"] if path == EMAILS or _id_in(path) else []
        return [*allowed, "POST"] if path == BATCH or self._takes_mail(scope, path) else allowed

    # --- at the door (stage `connect`) --------------------------------------------------------------

    def is_guarded(self) -> bool:
        """Only a plan with a rule for `connect` makes us look: nobody has said yet which account it is."""
        return self._provider.accounts[DEFAULT_ACCOUNT].plan.stands_at("http", "connect")

    async def receive(self, visitor: Visitor) -> None:
        """Ask the rules of stage `connect`, unless it is no sender that comes."""
        line = visitor.line
        first = await visitor.first_bytes(DOOR_S)
        if _NOT_A_SENDER.match(first) or line.is_gone():
            visitor.let_in()
            return
        attempt = self._desk.open(line)
        try:
            answer = self._provider.step(attempt, "connect", Detail(), self._desk.now())
            self._moved()
            rest = await self._wire.wait_out(answer, attempt)
            if rest is None and not line.is_gone():
                line.attempt = attempt
                visitor.let_in()
                return
            await self._see_out(visitor, attempt, rest)
        finally:
            if line.attempt is not attempt:
                self._desk.close(attempt)

    # --- before the door (stage `tls`) --------------------------------------------------------------

    def guards_handshakes(self) -> bool:
        """Only a plan with a rule for `tls` makes us look, as at the door."""
        return self._provider.accounts[DEFAULT_ACCOUNT].plan.stands_at("http", "tls")

    async def shake_hands(self, visitor: SecureVisitor) -> None:
        """Ask the rules of stage `tls`: let the handshake begin, or let go wrong what is to go wrong."""
        line = visitor.line
        attempt = self._desk.open(line)
        try:
            answer = self._provider.step(attempt, "tls", Detail(), self._desk.now())
            self._moved()
            rest = await self._wire.wait_out(answer, attempt)
            if isinstance(rest, WhenHeard):
                rest = rest.then if await visitor.heard() else HangUp()
            if (rest is None or isinstance(rest, ShowCertificate)) and not line.is_gone():
                # It goes on in the next stage, or ends with the connection.
                line.attempt = attempt
                self._provider.told(attempt, attempt.sent, self._desk.now())
                visitor.shake_hands(None if rest is None else rest.flaw)
                return
            await self._see_out(visitor, attempt, rest)
        finally:
            if line.attempt is not attempt:
                self._desk.close(attempt)

    async def _see_out(self, visitor: Visitor, attempt: Attempt, rest: Answer | None) -> None:
        """Nobody is let in here: say what is left to be said, and end the line."""
        line = visitor.line
        visitor.turn_deaf()
        voice, sent = HttpVoice(line, self._desk.clock), Sent.NOTHING
        if rest is not None:
            attempt.answer = spoken(rest)
            sent = await self._wire.deliver(rest, attempt, voice, line)
        self._provider.told(attempt, sent, self._desk.now(), answer=voice.said)
        line.hang_up()

    def left(self, line: HttpLine) -> None:
        """Close the attempt of a connection that never made a request."""
        attempt, line.attempt = line.attempt, None
        if attempt is not None:
            self._provider.told(attempt, Sent.NOTHING, self._desk.now())
            self._desk.close(attempt)


def _id_in(path: str) -> str | None:
    """Return the id in `/v1/emails/{id}`."""
    start, _, id_ = path.rpartition("/")
    return id_ if start == EMAILS and id_ and path != BATCH else None
