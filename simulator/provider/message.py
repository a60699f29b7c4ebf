"""What a sender hands over: the submission, and the little that is read from its bytes.

Parsing is limited to the header block: a ledger must take any bytes a sender managed to send,
so nothing here ever refuses a message for its form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.errors import MessageError
from email.header import decode_header, make_header
from email.parser import BytesHeaderParser
from email.policy import compat32
from enum import StrEnum

from simulator.provider.characters import cut

#: Headers longer than this are not read (a header bomb must not cost memory twice).
HEADER_LIMIT_BYTES = 256 * 1024
#: Nor more lines of them, nor more of a subject: real mail has some hundreds, and 998 characters a line.
HEADER_LIMIT_LINES = 4_000
SUBJECT_LIMIT_CHARS = 4_000

#: A mail to a thousand people is not called by all of them: fifty thousand of such names are remembered.
LONG_NAME_CHARS = 500
#: RFC 5322, section 2.1.1: no identifier in a header field can be longer.
LINE_CHARS = 998

#: The header field in which a sender says which promise a mail keeps.
OBLIGATION_HEADER = "X-Obligation"

#: A field in one line of ASCII without surprises, and the line end. No blank belongs to two of its parts: what is none
#: costs no more than its length.
_PLAIN_FIELD = re.compile(r"^([!-9;-~]+):[ \t]*+((?:[!-~](?:[ -~\t]*[!-~])?)?)[ \t]*\r\n", re.MULTILINE)
#: Fields with their names, each line ended by CRLF and longer than its blanks, and an empty line after them.
_PLAIN_HEAD = re.compile(rb"(?:[!-9;-~]+:[^\r\n]*\r\n(?:[ \t]+[^\s][^\r\n]*\r\n)*)+\r\n")
_NEXT_FIELD = re.compile(rb"\r\n(?![ \t])")
#: From how many bytes on `hashlib` works without Python's lock (its `HASHLIB_GIL_MINSIZE`).
_LARGE_BYTES = 2_048
#: RFC 2047, section 2; it allows 75 characters, which not everybody knows.
_LONG_WORD_CHARS = 1_000
_ENCODED_WORD = re.compile(r"=\?[^?\s]+\?[BbQq]\?[^?\s]*\?=")


@dataclass(frozen=True, slots=True, kw_only=True)
class DsnRecipient:
    """What a sender wants to be told about one recipient (RFC 3461, sections 4.1 and 4.2)."""

    recipient: str
    notify: tuple[str, ...] = ()
    """`NEVER`, or some of `SUCCESS`, `FAILURE`, `DELAY`; empty: not said."""
    orcpt: str | None = None
    """The original recipient with its type, as `rfc822;ann@example.org`, decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dsn:
    """What a sender wants to be told about the delivery of a mail (RFC 3461)."""

    ret: str | None = None
    """`FULL` or `HDRS`: how much of the mail a notification brings back."""
    envid: str | None = None
    """The sender's name for this mail, decoded."""
    recipients: tuple[DsnRecipient, ...] = ()
    """Recipients about whom something was said."""


class Form(StrEnum):
    """What the bytes are that a sender handed in."""

    MESSAGE = "message"
    """The message of RFC 5322."""
    FIELDS = "fields"
    """The fields of a letter, as JSON; the message is written when somebody asks for it (`dialects.native.letter`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One mail as the provider got it, whatever wire it came over."""

    dialect: str
    sender: str
    """Envelope sender; the empty string is the null sender of RFC 5321, section 4.5.5."""
    recipients: tuple[str, ...]
    raw: bytes
    """What was handed in, in this `form`; over SMTP with dot-stuffing removed."""
    form: Form = Form.MESSAGE
    key: str | None = None
    """Idempotency key, where the wire has one."""
    fingerprint: str = ""
    """Hex SHA-256 of the request's meaning: tells a repeated key with another body."""
    sha256: str = ""
    """Hex SHA-256 of `raw`; empty: nobody has worked it out yet."""
    message_id: str | None = None
    """Message-ID with its angle brackets."""
    headers: tuple[tuple[str, str], ...] = ()
    subject: str = ""
    dsn: Dsn | None = None
    """SMTP: what the sender asked to be told; None: nothing was said."""
    obligation: str | None = None
    """Value of the header field `OBLIGATION_HEADER`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Where in an attempt we are, and what is known of the mail there; what rules are matched against."""

    stage: str
    dialect: str
    account: str
    connection: str = ""
    attempt: str = ""
    sender: str | None = None
    recipient: str | None = None
    """The recipient this stage is about (SMTP `rcpt`); else None."""
    recipients: tuple[str, ...] = ()
    """All recipients known so far."""
    key: str | None = None
    message_id: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=())
    event: str | None = None
    """The type of the event that a webhook is about (stage `webhook`); else None."""
    command: str = ""
    """SMTP: `EHLO` or `HELO`, where both come to the same stage."""
    occasion: tuple[str, int] = ("", 0)
    """The mail by its recipients and in which of its attempts; with nothing known of it, on which occasion of this stage."""

    @property
    def mail(self) -> str:
        """What makes this mail the same mail in a later attempt, as well as we can tell at this stage.

        The key or the Message-ID would be changed by exactly the senders we hunt, so recipients come
        first: in a certification each obligation has a recipient of its own.
        """
        if self.recipient is not None or self.recipients:
            return mail_to(self.recipient, self.recipients)
        return f"id:{self.message_id or self.key or self.connection}"


def mail_to(recipient: str | None, recipients: tuple[str, ...]) -> str:
    """Return what a mail is called by those it goes to."""
    if recipient is not None:
        return f"to:{recipient}"
    return f"to:{recipients[0]}" if len(recipients) == 1 else short_name("to:" + ",".join(sorted(recipients)))


def short_name(name: str, most: int = LONG_NAME_CHARS) -> str:
    """Return the name of a mail as it is remembered: of a long one its beginning, and what tells it from others."""
    if len(name) <= most:
        return name
    return f"{name[: most - 65]}#{digest(name.encode('utf-8', 'surrogatepass'))}"


def identifier(value: str | None) -> str | None:
    """Return what stands in a header field to name something, as it is remembered; None: there is no such field."""
    return None if value is None else short_name(value, LINE_CHARS)


def read_headers(raw: bytes) -> tuple[tuple[str, str], ...]:
    """Return the header fields of a message as (name, value), unfolded; broken bytes become U+FFFD."""
    end = raw.find(b"\r\n\r\n", 0, HEADER_LIMIT_BYTES)
    if end >= 0:
        # As nearly all mail has it.
        head = raw[: end + 2]
        if head.isascii() and (lines := head.count(b"\n")) + 1 < HEADER_LIMIT_LINES:
            fields = _PLAIN_FIELD.findall(head.decode("ascii"))
            if len(fields) == lines:
                return tuple(fields)
    head = raw[:HEADER_LIMIT_BYTES]
    for blank in (b"\r\n\r\n", b"\n\n"):
        end = head.find(blank)
        if end >= 0:
            head = head[: end + len(blank)]
            break
    if head.count(b"\n") >= HEADER_LIMIT_LINES:
        head = b"\n".join(head.split(b"\n", HEADER_LIMIT_LINES)[:-1]) + b"\n"
    return _read_plain(head) or _read_any(head)


def _read_plain(head: bytes) -> tuple[tuple[str, str], ...] | None:
    """Read a header block without surprises, as nearly all of them are. None: let the library decide."""
    if not _PLAIN_HEAD.fullmatch(head):
        return None
    fields = []
    for field_ in _NEXT_FIELD.split(head[: head.find(b"\r\n\r\n")]):
        name, _, value = field_.partition(b":")
        fields.append((name.decode("ascii"), value.replace(b"\r\n", b"").decode("utf-8", "replace").strip()))
    return tuple(fields)


def _read_any(head: bytes) -> tuple[tuple[str, str], ...]:
    parsed = BytesHeaderParser(policy=compat32).parsebytes(head)
    # Raw items: the cooked ones lose UTF-8 headers (RFC 6532), which `_unfold` reads.
    return tuple((name, _unfold(str(value))) for name, value in parsed.raw_items())


def header(headers: Sequence[tuple[str, str]], name: str) -> str | None:
    """Return the first header of that name (case ignored), or None."""
    wanted = name.lower()
    for key, value in headers:
        if key.lower() == wanted:
            return value
    return None


def readable(value: str) -> str:
    """Decode the encoded words of RFC 2047 for people; undecodable ones stay as they came."""
    if "=?" not in value:
        return value
    try:
        return str(make_header(decode_header(value)))
    except (LookupError, ValueError, MessageError):
        return value


def shortened(subject: str) -> str:
    """Return so much of a subject as is kept: no half of a character, or of an encoded word (RFC 2047)."""
    if len(subject) <= SUBJECT_LIMIT_CHARS:
        return subject
    kept = cut(subject, SUBJECT_LIMIT_CHARS)
    for word in _ENCODED_WORD.finditer(subject, 0, SUBJECT_LIMIT_CHARS + _LONG_WORD_CHARS):
        if word.start() < len(kept) < word.end():
            return kept[: word.start()].rstrip()
    return kept


def bounded(fields: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return so many of the header fields as are kept."""
    kept, room = [], HEADER_LIMIT_BYTES
    for name, value in fields[:HEADER_LIMIT_LINES]:
        if (size := len(name) + len(value)) > room:
            kept.append((name, cut(value, max(0, room - len(name)))))
            break
        kept.append((name, value))
        room -= size
    return tuple(kept)


def digest(raw: bytes) -> str:
    """Return the hex SHA-256 of bytes."""
    if not _LARGE_BYTES <= len(raw) < 32 * _LARGE_BYTES:
        return hashlib.sha256(raw).hexdigest()
    # `hashlib` lets go of Python's lock for large pieces. To get it back costs more than a few of them take.
    whole, view = hashlib.sha256(), memoryview(raw)
    for at in range(0, len(raw), _LARGE_BYTES - 1):
        whole.update(view[at : at + _LARGE_BYTES - 1])
    return whole.hexdigest()


def from_bytes(
    raw: bytes,
    *,
    dialect: str,
    sender: str,
    recipients: Sequence[str],
    key: str | None = None,
    fingerprint: str | None = None,
    dsn: Dsn | None = None,
) -> Submission:
    """Build a submission around a finished message; headers are read from it once."""
    headers = read_headers(raw)
    # The first of a name counts.
    found = {name.lower(): value for name, value in reversed(headers)}
    message_id = found.get("message-id")
    sha256 = digest(raw)
    return Submission(
        dialect=dialect,
        sender=sender,
        recipients=tuple(recipients),
        raw=raw,
        key=key,
        fingerprint=sha256 if fingerprint is None else fingerprint,
        sha256=sha256,
        message_id=short_name(message_id.strip(), LINE_CHARS) if message_id else None,
        headers=headers,
        subject=readable(shortened(found.get("subject", ""))),
        dsn=dsn,
        obligation=identifier(found.get(OBLIGATION_HEADER.lower())),
    )


def _unfold(value: str) -> str:
    text = value.replace("\r\n", "\n").replace("\n", "")
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").strip()
