"""The SMTP server on real sockets: every fault at every stage, and RFC 5321 where nothing goes wrong.

Judged on two things only: the bytes (or FIN, RST, silence) a sender sees, and what is in the ledger.
"""

from __future__ import annotations

import asyncio
import base64
import smtplib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage

import aiosmtplib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.dialects.smtp import GARBLED
from simulator.provider.fate import Fate
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
from simulator.provider.ledger import Acceptance, Attempt, AttemptState, Booked, Sent
from simulator.provider.limits import Limits
from simulator.provider.plan import Pattern, Plan, Rule, When, Who
from simulator.provider.provider import Provider, Setup
from simulator.servers.alarms import Alarms
from simulator.servers.inbox import has_bare_line_ends
from simulator.servers.smtp import COMMAND_LIMIT_BYTES, SmtpServer
from simulator.servers.wire import Holds, Wire
from tests.simulator.servers.bodies import BODIES, transparent

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
        # Two small writes in a row would else wait 40 ms for a delayed ACK.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
        Wire(Alarms(clock), holds, moves),
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
    if stage in fault.stages.get("smtp", ())
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


@pytest.mark.parametrize("name", ["hang", "hang_up", "reset", "truncate", "hold"])
@pytest.mark.parametrize("stage", ["body", "reply"])
def test_the_faults_work_on_uvloop_too(name: str, stage: str) -> None:
    """Its transports are of another kind; speed and faults must not exclude each other."""
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(_strike(name, stage), DEADLINE_S))


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


def run(story: Awaitable[None]) -> None:
    """Run a story to its end, or fail at the deadline."""

    async def timed() -> None:
        await asyncio.wait_for(story, DEADLINE_S)

    asyncio.run(timed())


# --- faults that are not in the matrix --------------------------------------------------------------


def test_a_dropped_mail_is_accepted_and_booked_as_dropped() -> None:
    async def story() -> None:
        async with house(rule(Drop(), "message")) as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(RAW)).startswith(b"250 2.0.0 ")
            assert [each.fate for each in home.booked()] == [Fate.DROPPED]

    run(story())


def test_a_refused_recipient_is_refused_alone() -> None:
    """The others get the mail; the refused one may be named again in a later mail."""

    async def story() -> None:
        refuse = rule(RefuseRecipients(), "rcpt", times=None, who=Who(recipient=Pattern("*@bad.example")))
        async with house(refuse) as home:
            client = await home.client()
            await client.hello()
            assert (await client.ask(b"MAIL FROM:<a@x.example>")).startswith(b"250 ")
            assert await client.ask(b"RCPT TO:<c@bad.example>") == b"550 5.1.1 no such mailbox\r\n"
            assert (await client.ask(b"RCPT TO:<b@y.example>")).startswith(b"250 ")
            assert (await client.ask(b"DATA")).startswith(b"354 ")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert [each.recipients for each in home.booked()] == [("b@y.example",)]
            assert home.attempts()[0].answer.startswith("250 2.0.0")

    run(story())


def test_no_recipient_left_means_no_data() -> None:
    async def story() -> None:
        async with house(rule(RefuseRecipients(), "rcpt")) as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:<a@x.example>")
            assert (await client.ask(b"RCPT TO:<c@bad.example>")).startswith(b"550 ")
            assert (await client.ask(b"DATA")).startswith(b"503 5.5.1 ")
            assert (await client.ask(b"NOOP")).startswith(b"250 ")

    run(story())


@pytest.mark.parametrize("stage", [s for s in SMTP_STAGES if s in ReplyWith.stages["smtp"]])
def test_421_closes_the_connection_at_every_stage(stage: str) -> None:
    """RFC 5321, section 4.2.3: it means that the channel is closed."""

    async def story() -> None:
        async with house(rule(ReplyWith(code=421), stage), accounts=("shop",)) as home:
            client = await home.client()
            said_at = "message" if stage == "reply" else stage
            await walk(client, "connect", said_at)
            await client.say(SCRIPT[said_at][0])
            enhanced = b"" if stage in ("connect", "ehlo") else b"4.3.2 "
            assert (
                await client.rest()
                == b"421 " + enhanced + b"service not available, closing the connection\r\n"
            )

    run(story())


def test_a_yes_in_other_words_is_a_yes() -> None:
    """A rule may only reword: 251 at RCPT takes the recipient."""

    async def story() -> None:
        async with house(rule(ReplyWith(code=251), "rcpt")) as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:<a@x.example>")
            assert (await client.ask(b"RCPT TO:<b@y.example>")).startswith(b"251 2.1.5 ")
            await client.ask(b"DATA")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert [each.recipients for each in home.booked()] == [("b@y.example",)]

    run(story())


def test_rules_see_headers_before_the_body_is_whole() -> None:
    async def story() -> None:
        who = Who(headers=(("X-Kind", Pattern("bulk")),))
        async with house(rule(HangUpOnThem(), "body", who=who)) as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(b"X-Kind: single\r\n\r\n")).startswith(b"250 ")
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(b"X-Kind: bulk\r\n\r\nthe rest never comes")
            assert await client.rest() == b""
            assert len(home.booked()) == 1

    run(story())


def test_a_held_answer_survives_its_sender() -> None:
    """The harness kills the sender while the provider holds the answer; released, the mail is taken."""

    async def story() -> None:
        async with house(rule(HoldTheAnswer(), "message")) as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(RAW + b".\r\n")
            await home.moves.until(lambda: home.attempts()[0].state is AttemptState.HELD)
            client.break_line()
            # When the next sender is served, the server has seen the broken line.
            await (await home.client()).hello()
            assert home.booked() == []
            home.holds.release("default")
            held = home.attempts()[0]
            await home.moves.until(lambda: held.state is AttemptState.CLOSED)
            assert len(home.booked()) == 1
            assert held.sent is Sent.NOTHING

    run(story())


def test_what_comes_in_during_a_wait_within_the_mail_is_not_forgotten() -> None:
    async def story() -> None:
        async with house(rule(HoldTheAnswer(), "body")) as home:
            client, other = await home.client(), await home.client()
            await other.hello()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(b"Subject: x\r\n\r\n")
            await home.moves.until(lambda: any(a.state is AttemptState.HELD for a in home.attempts()))
            await client.say(b"the rest\r\n.\r\n")
            # The server reads in order: when the other is answered, the rest has been read.
            await other.ask(b"NOOP")
            home.holds.release("default")
            assert (await client.reply()).startswith(b"250 ")
            assert _raws(home) == [b"Subject: x\r\n\r\nthe rest\r\n"]

    run(story())


# --- attempts and accounts --------------------------------------------------------------------------


def test_each_transaction_is_an_attempt_of_the_same_connection() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            await client.send(RAW, to=b"one@y.example")
            await client.send(RAW, to=b"two@y.example")
            await client.ask(b"QUIT")
            first, second = home.attempts()
            assert first.connection == second.connection
            assert [first.recipients, second.recipients] == [("one@y.example",), ("two@y.example",)]
            assert [a.attempt for a in home.booked()] == [first.id, second.id]
            for attempt in (first, second):
                assert attempt.state is AttemptState.CLOSED
                assert attempt.stage == "reply"
                assert attempt.sent is Sent.COMPLETE
                assert attempt.answer.startswith("250 2.0.0 OK: queued as msg_")

    run(story())


def test_the_account_is_the_user_who_logged_in() -> None:
    """Any password will do; a user nobody named belongs to the default account; it lasts for the connection."""

    async def story() -> None:
        async with house(accounts=("shop",)) as home:
            for user in (b"shop", b"stranger"):
                client = await home.client()
                await client.hello()
                assert (await client.ask(b"AUTH LOGIN")) == b"334 VXNlcm5hbWU6\r\n"
                assert (await client.ask(base64.b64encode(user))) == b"334 UGFzc3dvcmQ6\r\n"
                assert (
                    await client.ask(base64.b64encode(b"pw"))
                ) == b"235 2.7.0 authentication succeeded\r\n"
                await client.send(RAW)
                await client.send(RAW)
            assert len(home.booked("shop")) == 2
            assert len(home.booked()) == 2

    run(story())


def test_an_attempt_that_has_ended_does_not_move_to_the_account_of_a_later_login() -> None:
    async def story() -> None:
        async with house(accounts=("shop",)) as home:
            client = await home.client()
            await client.hello()
            await client.send(RAW)
            assert (await client.ask(PLAIN)).startswith(b"235 ")
            await client.send(RAW)
            assert (len(home.booked()), len(home.attempts())) == (1, 1)
            assert (len(home.booked("shop")), len(home.attempts("shop"))) == (1, 1)

    run(story())


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param([b"AUTH"], b"501 5.5.4", id="no mechanism"),
        pytest.param([b"AUTH CRAM-MD5"], b"504 5.5.4", id="unknown mechanism"),
        pytest.param([b"auth plain AHNob3AAcHc="], b"235 2.7.0", id="lower case"),
        pytest.param([b"AUTH PLAIN", b"AHNob3AAcHc="], b"235 2.7.0", id="response after 334"),
        pytest.param([b"AUTH PLAIN", b"*"], b"501 5.7.0", id="given up"),
        pytest.param([b"AUTH PLAIN !!!"], b"501 5.5.2", id="not base64"),
        pytest.param([b"AUTH PLAIN c2hvcA=="], b"501 5.5.2", id="one part only"),
        pytest.param([b"AUTH PLAIN AAA="], b"535 5.7.8", id="no user"),
        pytest.param([b"AUTH PLAIN ="], b"501 5.5.2", id="empty initial response"),
        pytest.param([b"AUTH PLAIN", b"A" * 20_000], b"500 5.5.6", id="response too long"),
        pytest.param([b"AUTH PLAIN AHNob3AAcHc=", b"AUTH PLAIN AHNob3AAcHc="], b"503 5.5.1", id="twice"),
        pytest.param([b"MAIL FROM:<>", b"AUTH PLAIN AHNob3AAcHc="], b"503 5.5.1", id="within a transaction"),
        pytest.param([b"HELO x", b"AUTH PLAIN AHNob3AAcHc="], b"503 5.5.1", id="after HELO"),
    ],
)
def test_auth(said: list[bytes], code: bytes) -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for command in said:
                reply = await client.ask(command)
            assert reply.startswith(code)
            assert (await client.ask(b"NOOP")) == b"250 2.0.0 OK\r\n"

    run(story())


def test_an_abandoned_transaction_is_an_attempt_without_answer() -> None:
    """RSET, a second EHLO and a lost connection each end the attempt; the next MAIL begins another."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for giving_up in (b"RSET", b"EHLO again.example"):
                await client.ask(b"MAIL FROM:<a@x.example>")
                assert (await client.ask(giving_up)).startswith(b"250")
            await client.ask(b"MAIL FROM:<a@x.example>")
            client.break_line()
            attempts = await home.closed()
            assert [a.answer.split(":")[0] for a in attempts] == ["no answer"] * 3
            assert {a.sent for a in attempts} == {Sent.NOTHING}
            assert home.booked() == []

    run(story())


# --- the answer comes after the commit --------------------------------------------------------------


def test_the_commit_returns_before_the_answer_goes_out() -> None:
    async def story() -> None:
        committing, durable = asyncio.Event(), asyncio.Event()

        async def commit() -> None:
            committing.set()
            await durable.wait()

        async with house(commit=commit) as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(RAW + b".\r\n")
            await committing.wait()
            assert len(home.booked()) == 1
            assert client.is_in_silence()
            durable.set()
            assert (await client.reply()).startswith(b"250 2.0.0 ")

    run(story())


@pytest.mark.parametrize("name", ["hang_up", "reset", "truncate", "garble", "reply", "hold"])
def test_the_commit_returns_before_a_fault_after_booking_is_carried_out(name: str) -> None:
    """A reset that comes before the acceptance is durable would be a lie about what the ledger survives."""

    async def story() -> None:
        committing, durable = asyncio.Event(), asyncio.Event()

        async def commit() -> None:
            committing.set()
            await durable.wait()

        async with house(rule(KINDS[name], "reply"), commit=commit) as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(RAW + b".\r\n")
            await committing.wait()
            assert client.is_in_silence()
            assert home.attempts()[0].state is AttemptState.OPEN
            durable.set()
            if name == "hold":
                await home.moves.until(lambda: home.attempts()[0].state is AttemptState.HELD)
            else:
                await home.closed()

    run(story())


def test_nothing_refused_is_committed() -> None:
    async def story() -> None:
        async def commit() -> None:
            raise AssertionError("nothing was booked")

        async with house(
            rule(KINDS["reply"], "message"), limits=Limits(max_size_bytes=10), commit=commit
        ) as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(RAW)).startswith(b"451 ")
            assert (await client.send(RAW)).startswith(b"552 5.3.4 ")
        async with house(limits=Limits(rate_per_s=0.5, burst=0), commit=commit) as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(RAW)).startswith(b"451 4.7.0 ")

    run(story())


def test_an_acceptance_that_cannot_be_kept_gets_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Neither yes nor no would be true; the line is closed and the trouble is logged."""

    async def story() -> None:
        async def commit() -> None:
            raise OSError("disk full")

        async with house(commit=commit) as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(RAW + b".\r\n")
            assert await client.rest() == b""
            (attempt,) = await home.closed()
            assert attempt.sent is Sent.NOTHING

    run(story())
    assert "could not be kept" in caplog.text


# --- whole sessions ---------------------------------------------------------------------------------


def test_a_pipelined_session_is_answered_in_order() -> None:
    """RFC 2920; all at once, half-closed, and still every reply comes."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            mail = b"MAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\nDATA\r\n" + RAW + b".\r\n"
            await client.say(b"EHLO c.example\r\n" + mail + mail + b"NOOP\r\nQUIT\r\n")
            client.half_close()
            codes = b"".join(line[:4] for line in (await client.rest()).splitlines())
            mail_codes = b"250 250 354 250 "
            assert codes == b"220 " + b"250-" * 7 + b"250 " + mail_codes * 2 + b"250 221 "
            assert _raws(home) == [RAW, RAW]

    run(story())


def test_ehlo_announces_what_is_there() -> None:
    async def story() -> None:
        async with house(limits=Limits(max_size_bytes=12_345)) as home:
            client = await home.client()
            assert await client.reply() == b"220 mx.example ESMTP ready\r\n"
            assert (await client.ask(b"EHLO c.example")).splitlines() == [
                b"250-mx.example",
                b"250-SIZE 12345",
                b"250-PIPELINING",
                b"250-8BITMIME",
                b"250-SMTPUTF8",
                b"250-ENHANCEDSTATUSCODES",
                b"250-AUTH PLAIN LOGIN",
                b"250 HELP",
            ]

    run(story())


@pytest.mark.parametrize(
    ("said", "replies"),
    [
        ([b"MAIL FROM:<a@x.example>"], [b"503 5.5.1 "]),
        ([b"HELO c", b"RCPT TO:<b@y.example>"], [b"250 mx.example\r\n", b"503 5.5.1 "]),
        ([b"HELO c", b"DATA"], [b"250 ", b"503 5.5.1 "]),
        (
            [b"HELO c", b"MAIL FROM:<>", b"MAIL FROM:<>", b"RSET"],
            [b"250 ", b"250 ", b"503 5.5.1 ", b"250 2.0.0 "],
        ),
        ([b"HELO c", b"MAIL FROM:<>", b"DATA"], [b"250 ", b"250 2.1.0 ", b"503 5.5.1 "]),
        ([b"HELO c", b"MAIL FROM:<> SIZE=1"], [b"250 ", b"555 5.5.4 "]),
        ([b"EHLO"], [b"501 syntax"]),
        ([b"HELO"], [b"501 syntax"]),
        ([b"EHLO a b"], [b"501 syntax"]),
        ([b"NOOP", b"NOOP ignored", b"RSET", b"RSET now"], [b"250 2.0.0 ", b"250 ", b"250 ", b"501 5.5.4 "]),
        ([b"VRFY a", b"VRFY", b"EXPN list"], [b"252 2.5.2 ", b"501 5.5.4 ", b"502 5.5.1 "]),
        ([b"HELP", b"HELP mail"], [b"214 2.0.0 ", b"214 2.0.0 syntax: MAIL"]),
        ([b"STARTTLS", b"STARTTLS now"], [b"502 5.5.1 ", b"501 5.5.4 "]),
        ([b"BDAT 10 LAST", b"", b"\xff\xfe", "MA\u0131L FROM:<>".encode()], [b"500 5.5.1 "] * 4),
        ([b"NOOP " + b"x" * COMMAND_LIMIT_BYTES, b"NOOP"], [b"500 5.5.2 ", b"250 "]),
        ([b"NOOP " + b"x" * 3_000_000, b"NOOP"], [b"500 5.5.2 ", b"250 "]),
        ([b"QUIT now", b"quit"], [b"501 5.5.4 ", b"221 2.0.0 "]),
        ([b"GET / HTTP/1.1", *[b"Header: x"] * 20], [*[b"500 5.5.1 "] * 20, b"421 4.7.0 "]),
    ],
    ids=lambda value: repr(value[-1][:24]),
)
def test_commands(said: list[bytes], replies: list[bytes]) -> None:
    """The order of commands, their syntax, and the codes of RFC 5321 and RFC 3463."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.reply()
            for command, expected in zip(said, replies, strict=True):
                reply = await client.ask(command)
                assert reply.startswith(expected), (command[:40], reply)
            assert home.booked() == []

    run(story())


def test_a_line_that_ends_with_lf_is_refused_at_once() -> None:
    """Not obeyed (RFC 5321, section 2.3.8), and not waited for either."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.reply()
            await client.say(b"EHLO c.example\nNOOP\n")
            assert (await client.reply()).startswith(b"500 5.5.2 lines end with CRLF")
            assert (await client.reply()).startswith(b"500 5.5.2 lines end with CRLF")
            assert (await client.ask(b"MAIL FROM:<>")).startswith(b"503 ")

    run(story())


# --- addresses and parameters -----------------------------------------------------------------------


def test_addresses_that_are_not_ascii_need_smtputf8() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            utf8 = "jürgen@bücher.example".encode()
            assert (await client.ask(b"MAIL FROM:<" + utf8 + b">")).startswith(b"553 5.6.7 ")
            assert (await client.ask(b"MAIL FROM:<j\xfcrgen@x.example> SMTPUTF8")).startswith(b"501 5.1.7 ")
            assert (await client.ask(b"MAIL FROM:<a@x.example>")).startswith(b"250 ")
            assert (await client.ask(b"RCPT TO:<" + utf8 + b">")).startswith(b"553 5.6.7 ")
            await client.ask(b"RSET")
            assert (await client.ask(b"MAIL FROM:<" + utf8 + b"> SMTPUTF8")).startswith(b"250 ")
            assert (await client.ask(b"RCPT TO:<" + utf8 + b">")).startswith(b"250 ")
            await client.ask(b"DATA")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert home.booked()[0].sender == utf8.decode()

    run(story())


def test_a_refused_mail_command_is_an_attempt() -> None:
    """Every try of a sender is recorded, also one that fails at its first word."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:a@x.example")
            await client.ask(b"MAIL FROM:<a@x.example> SIZE=999999999999")
            answers = [(a.answer[:9], a.sent, a.state) for a in home.attempts()]
            assert answers == [
                ("501 5.1.7", Sent.COMPLETE, AttemptState.CLOSED),
                ("552 5.3.4", Sent.COMPLETE, AttemptState.CLOSED),
            ]

    run(story())


def test_the_null_sender_is_booked_as_an_empty_string_and_a_repeated_recipient_once() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:<> BODY=8BITMIME RET=FULL")
            for _ in range(2):
                assert (await client.ask(b"RCPT TO:<b@y.example> NOTIFY=NEVER")).startswith(b"250 2.1.5 ")
            await client.ask(b"DATA")
            await client.ask(RAW + b".")
            assert [(each.sender, each.recipients) for each in home.booked()] == [("", ("b@y.example",))]

    run(story())


def test_recipients_over_the_limit_are_put_off_and_the_others_get_the_mail() -> None:
    async def story() -> None:
        async with house(limits=Limits(max_recipients=2)) as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:<>")
            codes = [(await client.ask(b"RCPT TO:<%d@y.example>" % n))[:9] for n in range(3)]
            assert codes == [b"250 2.1.5", b"250 2.1.5", b"452 4.5.3"]
            await client.ask(b"DATA")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert [each.recipients for each in home.booked()] == [("0@y.example", "1@y.example")]

    run(story())


# --- mail data --------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(bodies=st.lists(BODIES, min_size=1, max_size=3))
def test_bodies_arrive_in_the_ledger_as_they_were_sent(bodies: list[bytes]) -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for body in bodies:
                assert (await client.send(body)).startswith(b"250 ")
            assert _raws(home) == bodies

    run(story())


@pytest.mark.parametrize(
    "end",
    [
        b"\n.\n",
        b"\n.\r\n",
        b"\r\n.\n",
        b"\r.\r",
        b"\r.\r\n",
        b"\r\n.\r",
        b"\r\n\0.\r\n",
        b"\r\n.\0\r\n",
        b"\r\n..\r\n",
    ],
    ids=repr,
)
def test_nothing_but_the_final_dot_ends_a_mail(end: bytes) -> None:
    """Smuggling: what looks like an end is data, and a CR or LF of its own makes the whole mail refused."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            smuggled = b"MAIL FROM:<x@x.example>\r\nRCPT TO:<v@y.example>\r\nDATA\r\nSubject: smuggled\r\n"
            reply = await client.ask(b"Subject: x\r\n\r\nhello" + end + smuggled + b".")
            if has_bare_line_ends(end.replace(b"\r\n", b"") if end.count(b"\r\n") else end):
                assert reply.startswith(b"554 5.6.0 ")
                assert home.booked() == []
            else:
                assert reply.startswith(b"250 ")
                assert len(home.booked()) == 1
            assert (await client.ask(b"NOOP")).startswith(b"250 ")

    run(story())


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no header at all\r\n", id="no header"),
        pytest.param(b".\r\n..\r\n.leading\r\n", id="dots"),
        pytest.param(b"Subject: x\r\n\r\n" + b"l" * 200_000 + b"\r\n", id="a very long line"),
        pytest.param(b"Subject: \xcf\xf0\xe8\r\n\r\n\xff\0\r\n", id="8 bit and NUL"),
        pytest.param(b"\r\n", id="an empty header"),
    ],
)
def test_odd_mail_is_taken_as_it_is(raw: bytes) -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(raw)).startswith(b"250 ")
            assert _raws(home) == [raw]

    run(story())


def test_a_mail_is_measured_without_its_transparent_dots() -> None:
    """Exactly the limit is taken, one octet more is refused, and the session goes on either way."""

    async def story() -> None:
        limit = 3_000
        async with house(limits=Limits(max_size_bytes=limit)) as home:
            client = await home.client()
            await client.hello()
            dots = b".\r\n" * (limit // 3)
            assert (await client.send(dots)).startswith(b"250 ")
            assert (await client.send(dots + b"\r\n")).startswith(b"552 5.3.4 ")
            assert (await client.send(b"x" * 100_000 + b"\r\n" + dots)).startswith(b"552 5.3.4 ")
            assert (await client.ask(b"MAIL FROM:<> SIZE=3001")).startswith(b"552 5.3.4 ")
            assert (await client.ask(b"MAIL FROM:<> SIZE=3000")).startswith(b"250 ")
            assert [each.size_bytes for each in home.booked()] == [limit]
            assert [a.answer[:9] for a in home.attempts()[1:4]] == ["552 5.3.4"] * 3

    run(story())


def test_without_a_limit_of_the_account_that_of_the_server_holds() -> None:
    async def story() -> None:
        async with house(limits=Limits(max_size_bytes=None), max_message_bytes=50) as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(b"x" * 60 + b"\r\n")).startswith(b"552 5.3.4 ")
            assert (await client.send(b"x" * 40 + b"\r\n")).startswith(b"250 ")

    run(story())


# --- senders that others wrote ----------------------------------------------------------------------


def _real_mail(size_bytes: int) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Jürgen <a@x.example>"
    mail["To"] = "b@y.example"
    mail["Subject"] = "Grüße"
    mail["Message-ID"] = "<one@x.example>"
    mail.set_content("Hello\n.a line with a dot\n..\n.\nend\n")
    mail.add_attachment(
        bytes(range(256)) * (size_bytes // 256), maintype="application", subtype="octet-stream"
    )
    # Else each rendering would get another one.
    mail.set_boundary("=frontier=")
    return mail


def test_smtplib_hands_over_ten_megabytes() -> None:
    async def story() -> None:
        mail = _real_mail(10 * 1024 * 1024)

        async with house(accounts=("shop",)) as home:

            def send() -> None:
                with smtplib.SMTP(
                    "127.0.0.1", home.port, local_hostname="c.example", timeout=DEADLINE_S
                ) as smtp:
                    smtp.login("shop", "secret")
                    assert smtp.send_message(mail) == {}

            await asyncio.to_thread(send)
            (raw,) = _raws(home)
            expected = mail.as_bytes(policy=mail.policy.clone(linesep="\r\n"))
            assert raw == expected
            assert home.booked("shop")[0].message_id == "<one@x.example>"
            assert home.booked("shop")[0].subject == "Grüße"

    run(story())


def test_aiosmtplib_sends_two_mails_over_one_connection() -> None:
    async def story() -> None:
        async with house(accounts=("shop",)) as home:
            async with aiosmtplib.SMTP(
                hostname="127.0.0.1", port=home.port, username="shop", password="x", start_tls=False
            ) as smtp:
                for _ in range(2):
                    refused, reply = await smtp.send_message(_real_mail(1_000))
                    assert refused == {}
                    assert reply.startswith("2.0.0 OK")
            attempts = await home.closed("shop")
            assert len(home.booked("shop")) == 2
            assert len({a.connection for a in attempts}) == 1

    run(story())


# --- broken connections -----------------------------------------------------------------------------

SESSION = (
    b"EHLO c.example\r\n" + PLAIN + b"\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\n"
    b"DATA\r\nSubject: x\r\n\r\n..dot\r\n.\r\nQUIT\r\n"
)


def test_a_session_may_end_at_any_byte(caplog: pytest.LogCaptureFixture) -> None:
    """FIN after n bytes: the mail is booked if its final dot was among them; no trace, and no attempt stays open."""
    dot = SESSION.index(b"\r\n.\r\n") + len(b"\r\n.\r\n")

    async def story() -> None:
        async with house() as home:
            for end in range(len(SESSION) + 1):
                before = len(home.booked())
                client = await Client.connect(home.port)
                await client.say(SESSION[:end])
                client.half_close()
                await client.rest()
                client.sock.close()
                assert len(home.booked()) - before == (1 if end >= dot else 0), end
            await home.closed()

    run(story())
    assert caplog.text == ""


def test_a_session_may_break_at_any_byte(caplog: pytest.LogCaptureFixture) -> None:
    """RST after n bytes: no trace, no attempt stays open, and the next sender is served."""

    async def story() -> None:
        async with house() as home:
            for end in range(len(SESSION) + 1):
                client = await Client.connect(home.port)
                await client.say(SESSION[:end])
                client.break_line()
            client = await home.client()
            await client.hello()
            assert (await client.send(RAW)).startswith(b"250 ")
            await client.ask(b"QUIT")
            await home.closed()

    run(story())
    assert caplog.text == ""


def test_a_line_broken_within_the_mail_books_nothing() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(b"Subject: x\r\n\r\n" + b"x" * 100_000)
            client.break_line()
            (attempt,) = await home.closed()
            assert home.booked() == []
            assert (attempt.sent, attempt.answer) == (Sent.NOTHING, "no answer: the connection ended")

    run(story())


# --- stopping ---------------------------------------------------------------------------------------


def test_neither_a_hang_nor_a_held_answer_keeps_the_server_from_stopping() -> None:
    async def story() -> None:
        for fault in (HangThere(), HoldTheAnswer()):
            async with house(rule(fault, "message")) as home:
                client = await home.client()
                await client.hello()
                for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                    await client.ask(command)
                await client.say(RAW + b".\r\n")
                await home.moves.until(lambda home=home: home.attempts()[0].rules != ())  # type: ignore[misc]
                # Far beyond the deadline of this test: only a stop that does not wait comes back.
                await home.server.stop(DEADLINE_S * 10)
                assert home.server.connections == 0
                assert home.booked() == []
                (attempt,) = home.attempts()
                assert attempt.state is AttemptState.CLOSED
                assert attempt.answer == (
                    "hang" if fault.name == "hang" else "no answer: the connection ended"
                )

    run(story())


def test_stopping_lets_a_mail_under_way_have_its_answer() -> None:
    async def story() -> None:
        committing, durable = asyncio.Event(), asyncio.Event()

        async def commit() -> None:
            committing.set()
            await durable.wait()

        async with house(commit=commit) as home:
            idle, busy = await home.client(), await home.client()
            await idle.hello()
            await busy.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await busy.ask(command)
            await busy.say(RAW + b".\r\n")
            await committing.wait()
            stopping = asyncio.ensure_future(home.server.stop(DEADLINE_S))
            assert (await idle.rest()).startswith(b"421 4.3.2 ")
            durable.set()
            assert [line[:9] for line in (await busy.rest()).splitlines()] == [b"250 2.0.0", b"421 4.3.2"]
            await stopping

    run(story())


def test_an_idle_sender_is_told_and_left() -> None:
    async def story() -> None:
        async with house(idle_timeout_s=0.0) as home:
            client = await home.client()
            assert [line[:4] for line in (await client.rest()).splitlines()] == [b"220 ", b"421 "]
            await home.closed()

    run(story())


def test_connections_are_counted() -> None:
    async def story() -> None:
        async with house() as home:
            clients = [await home.client() for _ in range(3)]
            for client in clients:
                await client.hello()
            assert home.server.connections == 3
            for client in clients:
                await client.ask(b"QUIT")
                assert await client.rest() == b""
            assert home.server.connections_ever == 3

    run(story())


def test_a_port_in_use_is_an_error_of_the_caller() -> None:
    async def story() -> None:
        async with house() as home:
            other = SmtpServer(
                home.provider, home.server.wire, no_commit, home.moves, home.clock, hostname="mx.example"
            )
            with pytest.raises(OSError, match="address already in use"):
                await other.start("127.0.0.1", home.port)
            await other.stop(0.0)

    run(story())
