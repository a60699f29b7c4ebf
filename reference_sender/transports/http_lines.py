"""Connections with one provider over HTTP: taken when there is something to ask, kept for a while, no more than allowed.

A request goes out once: nobody repeats it here, and a redirect is an answer.
Must not hold: what is asked, what an answer means.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import math
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import aiohappyeyeballs

from reference_sender.policy.evidence import Phase
from reference_sender.transports.http_line import Answer, Broken, Line, Progress

#: So long a connection is kept that nobody uses, in seconds: less than what most servers keep it for.
KEPT_S = 15.0
#: So long the addresses of a name are good, in seconds. Where each mail has a connection of its own it would be asked
#: for with every one.
_NAMED_S = 10.0
#: The second address is tried when the first has said nothing for so long (RFC 8305 section 5), in seconds.
_NEXT_ADDRESS_S = 0.25

#: What may go wrong on the way; anything else is a mistake of ours.
EXPECTED = (Broken, TimeoutError, OSError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """Where the provider is, and how long it is waited for, in seconds."""

    url: str  # like https://api.provider.example
    api_key: str = ""  # without one the Authorization header is left out
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 30.0
    total_timeout_s: float = 60.0
    connections: int = 8
    # A request on a kept-alive connection that the provider is just closing ends in doubt. Where doubt costs a
    # person's time (no keys), a fresh connection per mail is the better price.
    keep_alive: bool = True


class Lines:
    """Up to so many connections; calls from many tasks of one loop."""

    def __init__(self, options: LineOptions) -> None:
        self._options = options
        self._target = _Target(options.url)
        self._common = _common_fields(self._target, options)
        self._idle: deque[Line] = deque()
        self._count = 0
        """Connections that are there or being made."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._tidying: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None
        self._addresses: list[Any] = []
        self._named_at_s = -math.inf
        self._naming: asyncio.Lock | None = None

    def head(self, method: str, path: str) -> bytes:
        """The part of a request's head that is always the same; fields and an empty line follow."""
        return b"%s %s HTTP/1.1\r\n%b" % (method.encode(), self._target.path(path).encode(), self._common)

    async def ask(
        self,
        head: bytes,
        body: bytes,
        progress: Progress,
        point_of_no_return: Callable[[], Awaitable[bool]] | None = None,
    ) -> Answer:
        """Send one request and wait for its answer. Raises what is in `EXPECTED`.

        `point_of_no_return` is awaited when there is a connection, before the first byte; False breaks it off.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._options.total_timeout_s
        line = self._kept(loop) if self._idle else None
        if line is None:
            line = await self._another(loop, deadline_s)
        try:
            progress.phase = Phase.BODY
            if point_of_no_return is not None and not await point_of_no_return():
                progress.withdrawn = True
                raise Broken("withdrawn", "the attempt was withdrawn")
            answer = await line.ask(
                head, body, progress, deadline_s=deadline_s, read_timeout_s=self._options.read_timeout_s
            )
        except BaseException:
            self._give_up(line)
            raise
        if line.is_good and self._options.keep_alive:
            self._keep(line, loop)
        else:
            self._give_up(line)
        return answer

    async def close(self) -> None:
        """Hang up where nothing is asked; who is asking breaks off by himself."""
        while self._idle:
            self._give_up(self._idle.popleft())
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None

    # --- which line -------------------------------------------------------------------------------------------

    def _kept(self, loop: asyncio.AbstractEventLoop) -> Line | None:
        """A connection that was used before and is still good."""
        oldest_s = loop.time() - KEPT_S
        while self._idle:
            line = self._idle.popleft()
            if line.is_good and line.idle_since_s >= oldest_s:
                return line
            self._give_up(line)
        return None

    async def _another(self, loop: asyncio.AbstractEventLoop, deadline_s: float) -> Line:
        """A new connection, or where there are enough the next one that somebody gives back."""
        while self._count >= self._options.connections:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append(turn)
            try:
                async with asyncio.timeout_at(deadline_s):
                    await turn
            except BaseException:
                if turn.done() and not turn.cancelled():
                    self._next()  # it was our turn, and we leave
                raise
            if (line := self._kept(loop)) is not None:
                return line
        self._count += 1
        try:
            async with asyncio.timeout_at(min(deadline_s, loop.time() + self._options.connect_timeout_s)):
                return await self._connect(loop)
        except BaseException:
            self._count -= 1
            self._next()
            raise

    def _keep(self, line: Line, loop: asyncio.AbstractEventLoop) -> None:
        line.idle_since_s = loop.time()
        self._idle.append(line)
        if self._waiting:
            self._next()
        if self._tidying is None:
            self._tidying = loop.call_at(math.ceil(loop.time() + KEPT_S), self._tidy, loop)

    def _give_up(self, line: Line) -> None:
        line.close()
        self._count -= 1
        if self._waiting:
            self._next()

    def _next(self) -> None:
        """Let the next one who waits look for a connection."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _tidy(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what nobody used for too long."""
        self._tidying = None
        oldest_s = loop.time() - KEPT_S
        for line in [each for each in self._idle if not each.is_good or each.idle_since_s < oldest_s]:
            self._idle.remove(line)
            self._give_up(line)
        if self._idle:
            self._tidying = loop.call_at(math.ceil(loop.time() + KEPT_S), self._tidy, loop)

    # --- connecting ---------------------------------------------------------------------------------------------

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> Line:
        target = self._target
        sock = await self._reach(loop)
        try:
            if not target.is_tls:
                return (await loop.create_connection(Line, sock=sock))[1]
            if self._tls is None:
                self._tls = ssl.create_default_context()
                self._tls.set_alpn_protocols(["http/1.1"])
            return (
                await loop.create_connection(Line, sock=sock, ssl=self._tls, server_hostname=target.host)
            )[1]
        except (ssl.SSLError, ssl.CertificateError) as error:
            raise Broken("tls", type(error).__name__) from error
        except TimeoutError:
            raise
        except OSError as error:
            raise Broken("no connection", type(error).__name__) from error

    async def _reach(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        """A connected socket, by whichever address answers first."""
        addresses = await self._resolve(loop)
        try:
            return await aiohappyeyeballs.start_connection(
                addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1, loop=loop
            )
        except TimeoutError:
            raise
        except OSError as error:
            # The name may lead elsewhere by now.
            self._named_at_s = -math.inf
            raise Broken("no connection", type(error).__name__) from error

    async def _resolve(self, loop: asyncio.AbstractEventLoop) -> list[Any]:
        if (address := self._target.address) is not None:
            return [address]
        if self._naming is None:
            self._naming = asyncio.Lock()
        async with self._naming:
            if loop.time() - self._named_at_s >= _NAMED_S:
                target = self._target
                try:
                    self._addresses = await loop.getaddrinfo(
                        target.host, target.port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
                    )
                except socket.gaierror as error:
                    raise Broken("name not found", type(error).__name__) from error
                self._named_at_s = loop.time()
            return self._addresses


class _Target:
    """What a URL says about where to connect. Raises ValueError for one that says nothing of the kind."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a provider's URL begins with http:// or https:// and names a host")
        self.is_tls = parts.scheme == "https"
        self.port = parts.port or (443 if self.is_tls else 80)
        self.login = (
            None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        )
        self.address: Any = None
        """What a look-up of the host would give, where it is an address itself."""
        try:
            number = ipaddress.ip_address(parts.hostname)
        except ValueError:
            self.host = parts.hostname.encode("idna").decode()
            named = self.host
        else:
            self.host = str(number)
            named = self.host if number.version == 4 else f"[{self.host}]"
            family = socket.AF_INET if number.version == 4 else socket.AF_INET6
            where = (self.host, self.port) if number.version == 4 else (self.host, self.port, 0, 0)
            self.address = (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", where)
        self.named = named if parts.port is None else f"{named}:{parts.port}"
        self._prefix = parts.path.rstrip("/")

    def path(self, more: str) -> str:
        """The request target of a path below the URL's own."""
        return quote(self._prefix + more, safe="/%?&=:@!$'()*+,;~") or "/"


def field(name: str, value: str) -> bytes:
    """One header field. Raises ValueError where the value would end it (RFC 9110 section 5.5)."""
    if "\r" in value or "\n" in value or "\0" in value:
        raise ValueError(f"the header field {name} cannot hold a line break")
    return f"{name}: {value}\r\n".encode()


def _common_fields(target: _Target, options: LineOptions) -> bytes:
    fields = [
        field("Host", target.named),
        field("User-Agent", "reference-sender"),
        field("Accept", "*/*"),
        field("Accept-Encoding", "identity"),
    ]
    if options.api_key:
        fields.append(field("Authorization", f"Bearer {options.api_key}"))
    elif target.login is not None:
        word = base64.b64encode(":".join(target.login).encode()).decode("ascii")
        fields.append(field("Authorization", f"Basic {word}"))
    if not options.keep_alive:
        fields.append(field("Connection", "close"))
    return b"".join(fields)
