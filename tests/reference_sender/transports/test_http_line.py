"""One connection against servers that answer oddly: what counts as the answer, and whether another may be asked."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from reference_sender.policy.evidence import Phase
from reference_sender.transports.http_line import Answer, Broken, Line, Progress
from tests.reference_sender.transports.test_http import answer, read_request, saying
from tests.reference_sender.transports.wires import Script, for_ever, serving

T = TypeVar("T")

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
OK = answer(200, b'{"id": "m1"}')
LARGE = b"x" * 20_000_000


def on_a_line(script: Script, act: Callable[[Line], Awaitable[T]]) -> T:
    async def run() -> T:
        async with serving(script) as port:
            _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", port)
            try:
                return await act(line)
            finally:
                line.close()

    return asyncio.run(asyncio.wait_for(run(), 20))


async def ask(line: Line, body: bytes = b"{}", progress: Progress | None = None, **times: float) -> Answer:
    now_s = asyncio.get_running_loop().time()
    given = {"deadline_s": now_s + 10.0, "read_timeout_s": 5.0} | times
    return await line.ask(HEAD % len(body), body, progress or Progress(), **given)


def staying(data: bytes) -> Script:
    """Says it and stays."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(data)
        await for_ever()

    return script


async def ask_and_look(line: Line) -> tuple[Answer, bool]:
    """The answer, and whether another question may follow."""
    told = await ask(line)
    await asyncio.sleep(0)
    return told, line.is_good


def test_a_whole_answer_has_its_fields_as_they_came() -> None:
    told, is_good = on_a_line(staying(answer(202, b"{}", headers="X-Some: A\r\nx-some: b\r\n")), ask_and_look)
    assert (told.status, told.body, is_good) == (202, b"{}", True)
    assert told.headers[1:] == [("X-Some", "A"), ("x-some", "b")]
    assert (told.header("x-some"), told.header("missing")) == ("A", None)


def test_an_interim_answer_is_followed_by_the_final_one() -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    told, is_good = on_a_line(staying(early + OK), ask_and_look)
    assert (told.status, told.header("link"), is_good) == (200, None, True)


def test_whoever_switches_protocols_has_answered_for_the_last_time() -> None:
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nwhatever"
    told, is_good = on_a_line(staying(switch), ask_and_look)
    assert (told.status, is_good) == (101, False)


def test_without_a_length_an_answer_ends_with_its_line() -> None:
    told, is_good = on_a_line(
        saying(b"HTTP/1.1 200 OK\r\n\r\nall of it", lambda writer: writer.close()), ask_and_look
    )
    assert (told.body, is_good) == (b"all of it", False)


@pytest.mark.parametrize("more", [OK, b"rubbish\r\n\r\n"], ids=["another answer", "rubbish"])
@pytest.mark.parametrize("closes", ["", "Connection: close\r\n"], ids=["stays", "closes"])
def test_what_comes_behind_an_answer_spoils_the_line_and_not_the_answer(more: bytes, closes: str) -> None:
    told, is_good = on_a_line(staying(answer(200, b"{}", headers=closes) + more), ask_and_look)
    assert (told.status, told.body, is_good) == (200, b"{}", False)


def test_what_nobody_asked_for_spoils_the_line() -> None:
    asked = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await asked.wait()
        writer.write(OK)
        await for_ever()

    async def act(line: Line) -> None:
        await ask(line)
        assert line.is_good
        asked.set()
        while line.is_good:  # noqa: ASYNC110 # the line tells nobody
            await asyncio.sleep(0.001)
        with pytest.raises(Broken) as told:
            await ask(line, progress=(progress := Progress(phase=Phase.BODY)))
        # Nothing of it has left, and the phase says so.
        assert (told.value.trouble, progress.phase) == ("eof", Phase.BODY)

    on_a_line(script, act)


PACKED = gzip.compress(b'{"id": "m1"}')


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", PACKED),
        ("X-Gzip", PACKED),
        ("deflate", zlib.compress(b'{"id": "m1"}')),
        ("br", b'{"id": "m1"}'),
    ],
    ids=["gzip", "its other name", "deflate", "one that nobody knows"],
)
def test_a_packed_answer_is_unpacked(coding: str, body: bytes) -> None:
    told = on_a_line(saying(answer(200, body, headers=f"Content-Encoding: {coding}\r\n")), ask)
    assert told.body == b'{"id": "m1"}'


def test_what_was_cut_off_while_it_was_packed_is_read_as_far_as_it_goes() -> None:
    told = on_a_line(saying(answer(200, PACKED[:14], headers="Content-Encoding: gzip\r\n")), ask)
    assert told.body == zlib.decompressobj(wbits=31).decompress(PACKED[:14])


@pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(b"x" * 2_000_000)], ids=["junk", "bomb"])
def test_an_answer_that_cannot_be_unpacked_is_none(body: bytes) -> None:
    with pytest.raises(Broken) as told:
        on_a_line(saying(answer(200, body, headers="Content-Encoding: gzip\r\n")), ask)
    assert told.value.trouble == "truncated"


def test_a_head_that_does_not_end_is_garbled() -> None:
    with pytest.raises(Broken) as told:
        on_a_line(saying(b"HTTP/1.1 200 OK\r\n" + b"X-Long: y\r\n" * 10_000), ask)
    assert told.value.trouble == "garbled"


def test_an_answer_before_the_whole_mail_has_left_is_the_answer() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(answer(413, b"{}"))
        await for_ever()

    async def act(line: Line) -> None:
        progress = Progress()
        told = await ask(line, LARGE, progress)
        assert (told.status, progress.phase, line.is_good) == (413, Phase.CONNECT, False)

    on_a_line(script, act)


def test_a_large_mail_waits_for_whoever_reads_slowly() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        left = int(head.lower().split(b"content-length:")[1].split()[0])
        while left:
            left -= len(await reader.read(1_000_000))
        writer.write(OK)

    async def act(line: Line) -> None:
        progress = Progress()
        assert (await ask(line, LARGE, progress)).status == 200
        assert (progress.phase, line.is_good) == (Phase.SENT, True)

    on_a_line(script, act)


def test_a_line_that_breaks_in_the_middle_of_a_mail_ends_the_waiting() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    with pytest.raises(Broken) as told:
        on_a_line(script, lambda line: ask(line, LARGE))
    assert told.value.trouble in {"reset", "eof"}


def test_every_piece_of_an_answer_begins_the_read_timeout_anew() -> None:
    """And the deadline ends it all the same."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer(200, b"", length=1_000_000))
        while True:
            await asyncio.sleep(0.03)
            writer.write(b" ")

    async def act(line: Line) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        with pytest.raises(TimeoutError):
            await ask(line, read_timeout_s=0.15, deadline_s=began_s + 0.4)
        assert loop.time() - began_s >= 0.4

    on_a_line(script, act)
