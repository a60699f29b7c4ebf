"""The body of a request: read within bounds of size and time, decoded, or refused in one sentence."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import Receive

from simulator.provider.answer import Reason, Refused, Reply

#: Larger request bodies are refused. A message of 29 MB fits, as base64 makes four bytes of three.
MAX_BODY_BYTES = 40 * 1024 * 1024
#: How much of a body that is too large is still read (and thrown away), so that the sender hears why.
DRAIN_BYTES = 4 * MAX_BODY_BYTES
#: How many members a gzip may have: what is behind each is copied, and the smallest are of twenty bytes.
MAX_GZIP_MEMBERS = 100
#: How long a sender may send nothing in the middle of a body, in seconds.
STALL_S = 30.0
#: How fast a body must come on the whole, once `STALL_S` have passed: slow-loris senders are seen out.
LEAST_BYTES_PER_S = 32 * 1024

_TOO_LARGE = Refused(
    reason=Reason.TOO_LARGE, detail=f"the request body may have {MAX_BODY_BYTES} bytes at most"
)
_TOO_SLOW = Reply(code=408, text="the request body came too slowly; send it faster or in smaller requests")


@dataclass(frozen=True, slots=True)
class Coding:
    """What a body says of its coding, and whether this service takes it."""

    name: str | None
    taken: bool

    @property
    def refusal(self) -> Reply | None:
        """RFC 9110, section 15.5.16: 415, with the codings that would be taken."""
        if self.name is None or (self.taken and self.name == "gzip"):
            return None
        known = "gzip, identity" if self.taken else "identity"
        return Reply(
            code=415,
            text=f"the request body has the content coding {self.name[:40]!r}; this service takes {known}",
            headers=(("Accept-Encoding", known),),
        )


def coding_of(headers: Mapping[bytes, bytes], *, takes_gzip: bool) -> Coding:
    """Read `Content-Encoding`."""
    name = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
    return Coding(None if name in ("", "identity") else {"x-gzip": "gzip"}.get(name, name), takes_gzip)


async def read_body(
    headers: Mapping[bytes, bytes], receive: Receive, *, is_here: bool = False
) -> bytes | Refused | Reply | None:
    """Read a request's body. None: the sender left. Never keeps more than the limit in memory.

    A refusal may come before the body has been read to its end; the connection cannot be used any more then.
    `is_here`: all of it has come already, so nobody needs to look at the clock.
    """
    declared = int(headers.get(b"content-length", b"0") or b"0")
    asks_first = headers.get(b"expect", b"").lower() == b"100-continue"
    if declared > DRAIN_BYTES or (declared > MAX_BODY_BYTES and asks_first):
        return (
            _TOO_LARGE  # Nobody has to send it first; who asked before sending hears it at the best moment.
        )
    kept, read = bytearray(), 0
    began = 0.0 if is_here else asyncio.get_running_loop().time()
    while True:
        if is_here:
            message = await receive()
        else:
            try:
                async with asyncio.timeout(STALL_S):
                    message = await receive()
            except TimeoutError:
                return _TOO_SLOW
        if message["type"] == "http.disconnect":
            return None
        piece: bytes = message.get("body", b"")
        read += len(piece)
        if max(read, declared) > MAX_BODY_BYTES:
            kept.clear()
        else:
            kept += piece
        if not message.get("more_body", False):
            return _TOO_LARGE if read > MAX_BODY_BYTES else bytes(kept)
        if read > DRAIN_BYTES:
            return _TOO_LARGE
        took_s = 0.0 if is_here else asyncio.get_running_loop().time() - began
        if read < (took_s - STALL_S) * LEAST_BYTES_PER_S:
            return _TOO_SLOW


def decoded(body: bytes, coding: Coding) -> bytes | Refused:
    """Undo the content coding; what it unfolds to has the same limit, whatever a bomb would like."""
    if coding.name is None:
        return body
    found = bytearray()
    for _ in range(MAX_GZIP_MEMBERS):
        if not body:
            return bytes(found)
        unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            found += unzip.decompress(body, MAX_BODY_BYTES + 1 - len(found))
        except zlib.error as problem:
            return Refused(reason=Reason.INVALID, detail=f"the request body is no gzip: {problem}")
        if len(found) > MAX_BODY_BYTES or unzip.unconsumed_tail:
            return _TOO_LARGE
        if not unzip.eof:
            return Refused(reason=Reason.INVALID, detail="the request body is gzip that breaks off")
        body = unzip.unused_data  # RFC 1952, section 2.2: members may follow each other.
    detail = f"the request body is gzip of more than {MAX_GZIP_MEMBERS} members"
    return Refused(reason=Reason.INVALID, detail=detail) if body else bytes(found)
