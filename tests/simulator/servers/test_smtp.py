"""The SMTP server on real sockets: every fault at every stage, and RFC 5321 where nothing goes wrong.

Judged on two things only: the bytes (or FIN, RST, silence) a sender sees, and what is in the ledger.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from simulator.dialects.smtp import GARBLED
from simulator.provider.faults import (
    FAULTS,
    SMTP_STAGES,
    Drop,
    Fault,
    GarbleTheReply,
    HangThere,
    HangUpOnThem,
    HoldTheAnswer,
    RefuseRecipients,
    ReplyWith,
    ResetTheLine,
    SlowDown,
    TruncateTheReply,
)
from simulator.provider.ledger import Acceptance, Attempt, AttemptState, Booked
from simulator.provider.limits import Limits
from simulator.provider.plan import Plan, Rule, When, Who
from simulator.provider.provider import Provider, Setup
from simulator.servers.smtp import (
    SmtpServer,
)
from simulator.servers.wire import Holds, Wire

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DEADLINE_S = 20.0


# --- the stage --------------------------------------------------------------------------------------


class Clock:
    """Time stands still; whoever sleeps is seen, and sleeps until it is woken."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.asleep = asyncio.Event()
        self.wake = asyncio.Event()

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

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

    @classmethod
    async def connect(cls, port: int) -> Client:
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        return cls(sock)

    async def say(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def line(self) -> bytes:
        """Return the next line; without its CRLF missing if the server closed before. Raises on RST."""
        while b"\n" not in self._heard:
            data = await asyncio.get_running_loop().sock_recv(self.sock, 65536)
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


def transparent(raw: bytes) -> bytes:
    """Make mail data transparent, line by line as RFC 5321, section 4.5.2, says it."""
    return b"".join(
        b"." + line if line.startswith(b".") else line
        for line in raw.split(b"\r\n")[:-1]
        for line in [line + b"\r\n"]
    )


@dataclass
class House:
    """A server with all its neighbours."""

    provider: Provider
    server: SmtpServer
    holds: Holds
    clock: Clock
    moves: Moves
    port: int = 0
    clients: list[Client] = field(default_factory=list)

    async def client(self) -> Client:
        client = await Client.connect(self.port)
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


@asynccontextmanager
async def house(
    *rules: Rule,
    limits: Limits = Limits(),
    commit: Callable[[], Awaitable[None]] = no_commit,
    accounts: tuple[str, ...] = (),
    max_message_bytes: int = 64 * 1024 * 1024,
    idle_timeout_s: float | None = None,
) -> AsyncIterator[House]:
    """Run a server whose accounts all have these rules and limits; nothing may be reported to the loop."""
    trouble: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context))
    provider = Provider(setup=Setup(plan=Plan(rules=rules), limits=limits), now=NOW)
    for account in accounts:
        provider.account(account, NOW)
    clock, holds, moves = Clock(), Holds(), Moves()
    server = SmtpServer(
        provider,
        Wire(clock, holds, moves),
        commit,
        moves,
        clock,
        hostname="mx.example",
        max_message_bytes=max_message_bytes,
        idle_timeout_s=idle_timeout_s,
    )
    home = House(provider=provider, server=server, holds=holds, clock=clock, moves=moves)
    home.port = await server.start("127.0.0.1", 0)
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


# --- every fault at every stage ---------------------------------------------------------------------

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

MATRIX = [
    pytest.param(name, stage, id=f"{name}-at-{stage}")
    for name, fault in KINDS.items()
    for stage in SMTP_STAGES
    if stage in fault.stages
]


def test_the_matrix_is_whole() -> None:
    """The two faults that it lacks exist at one stage only, and have tests of their own."""
    assert {*KINDS, Drop.name, RefuseRecipients.name} == set(FAULTS)


async def walk(client: Client, start: str, end: str) -> None:
    """Go through the script from stage to stage (not including `end`); all must go well."""
    for stage in ORDER[ORDER.index(start) : ORDER.index(end)]:
        said, code = SCRIPT[stage]
        await client.say(said)
        if code is not None:
            assert code == (await client.reply())[:3], stage


@pytest.mark.parametrize(("name", "stage"), MATRIX)
def test_every_fault_at_every_stage(name: str, stage: str) -> None:
    """The sender sees what the fault is named for; the mail is booked if and only if it struck after booking."""
    asyncio.run(asyncio.wait_for(_strike(name, stage), DEADLINE_S))


async def _strike(name: str, stage: str) -> None:
    # After booking there is no stage at which a sender says something: it said the final dot.
    said_at = {"reply": "message", "idle": "rset"}.get(stage, stage)
    after_booking = stage in ("reply", "idle", "rset", "quit")
    copies = 1 if after_booking else 0
    async with house(rule(KINDS[name], stage), accounts=("shop",)) as home:
        client = await home.client()

        def everything() -> list[Attempt]:
            return home.attempts() + home.attempts("shop")

        await walk(client, "connect", said_at)
        said, code = SCRIPT[said_at]
        if stage != "idle":
            await client.say(said)

        async def go_on(start: str) -> None:
            """Go on to the end; the mail is booked exactly once then."""
            await walk(client, start, "quit")
            assert (await client.ask(b"QUIT")).startswith(b"221 ")
            assert await client.rest() == b""
            assert _raws(home) == [RAW]

        match name:
            case "reply":
                assert await client.reply() == b"451 4.3.0 not now\r\n"
                assert len(home.booked("shop")) == copies
                if stage == "connect":
                    assert (await client.ask(b"NOOP")).startswith(b"503 ")
                    assert (await client.ask(b"QUIT")).startswith(b"221 ")
                    assert await client.rest() == b""
                elif stage == "quit":
                    assert await client.rest() == b""
                else:
                    await go_on("rset" if stage == "reply" else RESUME.get(stage, stage))
            case "slow":
                await home.clock.asleep.wait()
                assert client.is_in_silence()
                assert home.clock.slept == [3.0]
                home.clock.wake.set()
                await _finish(client, home, stage, said_at, code)
            case "hold":
                await home.moves.until(lambda: any(a.state is AttemptState.HELD for a in everything()))
                assert client.is_in_silence()
                assert len(home.booked("shop")) == copies
                assert home.holds.release("default") + home.holds.release("shop") == 1
                await _finish(client, home, stage, said_at, code)
            case "hang":
                await home.moves.until(lambda: any(f"hang at {stage}" in a.rules for a in everything()))
                if stage == "idle":
                    await client.say(said)
                assert client.is_in_silence()
                client.sock.close()
                await home.moves.until(lambda: all(a.state is AttemptState.CLOSED for a in everything()))
            case "hang_up":
                assert await client.rest() == b""
            case "reset":
                with pytest.raises(ConnectionResetError):
                    await client.rest()
            case "truncate":
                assert await client.rest() == (code or b"250")[:2]
            case "garble":
                assert await client.line() == GARBLED
                assert len(home.booked("shop")) == copies
                if stage == "body":
                    # The noise is all the answer this mail gets.
                    await client.say(SCRIPT["message"][0])
                    assert (await client.ask(b"NOOP")).startswith(b"250 ")
                    assert len(home.booked("shop")) == 0
                if stage == "quit":
                    assert await client.rest() == b""
                else:
                    await go_on("rset" if stage == "reply" else RESUME.get(stage, stage))
        if name in ("hang", "hang_up", "reset", "truncate"):
            assert len(home.booked("shop")) == copies
            await home.closed("shop")
            # Whoever comes next is served as if nothing had been.
            again = await home.client()
            await walk(again, "connect", "quit")
            assert len(home.booked("shop")) == copies + 1


async def _finish(client: Client, home: House, stage: str, said_at: str, code: bytes | None) -> None:
    """Only late: the usual answer comes, and all that follows."""
    if code is not None:
        assert code == (await client.reply())[:3]
    if stage == "quit":
        assert await client.rest() == b""
    else:
        await walk(client, ORDER[ORDER.index(said_at) + 1], "quit")
    assert len(home.booked("shop")) == 1


def _raws(home: House) -> list[bytes]:
    return [record.raw for record in home.provider.records() if isinstance(record, Booked)]
