"""Tests of the network: the kernel's rules, in virtual time."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator

import pytest

from scenarios.simulation.loop import VirtualLoop, running_in
from scenarios.simulation.network import Network
from scenarios.simulation.processes import CrashPoint, Killed, Process

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with running_in(VirtualLoop()) as loop:
        Network(loop)
        yield loop


async def _server(handler: Handler, port: int = 80) -> None:
    await asyncio.start_server(handler, "10.0.0.1", port)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_bytes_go_there_and_back(loop: VirtualLoop) -> None:
    """Streams work unmodified, and time does not pass for it."""

    async def main() -> bytes:
        await _server(_echo)
        reader, writer = await asyncio.open_connection("10.0.0.1", 80)
        writer.write(b"hello")
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    assert loop.run_until_complete(main()) == b"hello"
    assert loop.time() == 0.0


def test_a_large_body_obeys_back_pressure(loop: VirtualLoop) -> None:
    """More than any buffer holds arrives whole and in order."""
    body = bytes(range(256)) * 8192

    async def main() -> bytes:
        await _server(_echo)
        reader, writer = await asyncio.open_connection("10.0.0.1", 80)

        async def send() -> None:
            writer.write(body)
            await writer.drain()
            writer.write_eof()

        sending = asyncio.create_task(send())
        answer = await reader.read()
        await sending
        writer.close()
        return answer

    assert loop.run_until_complete(main()) == body


def test_latency_is_virtual_time(loop: VirtualLoop) -> None:
    """A round trip costs the handshake's and the data's way."""
    loop.network.weather.latency_s = 0.5

    async def main() -> None:
        await _server(_echo)
        reader, writer = await asyncio.open_connection("10.0.0.1", 80)
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        writer.close()

    loop.run_until_complete(main())
    assert loop.time() == pytest.approx(2.0)


def test_nobody_listening_refuses(loop: VirtualLoop) -> None:
    """A connect to a closed port is refused at once."""

    async def main() -> None:
        await asyncio.open_connection("10.0.0.1", 81)

    with pytest.raises(ConnectionRefusedError):
        loop.run_until_complete(main())


def test_an_unknown_name_is_not_resolved(loop: VirtualLoop) -> None:
    """The table of names is the whole DNS."""

    async def main() -> None:
        await asyncio.open_connection("nowhere.example", 80)

    with pytest.raises(socket.gaierror):
        loop.run_until_complete(main())


def _linger(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("how", ["linger", "unread"])
def test_rst_reaches_the_peer(loop: VirtualLoop, how: str) -> None:
    """SO_LINGER 0 and closing with unread input both break the line."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if how == "linger":
            await reader.read(1)
            _linger(writer)
        else:
            writer.transport.pause_reading()  # type: ignore[attr-defined] # a read transport
            await asyncio.sleep(1)
        writer.transport.abort()

    async def main() -> None:
        await _server(handler)
        reader, writer = await asyncio.open_connection("10.0.0.1", 80)
        writer.write(b"question")
        try:
            await reader.read()
        finally:
            writer.close()

    with pytest.raises(ConnectionResetError) as caught:
        loop.run_until_complete(main())
    assert caught.value.errno == errno.ECONNRESET


def test_fin_comes_after_the_bytes_before_it(loop: VirtualLoop) -> None:
    """An orderly close loses nothing."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"25")
        writer.close()

    async def main() -> bytes:
        await _server(handler)
        reader, writer = await asyncio.open_connection("10.0.0.1", 80)
        answer = await reader.read()
        writer.close()
        return answer

    assert loop.run_until_complete(main()) == b"25"


def test_a_partition_delays_and_heals(loop: VirtualLoop) -> None:
    """What was written during a partition arrives after it, in order."""

    async def main() -> bytes:
        await _server(_echo)
        reader, writer = await asyncio.open_connection("10.0.0.1", 80)
        loop.network.weather.partitioned = True
        writer.write(b"a")
        writer.write(b"b")
        loop.call_later(60, loop.network.heal)
        answer = await reader.readexactly(2)
        writer.close()
        return answer

    assert loop.run_until_complete(main()) == b"ab"
    assert loop.time() == pytest.approx(60)


def test_a_killed_process_closes_its_connections(loop: VirtualLoop) -> None:
    """The peer of a killed client reads end of file, and no code of the client runs again."""
    ran: list[str] = []

    async def main() -> bytes:
        seen: asyncio.Future[bytes] = loop.create_future()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.set_result(await reader.read())
            writer.close()

        await _server(handler)

        async def client() -> None:
            try:
                _, writer = await asyncio.open_connection("10.0.0.1", 80)
                writer.write(b"half a requ")
                await asyncio.sleep(100)
            finally:
                ran.append("finally")

        process = Process(loop, "client")
        process.spawn(client)
        loop.call_later(1, process.kill)
        return await seen

    assert loop.run_until_complete(main()) == b"half a requ"
    assert ran == []


def test_tls_works_over_it(loop: VirtualLoop, tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    """The real handshake runs over the in-memory connection."""
    server_side, client_side = tls

    async def main() -> bytes:
        await asyncio.start_server(_echo, "10.0.0.1", 443, ssl=server_side)
        reader, writer = await asyncio.open_connection(
            "10.0.0.1", 443, ssl=client_side, server_hostname="provider.example"
        )
        writer.write(b"secret")
        answer = await reader.readexactly(6)
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(1)
        return answer

    assert loop.run_until_complete(main()) == b"secret"
    assert not any(b"secret" in wired.data for wired in loop.network.seen)


def test_a_connect_that_is_given_up_leaves_no_open_line(loop: VirtualLoop) -> None:
    """Cancelled when the other side has accepted already: it is closed, as asyncio does, and the server sees it."""
    ends: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append("accepted")
        assert await reader.read() == b""
        ends.append("closed")
        writer.close()

    async def main() -> None:
        await _server(serve)
        connecting = asyncio.ensure_future(asyncio.open_connection("10.0.0.1", 80))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        assert connecting.cancelled()
        await asyncio.sleep(1)

    loop.run_until_complete(main())

    assert ends == ["accepted", "closed"]


def test_who_was_killed_in_the_middle_of_a_call_reaches_nobody(loop: VirtualLoop) -> None:
    """Its `finally` may run to the next await, but it neither dials nor listens."""
    process = Process(loop, "victim")
    tried: list[str] = []

    async def dial() -> None:
        try:
            process.kill()
        finally:
            with pytest.raises(Killed):
                await asyncio.open_connection("10.0.0.1", 80)
            with pytest.raises(Killed):
                await loop.create_server(asyncio.Protocol, "10.0.0.9", 80)
            tried.append("both")

    async def main() -> None:
        await _server(_echo)
        process.spawn(dial)
        await asyncio.sleep(1)

    loop.run_until_complete(main())

    assert tried == ["both"]
    assert loop.network.seen == []


@pytest.mark.parametrize(
    ("name", "heard"), [("unread", b""), ("partial", b"250 t"), ("whole", b"250 the mail\r\n")]
)
def test_an_answer_is_a_crash_point(loop: VirtualLoop, name: str, heard: bytes) -> None:
    """Who reads it may die before, in the middle of its first line, and after it."""
    told = bytearray()

    class Client(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            told.extend(data)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"250 the mail\r\n")
        await reader.read()
        writer.close()

    async def main() -> None:
        await _server(answer)
        victim = Process(loop, "victim", crash=CrashPoint("reply", name, 1))

        async def live() -> None:
            await loop.create_connection(Client, "10.0.0.1", 80)
            await asyncio.sleep(60)

        victim.spawn(live)
        await asyncio.sleep(1)
        assert victim.dead

    loop.set_exception_handler(lambda _loop, context: None)
    loop.run_until_complete(main())

    assert bytes(told[: len(heard)]) == heard
    assert len(told) == len(heard) or name == "partial"
    assert not told.endswith(b"\n") or name == "whole"
