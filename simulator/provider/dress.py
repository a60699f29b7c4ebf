"""Forms in which HTTP says true or untrue words oddly: values that `simulator.dialects.dress` turns into bytes.

Each is a whole answer (RFC 9112) unless it says otherwise: a sender that copes with what is allowed must cope with
these, and must not take what is broken for a yes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Flaw(StrEnum):
    """What is wrong with a gzip body."""

    NONE = "none"
    CUT = "cut"
    """The stream breaks off; the length of the body says nothing of it."""
    CHECKSUM = "checksum"
    JUNK = "junk"
    """It is no gzip at all."""
    BOMB = "bomb"
    """A few kilobytes that unfold to `BOMB_BYTES`."""


class Chunks(StrEnum):
    """How a chunked body goes."""

    WHOLE = "whole"
    TRAILER = "trailer"
    """With a trailer section behind it (RFC 9112, section 7.1.2)."""
    UNFINISHED = "unfinished"
    """The last chunk never comes; end of file instead."""
    BAD_SIZE = "bad_size"
    """The second chunk has a size that is none; then end of file."""


class Shape(StrEnum):
    """What stands in the body where a success should stand."""

    WHOLE = "whole"
    """The usual body: for a `content_type` that is not the usual one."""
    ERROR = "error"
    """An error, under a status that says success."""
    NO_ID = "no_id"
    NULL_ID = "null_id"
    NUMBER_ID = "number_id"
    """A number that no double can hold."""
    ARRAY = "array"
    NULL = "null"
    TEXT = "text"
    HTML = "html"
    EMPTY = "empty"
    CUT = "cut"
    """Half of the JSON, under a length that is right."""
    BOM = "bom"
    """JSON behind a byte order mark."""
    LATIN1 = "latin1"
    """JSON with bytes that are no UTF-8 in a text."""
    TWICE = "twice"
    """JSON with the member `id` twice, and two values."""
    NESTED = "nested"
    """JSON that is nested more deeply than any parser likes."""


class Listing(StrEnum):
    """What is wrong with the results of a batch."""

    FEWER = "fewer"
    """The last one is missing."""
    SHUFFLED = "shuffled"
    """In another order than the mails (each still says which mail it is about)."""
    TWICE = "twice"
    """The last one twice."""
    NONE = "none"
    TOTALS = "totals"
    """How many, and not which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gzipped:
    """The body is compressed, whether the sender asked for it or not."""

    flaw: Flaw = Flaw.NONE

    def __str__(self) -> str:
        return "gzip" if self.flaw is Flaw.NONE else f"gzip ({self.flaw})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunked:
    """The body comes in chunks instead of with a length."""

    chunks: Chunks = Chunks.WHOLE

    def __str__(self) -> str:
        return "chunked" if self.chunks is Chunks.WHOLE else f"chunked ({self.chunks})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dripped:
    """The answer comes in small pieces, with a pause before each but the first."""

    pause_s: float
    size_bytes: int = 1

    def __str__(self) -> str:
        return f"dripped, {self.size_bytes} bytes every {self.pause_s:g}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """An interim answer goes before the final one (RFC 9110, section 15.2)."""

    status: int

    def __str__(self) -> str:
        return f"{self.status} first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubled:
    """Behind the answer comes another one that nobody asked for. `code` None: the same again (HTTP: 500)."""

    code: int | None = None
    enhanced: str | None = None
    """SMTP only, like `text`."""
    text: str | None = None

    def __str__(self) -> str:
        return f"and an unasked {self.code or 'second one'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """A success whose body is none. `code`: its status; `content_type` None: the usual one, empty: none at all."""

    shape: Shape
    code: int = 200
    content_type: str | None = None

    def __str__(self) -> str:
        kind = "" if self.content_type is None else f", {self.content_type or 'no'} content type"
        return f"{self.code} with odd body: {self.shape}{kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The results of a batch, not as they should be. The answer to a single mail stays as it is."""

    listing: Listing

    def __str__(self) -> str:
        return f"results {self.listing}"


Dress = Gzipped | Chunked | Dripped | Announced | Doubled | Odd | Listed
