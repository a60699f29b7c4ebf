"""A mail taken apart, for people who look at it: headers, text, HTML, attachments. Whatever a sender handed in.

Nothing here may fail or take long on bytes that are no mail: headers that say nonsense, parts within parts within
parts, characters that are none. What cannot be taken apart is said so, and its bytes are there to be looked at.
"""

from __future__ import annotations

import base64
import binascii
import email.errors
import email.header
import email.message
import email.parser
import email.policy
import html
import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from urllib.parse import unquote, unquote_to_bytes

from simulator.provider.characters import cut
from simulator.provider.message import HEADER_LIMIT_BYTES
from simulator.servers.pixels import pixels

#: So much of a mail is looked at.
MAX_BYTES = 8 * 1024 * 1024
#: So many parts, so many header fields, so many characters of a text or a field are shown.
MAX_PARTS = 200
MAX_FIELDS = 500
MAX_TEXT_CHARS = 1_000_000
MAX_FIELD_CHARS = 10_000
#: Images within HTML, in all: as they came, and unpacked (a browser needs four bytes a pixel).
MAX_INLINE_BYTES = 4 * 1024 * 1024
MAX_INLINE_PIXELS = 25_000_000
MAX_NAME_CHARS = 150
#: So much of a mail is read at the most: more would take longer than anybody waits. The library looks at each line once
#: for each part that is still open there, and at each character of a parameter once for each parameter.
MOST_PARTS_READ = 20_000
MOST_FIELDS_READ = 50_000
MOST_LOOKS = 8_000_000
MOST_FIELD_CHARS_READ = 2 * MAX_FIELD_CHARS
MOST_PARAMETER_CHARS_READ = 2_000
#: The longest character of any charset.
_CHARACTER_BYTES = 8

#: As a parameter of Content-Type; each level of a mail has one.
_BOUNDARY = re.compile(rb"boundary\s*=", re.IGNORECASE)
_CID = re.compile(r"cid:([^\s\"'<>)]+)", re.IGNORECASE)
#: Pictures that stand in the HTML itself, with their bytes.
_WRITTEN_OUT = re.compile(r"data:image/([\w.+-]+)([^,\"'<>)]{0,100}),([^\"'<>)]*)", re.IGNORECASE)
_SVG = "image/svg+xml"
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_BREAKS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A leaf of the mail."""

    number: int
    media_type: str
    name: str
    """A file name that is safe to save under: no folder, no leading dot, no character a shell would mind."""
    size_bytes: int
    content_id: str | None
    is_attachment: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """What a mail consists of."""

    headers: tuple[tuple[str, str], ...]
    text: str | None
    html: str | None
    parts: tuple[Part, ...]
    trouble: str | None = None
    """What could not be shown, in one sentence."""


def take_apart(raw: bytes) -> Anatomy:
    """Return what a mail consists of."""
    is_cut = len(raw) > MAX_BYTES
    trouble = f"only the first {MAX_BYTES} bytes are shown" if is_cut else None
    raw = raw[:MAX_BYTES]
    root = _parse(raw)
    if root is None:
        root = _parse_head(raw)
        return Anatomy(
            headers=_headers(root),
            text=None,
            html=None,
            parts=(),
            trouble="it has too many parts, levels of parts, or header fields to be taken apart; look at its bytes",
        )
    leaves = list(_leaves(root))
    if len(leaves) > MAX_PARTS:
        trouble = f"only {MAX_PARTS} of its {len(leaves)} parts are shown"
        leaves = leaves[:MAX_PARTS]
    parts = tuple(_part(number, leaf) for number, leaf in enumerate(leaves))
    return Anatomy(
        headers=_headers(root),
        text=_first(leaves, parts, "text/plain", is_cut),
        html=_first(leaves, parts, "text/html", is_cut),
        parts=parts,
        trouble=trouble,
    )


def content_of(raw: bytes, number: int) -> tuple[Part, bytes] | None:
    """Return a part and its bytes, decoded; None if there is no such part."""
    root = _parse(raw)
    if root is not None:
        for found, leaf in enumerate(_leaves(root)):
            if found == number:
                return _part(number, leaf), _content(leaf)
            if found >= MAX_PARTS:
                break
    return None


def with_images(page: str, raw: bytes) -> str:
    """Return HTML with the mail's own images put where it refers to them (RFC 2392): nothing else is fetched.

    Pictures that would be too large once they are unpacked are left out, and so are those of which that cannot be told.
    """
    wanted = {_named(found) for found in _CID.findall(page)}
    root = _parse(raw) if wanted else None
    images: dict[str, str] = {}
    room = _Room()
    for leaf in _leaves(root) if root is not None else ():
        name = (_content_id(leaf) or "").lower()
        # The first of a name counts: mails with two are known.
        if name not in wanted or name in images:
            continue
        content, media_type = _content(leaf), _media_type(leaf)
        if media_type.startswith("image/") and room.has(media_type, content):
            images[name] = f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"
    page = _WRITTEN_OUT.sub(
        lambda found: found[0] if room.has_written_out(*found.groups()) else _NOTHING, page
    )
    return _CID.sub(lambda found: images.get(_named(found[1]), _NOTHING), page)


_NOTHING = "about:blank"


def _named(reference: str) -> str:
    """Return the Content-ID that a reference means; many mailers do not encode it as a URL."""
    return unquote(html.unescape(reference)).lower()


class _Room:
    """How much of images a page still takes."""

    def __init__(self) -> None:
        self._bytes, self._pixels = MAX_INLINE_BYTES, MAX_INLINE_PIXELS

    def has(self, media_type: str, content: bytes) -> bool:
        """Tell whether there is room for this image, and take it."""
        size = pixels(content)
        if size is None and media_type == _SVG and b"data:" not in content.lower():
            size = 0  # A drawing has no pixels of its own, and this one no pictures in it.
        if size is None or size > self._pixels or len(content) > self._bytes:
            return False
        self._bytes -= len(content)
        self._pixels -= size
        return True

    def has_written_out(self, subtype: str, parameters: str, data: str) -> bool:
        """The same for an image whose bytes stand in the HTML (RFC 2397)."""
        data = html.unescape(data)
        content = unquote_to_bytes(data)
        if parameters.strip().lower().endswith("base64"):
            try:
                content = base64.b64decode(content)
            except (binascii.Error, ValueError):
                content = b""
        return self.has(f"image/{subtype.lower()}", content)


# --- reading ----------------------------------------------------------------------------------------


class _Reading:
    """How much of a mail has been read."""

    def __init__(self) -> None:
        self._parts = self._fields = 0

    def message(self, *, policy: email.policy.Policy = email.policy.compat32) -> email.message.Message:
        """Begin a part. Raises `ValueError`."""
        self._parts += 1
        if self._parts > MOST_PARTS_READ:
            raise ValueError("too many parts")
        return email.message.Message(policy=policy)

    def field(self) -> None:
        """Read a header field. Raises `ValueError`."""
        self._fields += 1
        if self._fields > MOST_FIELDS_READ:
            raise ValueError("too many header fields")


class _AsItCame(email.policy.Compat32):
    """Header values as they came: raw UTF-8 stays what it is. The newer policies parse them, and may fail."""

    reading = _Reading()

    @classmethod
    def counting(cls, reading: _Reading) -> _AsItCame:
        """Return one that counts there; policies let nobody set an attribute later."""
        of_its_own: type[_AsItCame] = type(cls.__name__, (cls,), {"reading": reading})
        return of_its_own()

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        self.reading.field()
        name, value = super().header_source_parse(sourcelines)
        most = MOST_PARAMETER_CHARS_READ if name.lower().startswith("content-") else MOST_FIELD_CHARS_READ
        return name, value[:most]

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value


def _parse(raw: bytes) -> email.message.Message | None:
    """Parse, or return None if the mail is so deep or has so many parts that nobody would wait for it."""
    boundaries = len(_BOUNDARY.findall(raw))
    if boundaries > MAX_PARTS or boundaries * (raw.count(b"\n") + raw.count(b"\r")) > 2 * MOST_LOOKS:
        return None
    reading = _Reading()
    try:
        parser = email.parser.BytesParser(reading.message, policy=_AsItCame.counting(reading))
        return parser.parsebytes(raw)
    except (RecursionError, ValueError, LookupError):
        return None


def _parse_head(raw: bytes) -> email.message.Message:
    """Parse so many header fields as are shown."""
    lines = raw[:HEADER_LIMIT_BYTES].partition(b"\r\n\r\n")[0].split(b"\r\n", MAX_FIELDS)[:MAX_FIELDS]
    return email.parser.BytesHeaderParser(policy=_AsItCame.counting(_Reading())).parsebytes(
        b"\r\n".join(lines) + b"\r\n\r\n"
    )


def _leaves(root: email.message.Message) -> Iterator[email.message.Message]:
    for part in root.walk():
        if not part.is_multipart():
            yield part


def _headers(root: email.message.Message) -> tuple[tuple[str, str], ...]:
    return tuple((_shown(name), decoded(value)) for name, value in islice(root.raw_items(), MAX_FIELDS))


def _first(
    leaves: list[email.message.Message], parts: tuple[Part, ...], media_type: str, is_cut: bool
) -> str | None:
    for leaf, part in zip(leaves, parts, strict=True):
        if part.media_type == media_type and not part.is_attachment:
            return cut(_text(leaf, is_cut), MAX_TEXT_CHARS)
    return None


def _part(number: int, leaf: email.message.Message) -> Part:
    disposition = str(leaf.get("content-disposition", "")).strip().lower()
    media_type = _media_type(leaf)
    try:
        given = leaf.get_filename()
    except (ValueError, LookupError, TypeError):
        given = None
    return Part(
        number=number,
        media_type=media_type,
        name=safe_name(decoded(given) if given else "", number, media_type),
        size_bytes=len(_content(leaf)),
        content_id=_content_id(leaf),
        is_attachment=disposition.startswith("attachment")
        or given is not None
        or not media_type.startswith("text/"),
    )


def _media_type(leaf: email.message.Message) -> str:
    media_type = leaf.get_content_type()
    if media_type.startswith(("multipart/", "message/")):
        return "text/plain"  # It says that it has parts and has none.
    return (
        media_type if re.fullmatch(r"[\w.+-]{1,100}/[\w.+-]{1,100}", media_type, re.ASCII) else "text/plain"
    )


def _content_id(leaf: email.message.Message) -> str | None:
    given = leaf.get("content-id")
    return None if given is None else _shown(str(given)).strip().removeprefix("<").removesuffix(">") or None


def _content(leaf: email.message.Message) -> bytes:
    try:
        content = leaf.get_payload(decode=True)
    except (ValueError, LookupError):
        content = None
    if any(isinstance(each, email.errors.InvalidBase64LengthDefect) for each in leaf.defects):
        # Cut within four letters: the library gives up on all of it.
        letters = _NOT_BASE64.sub("", str(leaf.get_payload()))
        content = base64.b64decode(letters[: len(letters) // 4 * 4])
    return content if isinstance(content, bytes) else b""


def _text(leaf: email.message.Message, is_cut: bool) -> str:
    content = _content(leaf)
    charset = str(leaf.get_param("charset", "utf-8") or "utf-8")
    for each in (charset, "utf-8"):
        try:
            return _decoded(content, each, is_cut).replace("\r\n", "\n")
        except (LookupError, ValueError):
            continue
    return content.decode("latin-1").replace("\r\n", "\n")


def _decoded(content: bytes, charset: str, is_cut: bool) -> str:
    try:
        return content.decode(charset)
    except UnicodeDecodeError as problem:
        # Half a character at the end of what is looked at is no reason to doubt the charset.
        if not is_cut or problem.start < len(content) - _CHARACTER_BYTES:
            raise
        return content[: problem.start].decode(charset)


def decoded(value: object) -> str:
    """Return the text of a header field (RFC 2047), on one line."""
    text = str(value)
    try:
        pieces = email.header.decode_header(text)
        text = "".join(
            piece if isinstance(piece, str) else piece.decode(charset or "latin-1", "replace")
            for piece, charset in pieces
        )
    except (ValueError, LookupError, TypeError, email.errors.HeaderParseError):
        pass  # Then it is shown as it came.
    return _shown(text)


def _shown(text: str) -> str:
    """Return a text on one line, without what is no character, and not without end."""
    clean = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return cut(_BREAKS.sub(" ", clean), MAX_FIELD_CHARS).strip()


def safe_name(given: str, number: int, media_type: str) -> str:
    """Return a file name that can do no harm wherever it is used."""
    last = re.split(r"[/\\:]", given)[-1]
    kept = "".join(letter if letter.isalnum() or letter in " ._-()+@" else "_" for letter in last)
    kept = kept.strip(" .")
    if len(kept) > MAX_NAME_CHARS:
        stem, dot, ending = kept.rpartition(".")
        kept = f"{cut(stem, MAX_NAME_CHARS - 20)}{dot}{cut(ending, 19)}" if dot else cut(kept, MAX_NAME_CHARS)
    return kept or f"part-{number}{mimetypes.guess_extension(media_type) or '.bin'}"
