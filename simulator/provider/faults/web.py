"""The faults that only HTTP has: forms of an answer, answers of somebody in between, and what is said before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simulator.provider.answer import Answer, Dressed, KeepExpecting, Reply, RetryAfter
from simulator.provider.dress import (
    Announced,
    Chunked,
    Chunks,
    Flaw,
    Gzipped,
    Listed,
    Listing,
    Odd,
    Shape,
)
from simulator.provider.faults.stages import Stages

#: Where an answer with words is due that something true stands behind.
_TRUE: Stages = {"http": ("reply", "lookup")}
#: Where an answer may be given at all, once the request has been read.
_ANY: Stages = {"http": ("request", "validate", "accept", "reply", "lookup")}
_EARLY: Stages = {"http": ("upload", *_ANY["http"])}

_GATEWAY = """<html>
<head><title>{code} {phrase}</title></head>
<body>
<center><h1>{code} {phrase}</h1></center>
<hr><center>gateway</center>
</body>
</html>
"""
_PHRASES = {502: "Bad Gateway", 503: "Service Temporarily Unavailable", 504: "Gateway Time-out"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Send the sender elsewhere. 301, 302 and 303 make many clients repeat a POST as GET, 307 and 308 as POST."""

    name: ClassVar[str] = "redirect"
    stages: ClassVar[Stages] = _EARLY
    code: int = 307
    location: str = "/v1/emails"

    def answer(self) -> Answer:
        return Reply(code=self.code, headers=(("Location", self.location),))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayGivesUp:
    """Let a gateway answer in HTML because what is behind it did not in time: nobody knows what became of the mail."""

    name: ClassVar[str] = "gateway"
    stages: ClassVar[Stages] = _EARLY
    code: int = 504
    retry_after: RetryAfter | None = None

    def answer(self) -> Answer:
        phrase = _PHRASES.get(self.code, "Error")
        return Reply(
            code=self.code,
            retry_after=self.retry_after,
            body=_GATEWAY.format(code=self.code, phrase=phrase),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OddBody:
    """Say success with a body that is none."""

    name: ClassVar[str] = "odd_body"
    stages: ClassVar[Stages] = _ANY
    shape: Shape
    code: int = 200
    content_type: str | None = None

    def answer(self) -> Answer:
        return Dressed(dress=Odd(shape=self.shape, code=self.code, content_type=self.content_type))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOddly:
    """Say of a batch less, more, or in another order what became of its mails."""

    name: ClassVar[str] = "odd_results"
    stages: ClassVar[Stages] = {"http": ("reply",)}
    listing: Listing

    def answer(self) -> Answer:
        return Dressed(dress=Listed(listing=self.listing))


@dataclass(frozen=True, slots=True, kw_only=True)
class GzipTheAnswer:
    """Compress the body of the answer, soundly or not."""

    name: ClassVar[str] = "gzip"
    stages: ClassVar[Stages] = _TRUE
    flaw: Flaw = Flaw.NONE

    def answer(self) -> Answer:
        return Dressed(dress=Gzipped(flaw=self.flaw))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTheAnswer:
    """Send the body of the answer in chunks, to the end or not."""

    name: ClassVar[str] = "chunked"
    stages: ClassVar[Stages] = _TRUE
    chunks: Chunks = Chunks.WHOLE

    def answer(self) -> Answer:
        return Dressed(dress=Chunked(chunks=self.chunks))


@dataclass(frozen=True, slots=True, kw_only=True)
class SayBefore:
    """Send an interim answer (1xx) before the final one, which a client has to skip (RFC 9110, section 15.2)."""

    name: ClassVar[str] = "interim"
    stages: ClassVar[Stages] = _TRUE
    status: int = 103

    def answer(self) -> Answer:
        return Dressed(dress=Announced(status=self.status))


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverContinue:
    """Do not answer `Expect: 100-continue`: the sender has to go on by itself (RFC 9110, section 10.1.1)."""

    name: ClassVar[str] = "no_continue"
    stages: ClassVar[Stages] = {"http": ("upload",)}

    def answer(self) -> Answer:
        return KeepExpecting()
