"""Odd forms of HTTP answers, as bytes: what is sound can be undone, what is not cannot."""

from __future__ import annotations

import gzip
import zlib

import pytest

from simulator.dialects.dress import BOMB_BYTES, dressed
from simulator.dialects.http import HttpWords, whole
from simulator.dialects.script import Script
from simulator.provider.dress import (
    Announced,
    Chunked,
    Chunks,
    Doubled,
    Dress,
    Dripped,
    Flaw,
    Gzipped,
    Odd,
    Shape,
)

BODY = b'{"id":"msg_1","status":"accepted","accepted":["a@x"]}'
OUT = HttpWords(status=200, headers=(("Content-Type", "application/json"),), body=BODY)


def other(code: int) -> HttpWords:
    return HttpWords(status=code, headers=(), body=b"other")


def play(dress: Dress, *, closes: bool = False) -> Script:
    return dressed(dress, OUT, [b"date: x"], closes=closes, say=other)


def parts(data: bytes) -> tuple[list[bytes], bytes]:
    head, _, body = data.partition(b"\r\n\r\n")
    return head.split(b"\r\n"), body


def unchunked(body: bytes) -> tuple[bytes, bytes]:
    """Return what is in the chunks, and what comes behind the last of them."""
    found = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        if int(size, 16) == 0:
            return found, body
        found, body = found + body[: int(size, 16)], body[int(size, 16) + 2 :]
    raise EOFError(found)


@pytest.mark.parametrize("flaw", Flaw)
def test_gzip(flaw: Flaw) -> None:
    (data,) = play(Gzipped(flaw=flaw)).pieces
    head, body = parts(data)

    assert b"content-encoding: gzip" in head
    assert b"content-length: %d" % len(body) in head
    match flaw:
        case Flaw.NONE:
            assert gzip.decompress(body) == BODY
        case Flaw.BOMB:
            assert len(body) < 64 * 1024
            assert len(gzip.decompress(body)) == BOMB_BYTES
            assert gzip.decompress(body).strip() == BODY
        case Flaw.CHECKSUM:
            assert zlib.decompressobj(wbits=-15).decompress(body[10:]) == BODY
            with pytest.raises(gzip.BadGzipFile, match="CRC"):
                gzip.decompress(body)
        case Flaw.CUT | Flaw.JUNK:
            with pytest.raises((EOFError, gzip.BadGzipFile)):
                gzip.decompress(body)


def test_the_same_answer_is_the_same_bytes() -> None:
    assert play(Gzipped()) == play(Gzipped())


@pytest.mark.parametrize("chunks", Chunks)
def test_chunked(chunks: Chunks) -> None:
    script = play(Chunked(chunks=chunks))
    (data,) = script.pieces
    head, body = parts(data)

    assert b"transfer-encoding: chunked" in head
    assert not any(line.startswith(b"content-length") for line in head)
    assert script.whole is (chunks in (Chunks.WHOLE, Chunks.TRAILER))
    match chunks:
        case Chunks.WHOLE:
            assert unchunked(body) == (BODY, b"\r\n")
        case Chunks.TRAILER:
            assert b"trailer: x-digest" in head
            assert unchunked(body) == (BODY, b"x-digest: none\r\n\r\n")
        case Chunks.UNFINISHED:
            with pytest.raises(EOFError) as caught:
                unchunked(body)
            assert caught.value.args == (BODY,)
        case Chunks.BAD_SIZE:
            with pytest.raises(ValueError, match="1z"):
                unchunked(body)


def test_dripped() -> None:
    script = play(Dripped(pause_s=0.1, size_bytes=3))

    assert b"".join(script.pieces) == whole(OUT, [b"date: x"])
    assert {len(piece) for piece in script.pieces[:-1]} == {3}
    assert script.pause_s == 0.1


def test_announced() -> None:
    (data,) = play(Announced(status=103)).pieces

    assert data == b"HTTP/1.1 103 Early Hints\r\n\r\n" + whole(OUT, [b"date: x"])


def test_doubled() -> None:
    (data,) = play(Doubled(code=500)).pieces

    assert data == whole(OUT, [b"date: x"]) + whole(other(500), [b"date: x"])


def test_odd_bodies_are_the_dialects_work() -> None:
    assert play(Odd(shape=Shape.HTML)).pieces == (whole(OUT, [b"date: x"]),)


@pytest.mark.parametrize(
    "dress", [Gzipped(), Chunked(), Dripped(pause_s=0, size_bytes=1000), Announced(status=100)]
)
def test_the_last_answer_says_so_in_any_form(dress: Dress) -> None:
    assert b"\r\nconnection: close\r\n" in b"".join(play(dress, closes=True).pieces)
