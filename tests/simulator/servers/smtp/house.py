"""A real SMTP server on a real socket with all its neighbours, and a sender that says exactly the bytes it is told to."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from simulator.config import read_plan
from simulator.driven import Waiter
from simulator.provider.acceptance import Acceptance
from simulator.provider.faults import (
    Fault,
    GarbleTheReply,
    HangThere,
    HangUpOnThem,
    HoldTheAnswer,
    ReplyWith,
    ResetTheLine,
    SlowDown,
    TruncateTheReply,
)
from simulator.provider.ledger import Attempt, AttemptState, Booked
from simulator.provider.limits import Limits
from simulator.provider.plan import Plan
from simulator.provider.provider import Provider, Setup
from simulator.provider.rule import Rule, When, Who
from simulator.provider.smtp import SmtpRules
from simulator.servers.alarms import Alarms
from simulator.servers.smtp.server import SmtpServer, TellWhenKept
from simulator.servers.tls import Tls
from simulator.servers.wire import Holds, Wire
from simulator.store import StoreError
from tests.simulator.servers.smtp.bodies import transparent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DEADLINE_S = 20.0


# --- the stage --------------------------------------------------------------------------------------


class Clock:
    """Time stands still; whoever sleeps is seen, and sleeps until it is woken."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.asleep = asyncio.Event()
        self.wake = asyncio.Event()
        self.time_s = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.asleep.set()
        await self.wake.wait()


class Moves:
    """Waits for what `moved` announces."""

    def __init__(self) -> None:
        self._moved = asyncio.Event()

    def __call__(self) -> None:
        self._moved.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._moved.clear()
            await self._moved.wait()


class Client:
    """A sender that says exactly the bytes it is told to, and hears exactly what there is to hear."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._heard = bytearray()
        self._tls: ssl.SSLObject | None = None
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()

    @classmethod
    async def connect(cls, port: int) -> Client:
        sock = socket.socket()
        sock.setblocking(False)
        # Two small writes in a row would else wait 40 ms for a delayed ACK.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        return cls(sock)

    async def say(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.write(data)
            data = self._out.read()
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def secure(self, tls: Tls, *, name: str = "localhost") -> None:
        """Do the client's part of a TLS handshake. Raises what `ssl` raises, `EOFError` and on RST."""
        loop = asyncio.get_running_loop()
        context = ssl.create_default_context(cafile=tls.ca_file)
        made = context.wrap_bio(self._in, self._out, server_hostname=name)
        while True:
            try:
                made.do_handshake()
            except ssl.SSLWantReadError:
                await loop.sock_sendall(self.sock, self._out.read())
                if not (data := await loop.sock_recv(self.sock, 65536)):
                    raise EOFError("the line was closed during the handshake") from None
                self._in.write(data)
            else:
                await loop.sock_sendall(self.sock, self._out.read())
                self._tls = made
                return

    async def say_goodbye(self) -> None:
        """Say under TLS that nothing more is said, and leave the line open."""
        assert self._tls is not None
        with suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        await asyncio.get_running_loop().sock_sendall(self.sock, self._out.read())

    async def _hear(self) -> bytes:
        """Return the next bytes; none at the end. Raises on RST."""
        loop = asyncio.get_running_loop()
        if self._tls is None:
            return await loop.sock_recv(self.sock, 65536)
        while True:
            try:
                return self._tls.read(65536)
            except ssl.SSLWantReadError:
                if not (data := await loop.sock_recv(self.sock, 65536)):
                    self._in.write_eof()
                else:
                    self._in.write(data)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    async def line(self) -> bytes:
        """Return the next line; without its CRLF missing if the server closed before. Raises on RST."""
        while b"\n" not in self._heard:
            data = await self._hear()
            if not data:
                rest, self._heard = bytes(self._heard), bytearray()
                return rest
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return bytes(line) + b"\n"

    async def reply(self) -> bytes:
        """Return the next reply, all its lines."""
        whole = line = await self.line()
        while line[3:4] == b"-":
            line = await self.line()
            whole += line
        return whole

    async def ask(self, command: bytes) -> bytes:
        await self.say(command + b"\r\n")
        return await self.reply()

    async def rest(self) -> bytes:
        """Return everything up to the server's FIN. Raises on RST."""
        whole = b""
        while line := await self.line():
            whole += line
        return whole

    def is_in_silence(self) -> bool:
        """Tell whether nothing at all has arrived, not even an end."""
        if self._heard:
            return False
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        return False

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def break_line(self) -> None:
        """Close by RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    async def hello(self) -> None:
        assert (await self.reply()).startswith(b"220 ")
        assert (await self.ask(b"EHLO client.example")).startswith(b"250-")

    async def send(self, raw: bytes, *, sender: bytes = b"a@x.example", to: bytes = b"b@y.example") -> bytes:
        """Hand over a mail after hello; return the answer to the final dot."""
        assert (await self.ask(b"MAIL FROM:<" + sender + b">")).startswith(b"250 ")
        assert (await self.ask(b"RCPT TO:<" + to + b">")).startswith(b"250 ")
        assert (await self.ask(b"DATA")).startswith(b"354 ")
        return await self.ask(transparent(raw) + b".")


@dataclass
class House:
    """A server with all its neighbours."""

    provider: Provider
    server: SmtpServer
    holds: Holds
    clock: Clock
    moves: Moves
    port: int = 0
    tls_port: int = 0
    clients: list[Client] = field(default_factory=list)

    async def client(self, *, tls: bool = False) -> Client:
        """Return a new client; with `tls`, on the port where TLS comes first."""
        client = await Client.connect(self.tls_port if tls else self.port)
        self.clients.append(client)
        return client

    def booked(self, account: str = "default") -> list[Acceptance]:
        return self.provider.account(account, NOW).ledger.acceptances

    def attempts(self, account: str = "default") -> list[Attempt]:
        return list(self.provider.account(account, NOW).attempts.values())

    async def closed(self, account: str = "default") -> list[Attempt]:
        """Wait until all attempts of an account are over, and return them."""
        await self.moves.until(lambda: all(a.state is AttemptState.CLOSED for a in self.attempts(account)))
        return self.attempts(account)


async def no_commit() -> None:
    """Everything is durable already."""


def telling(commit: Callable[[], Awaitable[None]]) -> TellWhenKept:
    """Return what tells a waiter when `commit` has returned."""
    telling: set[asyncio.Task[None]] = set()

    async def tell(waiter: Waiter[StoreError | None]) -> None:
        try:
            await commit()
        except StoreError as problem:
            waiter.set_result(problem)
        else:
            waiter.set_result(None)

    def begin(waiter: Waiter[StoreError | None]) -> None:
        task = asyncio.get_running_loop().create_task(tell(waiter))
        telling.add(task)
        task.add_done_callback(telling.discard)

    return begin


@asynccontextmanager
async def house(
    *rules: Rule,
    limits: Limits = Limits(),
    commit: Callable[[], Awaitable[None]] = no_commit,
    accounts: tuple[str, ...] = (),
    max_message_bytes: int = 64 * 1024 * 1024,
    idle_timeout_s: float | None = None,
    smtp: SmtpRules = SmtpRules(),
    tls: Tls | None = None,
    plan: Mapping[str, Any] | None = None,
    short: bool = True,
) -> AsyncIterator[House]:
    """Run a server whose accounts all have these rules and limits, or this plan; nothing may be reported to the loop."""
    setup = Setup(
        plan=Plan(rules=rules),
        limits=limits,
        smtp=replace(smtp, idle_timeout_s=idle_timeout_s) if idle_timeout_s is not None else smtp,
    )
    if plan is not None:
        setup = read_plan(plan, "the test's plan")
    trouble: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context))
    provider = Provider(setup=setup, now=NOW)
    for account in accounts:
        provider.account(account, NOW)
    clock, holds, moves = Clock(), Holds(), Moves()
    server = SmtpServer(
        provider,
        Wire(Alarms(clock), holds, moves),
        commit,
        moves,
        clock,
        hostname="mx.example",
        max_message_bytes=max_message_bytes,
        tls=tls,
        offers_starttls=tls is not None,
        tell_when_kept=telling(commit) if short else None,
        noticed=moves,
    )
    home = House(provider=provider, server=server, holds=holds, clock=clock, moves=moves)
    home.port = await server.start("127.0.0.1", 0)
    if tls is not None:
        home.tls_port = await server.start("127.0.0.1", 0, implicit_tls=True)
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield home
    finally:
        for client in home.clients:
            client.sock.close()
        await server.stop(0.0)
    assert trouble == []
    assert server.connections == 0


def rule(fault: Fault, stage: str, *, times: int | None = 1, who: Who = Who()) -> Rule:
    return Rule(
        name=f"{fault.name} at {stage}",
        fault=fault,
        stages=frozenset({("smtp", stage)}),
        when=When(times=times),
        who=who,
    )


PLAIN = b"AUTH PLAIN " + base64.b64encode(b"\0shop\0secret")

#: What a sender says at each stage, and the code it hears if all goes well (None: nothing is said there).
SCRIPT: dict[str, tuple[bytes, bytes | None]] = {
    "connect": (b"", b"220"),
    "ehlo": (b"EHLO client.example\r\n", b"250"),
    "starttls": (b"STARTTLS\r\n", b"502"),
    "auth": (PLAIN + b"\r\n", b"235"),
    "mail": (b"MAIL FROM:<a@x.example>\r\n", b"250"),
    "rcpt": (b"RCPT TO:<b@y.example>\r\n", b"250"),
    "data": (b"DATA\r\n", b"354"),
    "body": (b"Subject: hello\r\n\r\nFirst line\r\n", None),
    "message": (b"Last line\r\n.\r\n", b"250"),
    "rset": (b"RSET\r\n", b"250"),
    "quit": (b"QUIT\r\n", b"221"),
}
ORDER = list(SCRIPT)
RAW = b"Subject: hello\r\n\r\nFirst line\r\nLast line\r\n"

#: Where a sender that was refused goes on; elsewhere it says the same again.
RESUME = {"body": "mail", "message": "mail", "starttls": "auth", "connect": "ehlo"}


KINDS: dict[str, Fault] = {
    "reply": ReplyWith(code=451, enhanced="4.3.0", text="not now"),
    "slow": SlowDown(delay_s=3.0),
    "hang": HangThere(),
    "hang_up": HangUpOnThem(),
    "reset": ResetTheLine(),
    "garble": GarbleTheReply(),
    "truncate": TruncateTheReply(),
    "hold": HoldTheAnswer(),
}


async def walk(client: Client, start: str, end: str) -> None:
    """Go through the script from stage to stage (not including `end`); all must go well."""
    for stage in ORDER[ORDER.index(start) : ORDER.index(end)]:
        said, code = SCRIPT[stage]
        await client.say(said)
        if code is not None:
            assert code == (await client.reply())[:3], stage


def raws(home: House) -> list[bytes]:
    return [record.raw for record in home.provider.records() if isinstance(record, Booked)]


def run(story: Awaitable[None]) -> None:
    """Run a story to its end, or fail at the deadline."""

    async def timed() -> None:
        await asyncio.wait_for(story, DEADLINE_S)

    asyncio.run(timed())
