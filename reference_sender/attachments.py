"""Attachments by reference: a mail is frozen without them, and is whole again, byte for byte, when it is sent.

A frame is the rendered mail with the encoded attachments cut out, and slots say what belongs where. Nothing is looked
for when it is put together again, so no text of a mail can be taken for a place: the same frame and the same contents
give the same bytes in every attempt.
Must not hold: where contents are kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reference_sender.message import Attachment

#: Smaller ones stay in the mail: a reference would cost more than it spares. In octets.
LEAST_OCTETS = 4 * 1024
#: How the standard library writes base64 into a mail, in characters a line (RFC 2045 section 6.8).
_LINE = 76


class MissingAttachment(LookupError):
    """A content that a frame needs is not there; the text names its digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place in a frame, and what belongs there."""

    at: int  # octets of the frame before it
    digest: str  # of the content, hex SHA-256


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A mail without its larger attachments."""

    raw: bytes
    slots: tuple[Slot, ...]
    contents: Mapping[str, bytes]
    """What was taken out, by its digest."""


def digest_of(content: bytes) -> str:
    """The name of a content: hex SHA-256."""
    return hashlib.sha256(content).hexdigest()


def take_out(raw: bytes, attachments: Sequence[Attachment], *, least_octets: int = LEAST_OCTETS) -> Frame:
    """Cut the larger attachments out of a rendered mail. What cannot be found stays in."""
    pieces: list[bytes] = []
    slots: list[Slot] = []
    contents: dict[str, bytes] = {}
    done = kept = 0
    # In the order in which `message.render` writes them: images of the HTML first.
    for attachment in sorted(attachments, key=lambda each: each.content_id is None):
        if len(attachment.content) < least_octets:
            continue
        encoded = _encoded(attachment.content)
        found = raw.find(encoded, done)
        if found < 0:
            continue
        pieces.append(raw[done:found])
        kept += found - done
        digest = digest_of(attachment.content)
        slots.append(Slot(at=kept, digest=digest))
        contents[digest] = attachment.content
        done = found + len(encoded)
    pieces.append(raw[done:])
    return Frame(raw=b"".join(pieces), slots=tuple(slots), contents=contents)


def put_in(raw: bytes, slots: Sequence[Slot], contents: Mapping[str, bytes]) -> bytes:
    """Make a frame whole again. Raises `MissingAttachment`."""
    pieces: list[bytes] = []
    done = 0
    for slot in slots:
        if slot.digest not in contents:
            raise MissingAttachment(slot.digest)
        pieces += (raw[done : slot.at], _encoded(contents[slot.digest]))
        done = slot.at
    return b"".join((*pieces, raw[done:]))


def written(slots: Sequence[Slot]) -> str | None:
    """Slots as they are stored beside a frame. None: there are none."""
    return json.dumps([[slot.at, slot.digest] for slot in slots]) if slots else None


def read(text: str | None) -> tuple[Slot, ...]:
    """What `written` wrote."""
    return tuple(Slot(at=at, digest=digest) for at, digest in json.loads(text)) if text else ()


def _encoded(content: bytes) -> bytes:
    text = base64.b64encode(content)
    return b"\r\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))
