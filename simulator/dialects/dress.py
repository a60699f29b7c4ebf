"""HTTP answers in odd forms, as bytes (`simulator.provider.dress`). Knows no JSON: what is odd in a body is said by
the dialect before it gets here.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from typing import assert_never

from simulator.dialects.http import HttpWords, head, part_of, whole
from simulator.dialects.script import Script, in_pieces
from simulator.provider.dress import (
    Announced,
    Chunked,
    Chunks,
    Doubled,
    Dress,
    Dripped,
    Flaw,
    Gzipped,
    Listed,
    Odd,
)

#: What a gzip bomb unfolds to.
BOMB_BYTES = 16 * 1024 * 1024
#: Chunks are small, so that every client has to put some together.
CHUNK_BYTES = 16


def dressed(
    dress: Dress,
    out: HttpWords,
    fields: Sequence[bytes],
    *,
    closes: bool,
    say: Callable[[int], HttpWords],
) -> Script:
    """Return the script of an answer in this form. `say`: what an answer of that status looks like in the dialect."""
    plain = whole(out, fields, closes=closes)
    match dress:
        case Gzipped(flaw=flaw):
            return Script(pieces=(whole(_gzipped(out, flaw), fields, closes=closes),))
        case Chunked(chunks=chunks):
            return _chunked(out, chunks, fields, closes=closes)
        case Dripped(pause_s=pause_s, size_bytes=size_bytes):
            return in_pieces(plain, size_bytes, pause_s)
        case Announced(status=status):
            return Script(pieces=(head(status, (), ()) + plain,))
        case Doubled(code=code):
            return Script(pieces=(plain + whole(say(500 if code is None else code), fields),))
        case Odd() | Listed():
            return Script(pieces=(plain,))
        case _:
            assert_never(dress)


def _gzipped(out: HttpWords, flaw: Flaw) -> HttpWords:
    body = out.body
    # Without a time of its own: the same answer is the same bytes.
    packed = gzip.compress(body, mtime=0)
    match flaw:
        case Flaw.NONE:
            body = packed
        case Flaw.CUT:
            body = part_of(packed)
        case Flaw.CHECKSUM:
            body = packed[:-8] + bytes(byte ^ 0xFF for byte in packed[-8:-4]) + packed[-4:]
        case Flaw.JUNK:
            pass
        case Flaw.BOMB:
            # White space behind JSON is JSON (RFC 8259, section 2).
            body = gzip.compress(body + b" " * (BOMB_BYTES - len(body)), mtime=0)
        case _:
            assert_never(flaw)
    headers = (*out.headers, ("Content-Encoding", "gzip"))
    return HttpWords(status=out.status, headers=headers, body=body)


def _chunked(out: HttpWords, chunks: Chunks, fields: Sequence[bytes], *, closes: bool) -> Script:
    parts = [out.body[start : start + CHUNK_BYTES] for start in range(0, len(out.body), CHUNK_BYTES)]
    framed = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
    framing = [*fields, b"transfer-encoding: chunked"]
    end = b"0\r\n\r\n"
    match chunks:
        case Chunks.WHOLE:
            pass
        case Chunks.TRAILER:
            framing.append(b"trailer: x-digest")
            end = b"0\r\nx-digest: none\r\n\r\n"
        case Chunks.UNFINISHED:
            end = b""
        case Chunks.BAD_SIZE:
            framed[1:] = [b"1z\r\n" + part_of(out.body) + b"\r\n"]
            end = b""
        case _:
            assert_never(chunks)
    start = head(out.status, out.headers, framing, closes=closes)
    return Script(pieces=(start + b"".join(framed) + end,), whole=bool(end))
