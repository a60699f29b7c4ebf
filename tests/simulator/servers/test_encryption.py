"""TLS over a transport: what goes in comes out, however the bytes are cut, and its end is the raw line's end."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.servers.encryption import Encryption
from simulator.servers.tls import Tls, TlsOptions


class Raw(asyncio.Transport):
    """A raw line that remembers what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.done: list[str] = []

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return bool(self.done)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.done.append("eof")

    def close(self) -> None:
        self.done.append("close")

    def abort(self) -> None:
        self.done.append("abort")

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("192.0.2.1", 1)}.get(name, default)


class Line:
    """Both ends of a line: ours is under test, the other one is OpenSSL's."""

    def __init__(self, tls: Tls) -> None:
        self.raw = Raw()
        self.heard = bytearray()
        self.ends = 0
        self.ours = Encryption(self.raw, tls.context(), self.heard.extend, self.over)
        self.into, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context(cafile=tls.ca_file)
        self.theirs = client.wrap_bio(self.into, self.out, server_hostname="localhost")

    def over(self) -> None:
        self.ends += 1

    def carry(self, piece: int = 1 << 20) -> None:
        """Bring to us what they have said, in pieces."""
        data = self.out.read()
        for start in range(0, len(data), piece):
            self.ours.feed(data[start : start + piece])
        self.into.write(bytes(self.raw.written))
        self.raw.written.clear()

    def shake(self, piece: int = 1 << 20) -> None:
        for _ in range(4):
            try:
                self.theirs.do_handshake()
            except ssl.SSLWantReadError:
                pass
            self.carry(piece)
        assert self.ours.shaken.result() is None


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(TlsOptions(folder=tmp_path_factory.mktemp("tls")), names=(), now=datetime.now(UTC))


@settings(max_examples=20, deadline=None)
@given(said=st.lists(st.binary(min_size=1, max_size=300), max_size=5), piece=st.integers(1, 400))
def test_what_goes_in_comes_out_however_it_is_cut(tls: Tls, said: list[bytes], piece: int) -> None:
    async def story() -> None:
        line = Line(tls)
        line.shake(piece)
        for each in said:
            line.theirs.write(each)
        line.carry(piece)
        assert bytes(line.heard) == b"".join(said)
        line.ours.write(b"250 OK\r\n")
        line.carry()
        assert line.theirs.read(100) == b"250 OK\r\n"

    asyncio.run(story())


def test_what_comes_with_the_end_of_the_handshake_is_not_lost(tls: Tls) -> None:
    async def story() -> None:
        line = Line(tls)
        for _ in range(2):
            try:
                line.theirs.do_handshake()
            except ssl.SSLWantReadError:
                line.carry()
        line.theirs.write(b"EHLO c.example\r\n")
        line.carry()
        assert bytes(line.heard) == b"EHLO c.example\r\n"

    asyncio.run(story())


def test_an_end_that_is_said_is_heard(tls: Tls) -> None:
    """close_notify without FIN, once, and after what was said before it; there may still be something to say."""

    async def story() -> None:
        line = Line(tls)
        line.shake()
        line.theirs.write(b"QUIT\r\n")
        with pytest.raises(ssl.SSLWantReadError):
            line.theirs.unwrap()
        line.carry()
        assert (bytes(line.heard), line.ends, line.raw.done) == (b"QUIT\r\n", 1, [])
        line.ours.feed(b"")
        assert line.ends == 1
        line.ours.write_eof()
        line.into.write(bytes(line.raw.written))
        line.theirs.unwrap()

    asyncio.run(story())


def test_the_end_is_said_before_it_comes(tls: Tls) -> None:
    """close_notify, then FIN or close; an abort says nothing."""

    async def story() -> None:
        for end, done in (
            (Encryption.write_eof, "eof"),
            (Encryption.close, "close"),
            (Encryption.abort, "abort"),
        ):
            line = Line(tls)
            line.shake()
            end(line.ours)
            assert line.raw.done == [done]
            line.into.write(bytes(line.raw.written))
            if done == "abort":
                with pytest.raises(ssl.SSLWantReadError):
                    line.theirs.read(1)
            else:
                assert line.theirs.read(1) == b""

    asyncio.run(story())


def test_a_broken_handshake_is_an_error_and_sends_its_alert(tls: Tls) -> None:
    async def story() -> None:
        line = Line(tls)
        line.ours.feed(b"\x16\x03\x01\x00\x05hello")
        with pytest.raises(ssl.SSLError):
            await line.ours.shaken
        assert line.raw.written[:1] == b"\x15"
        line.ours.feed(b"more of it")
        assert not line.heard

    asyncio.run(story())


def test_a_line_that_ends_within_the_handshake(tls: Tls) -> None:
    async def story() -> None:
        line = Line(tls)
        line.ours.ended()
        with pytest.raises(ConnectionResetError):
            await line.ours.shaken

    asyncio.run(story())


def test_garbage_after_the_handshake_breaks_the_line(tls: Tls) -> None:
    async def story() -> None:
        line = Line(tls)
        line.shake()
        line.ours.feed(b"EHLO c.example\r\n")
        assert line.raw.done == ["abort"]

    asyncio.run(story())


def test_what_else_is_asked_of_it_is_asked_of_the_raw_line(tls: Tls) -> None:
    async def story() -> None:
        line = Line(tls)
        assert line.ours.get_extra_info("peername") == ("192.0.2.1", 1)
        assert line.ours.get_extra_info("ssl_object") is not None
        assert line.ours.can_write_eof()
        assert not line.ours.is_closing()
        assert line.ours.get_write_buffer_size() == 0

    asyncio.run(story())
