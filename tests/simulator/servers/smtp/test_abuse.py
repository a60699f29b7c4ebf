"""Senders that mean harm, or do it: memory and time stay bounded, the reply is right, and the others are served."""

from __future__ import annotations

import asyncio
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from simulator.provider.limits import Limits
from simulator.provider.message import HEADER_LIMIT_LINES
from simulator.provider.smtp import SmtpRules
from simulator.servers.tls import Tls
from tests.simulator.servers.smtp.dialogues import DATA, MAIL, RCPT
from tests.simulator.servers.smtp.house import RAW, Client, House, house, run

MIB = 1024 * 1024
#: What one abuser may cost: the inbox, a message up to its limit, and what the sockets hold.
BOUND_BYTES = 6 * MIB
#: CPU time of a reply to something monstrous, in seconds; generous, for a slow machine under load.
BOUND_CPU_S = 2.0


@asynccontextmanager
async def bounded(home: House) -> AsyncIterator[None]:
    """Hold that memory does not grow beyond the bound, and that somebody else is served meanwhile and afterwards."""
    other = await home.client()
    await other.hello()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < BOUND_BYTES
    assert (await other.send(RAW)).startswith(b"250 ")


async def to_data(home: House) -> Client:
    client = await home.client()
    await client.hello()
    await client.say(MAIL + RCPT + DATA)
    for code in (b"250", b"250", b"354"):
        assert (await client.reply()).startswith(code)
    return client


async def stream(client: Client, size_bytes: int, piece: bytes = b"x" * 65_536) -> None:
    for _ in range(size_bytes // len(piece)):
        await client.say(piece)


def test_an_endless_command_line() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.reply()
            async with bounded(home):
                await stream(client, 20 * MIB)
                assert (await client.ask(b"")).startswith(b"500 5.5.2 the command line is too long")
                assert (await client.ask(b"NOOP")).startswith(b"250 ")

    run(story())


@pytest.mark.parametrize(
    "piece",
    [b"x" * 65_536, b"a line\r\n" * 8_192, b"..\r\n" * 16_384],
    ids=["one line", "lines", "dots"],
)
def test_an_endless_message(piece: bytes) -> None:
    """Thrown away while it comes in, refused once at its end."""

    async def story() -> None:
        async with house(limits=Limits(max_size_bytes=MIB)) as home:
            client = await to_data(home)
            async with bounded(home):
                await stream(client, 20 * MIB, piece)
                assert (await client.ask(b"\r\n.")).startswith(b"552 5.3.4 ")
                assert (await client.ask(b"NOOP")).startswith(b"250 ")
            assert len(home.booked()) == 1

    run(story())


def test_an_endless_chunk() -> None:
    async def story() -> None:
        async with house(limits=Limits(max_size_bytes=MIB)) as home:
            client = await home.client()
            await client.hello()
            await client.say(MAIL + RCPT + b"BDAT 999999999999 LAST\r\n")
            async with bounded(home):
                await stream(client, 20 * MIB)
                client.half_close()
                assert [line[:4] for line in (await client.rest()).splitlines()] == [b"250 ", b"250 "]
            assert len(home.booked()) == 1

    run(story())


def test_a_gigabyte_that_is_declared() -> None:
    """Refused before it comes; a chunk that is not refused is swallowed."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            async with bounded(home):
                assert (await client.ask(b"MAIL FROM:<> SIZE=1073741824")).startswith(b"552 5.3.4 ")
                assert (await client.ask(b"MAIL FROM:<> SIZE=99999999999999999999")).startswith(b"552 5.3.4 ")
                assert (await client.ask(b"MAIL FROM:<> SIZE=999999999999999999999")).startswith(b"501 ")

    run(story())


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            b"".join(
                b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(64)
            ),
            id="64 levels of MIME",
        ),
        pytest.param(b"a:b\r\n" * 200_000 + b"\r\n", id="200,000 headers"),
        pytest.param(b"Subject: x\r\n" + b" y\r\n" * 200_000 + b"\r\n", id="a header of 200,000 lines"),
        pytest.param(b"Subject: " + b"x" * MIB + b"\r\n\r\n", id="a subject of a megabyte"),
        pytest.param(b"Subject: " + b"=?utf-8?B?w7w=?= " * 15_000 + b"\r\n\r\n", id="15,000 encoded words"),
        pytest.param(b"Subject: " + b"=?" * 100_000 + b"\r\n\r\n", id="encoded words that are none"),
        pytest.param(b"X: \xff\xfe\xed\xa0\x80\r\nSubject: \x80\r\n\r\n\xc3\x28\r\n", id="no UTF-8 anywhere"),
        pytest.param(b"no colon\r\n" * 100_000, id="100,000 lines without a colon"),
    ],
)
def test_a_monstrous_mail_is_taken_in_no_time(raw: bytes) -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            began = time.process_time()
            assert (await client.send(raw)).startswith(b"250 ")
            assert time.process_time() - began < BOUND_CPU_S
            (booked,) = home.booked()
            assert booked.size_bytes == len(raw)
            assert len(booked.headers) <= HEADER_LIMIT_LINES
            assert len(booked.subject) <= 4_000

    run(story())


def test_invalid_utf8_and_nul_in_every_command() -> None:
    """Some reply, never a trace, and the session goes on."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for verb in (
                b"EHLO",
                b"HELO",
                b"MAIL",
                b"RCPT",
                b"AUTH",
                b"VRFY",
                b"NOOP",
                b"HELP",
                b"RSET",
                b"\xff",
            ):
                for arg in (b"\xff\xfe", b"FROM:<\xff@x.example>", b"\0", b"\xed\xa0\x80", b"PLAIN \xff=="):
                    reply = await client.ask(verb + b" " + arg)
                    assert reply[:1] in b"25", (verb, arg, reply)
                    reply.decode("ascii")
            assert (await client.ask(b"NOOP")).startswith(b"250 ")

    run(story())


async def _left(home: House, says: Callable[[Client], Awaitable[None]], rules: SmtpRules) -> bytes:
    """Let a sender be slow until it is left; return the last words."""
    client = await home.client()
    await client.hello()
    await says(client)
    # The server has read what was said when it answers somebody who came later.
    await (await home.client()).hello()
    home.clock.time_s += max(rules.idle_timeout_s or 0.0, rules.message_timeout_s or 0.0) + 1.0
    return await client.rest()


def test_a_slow_loris_in_a_command_is_left() -> None:
    """An octet now and then is not enough: the limit is for the whole command."""

    async def story() -> None:
        rules = SmtpRules(idle_timeout_s=0.01, message_timeout_s=None)
        async with house(smtp=rules) as home:

            async def says(client: Client) -> None:
                for octet in b"NOO":
                    await client.say(bytes([octet]))

            assert (await _left(home, says, rules)).startswith(b"421 4.4.2 ")

    run(story())


def test_a_slow_loris_in_a_message_is_left() -> None:
    """Each piece comes in time, the whole does not."""

    async def story() -> None:
        rules = SmtpRules(idle_timeout_s=None, message_timeout_s=0.01)
        async with house(smtp=rules) as home:

            async def says(client: Client) -> None:
                await client.say(MAIL + RCPT + DATA)
                for _ in range(3):
                    await client.reply()
                await client.say(b"Subject: x\r\n\r\nslow")

            assert (await _left(home, says, rules)).startswith(b"421 4.4.2 ")
            assert home.booked() == []
            assert home.attempts()[0].answer == "no answer: the connection ended"

    run(story())


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("says", [b"NOOP\r\n", b"HELP\r\n", b"nonsense\r\nNOOP\r\n"])
@pytest.mark.parametrize("secure", [False, True])
def test_who_never_reads_a_reply_is_left(tls: Tls, short: bool, says: bytes, secure: bool) -> None:
    """It may say much and hears nothing: it is held back, costs no memory without end, and is cut off after its time."""

    async def story() -> None:
        rules = SmtpRules(idle_timeout_s=0.2, message_timeout_s=None)
        async with house(smtp=rules, short=short, tls=tls) as home:
            for listener in home.server._listeners:
                # What is accepted there has as small a buffer.
                listener.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            async with bounded(home):
                client = await deaf(home, tls if secure else None)
                with pytest.raises(ConnectionError):
                    await stream(client, 200 * MIB, says * (65_536 // len(says)))

    run(story())


async def deaf(home: House, tls: Tls | None) -> Client:
    """Return a client whose kernel takes hardly anything that it does not read."""
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", home.tls_port if tls else home.port))
    client = Client(sock)
    home.clients.append(client)
    if tls is not None:
        await client.secure(tls)
    await client.hello()
    return client


def test_who_reads_slowly_is_not_left() -> None:
    """Now and then a little is enough."""

    async def story() -> None:
        rules = SmtpRules(idle_timeout_s=0.2, message_timeout_s=None)
        async with house(smtp=rules) as home:
            (listener,) = home.server._listeners
            listener.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            client = await deaf(home, None)
            saying = asyncio.create_task(stream(client, MIB, b"HELP\r\n" * 1_000))
            heard = 0
            while heard < 3 * MIB:
                piece = await asyncio.get_running_loop().sock_recv(client.sock, 1_024)
                assert piece, "it was left"
                heard += len(piece)
            saying.cancel()

    run(story())


def test_a_thousand_idle_connections() -> None:
    """They cost little, nobody else notices, and when they are gone nothing of them is left."""

    async def story() -> None:
        async with house() as home:
            number = 1_000
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                clients = [await home.client() for _ in range(number)]
                for client in clients:
                    assert (await client.reply()).startswith(b"220 ")
                now, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert home.server.connections == number
            assert (now - before) / number < 24 * 1024
            other = await home.client()
            await other.hello()
            began = time.process_time()
            assert (await other.send(RAW)).startswith(b"250 ")
            assert time.process_time() - began < BOUND_CPU_S
            for client in clients:
                client.break_line()
            assert (await other.send(RAW)).startswith(b"250 ")
            # That nothing is left of them is held by the house.

    run(story())
