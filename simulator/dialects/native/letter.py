"""A message made of fields: a letter is read and checked first, and written as the bytes of RFC 5322 afterwards.

The two are apart on purpose: what a provider decides needs the letter only, its bytes may be written later.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any

from simulator.dialects.native import heading
from simulator.dialects.native.fields import (
    Malformed,
    from_base64,
    kind,
    line,
    mailbox,
    mailboxes,
    only,
    shown,
    sound,
    text,
)
from simulator.dialects.native.heading import Mailbox
from simulator.provider.acceptance import Acceptance
from simulator.provider.answer import Reason
from simulator.provider.message import LINE_CHARS, Form

LETTER_KEYS = frozenset(
    {"from", "to", "cc", "bcc", "subject", "text", "html", "headers", "message_id", "attachments"}
)
ATTACHMENT_KEYS = frozenset({"filename", "content_type", "content", "content_id"})

#: Headers that have a field of their own, or that the builder must own to write a readable message.
_OWNED = frozenset({"from", "to", "cc", "bcc", "subject", "mime-version"})

_FIELD_NAME = re.compile(r"[!-9;-~]+")
MESSAGE_ID = re.compile(r"<[^<>@\s]+@[^<>@\s]+>")
_CONTENT_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+")

#: So much is written of names and free text, for writing it takes a while: characters of all header fields, of all
#: file names and Content-IDs, and attachments.
MOST_HEADING_CHARS = 256 * 1024
MOST_NAMING_CHARS = 64 * 1024
MOST_ATTACHMENTS = 1_000

#: Fields whose values have a grammar: no encoded words may stand just anywhere in them.
_STRUCTURED = frozenset(HeaderRegistry().registry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that goes along; with a Content-ID it belongs to the HTML that shows it."""

    filename: str
    content_type: str
    content: bytes
    content_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """The fields of a mail, each of them sound."""

    from_: Mailbox
    to: tuple[Mailbox, ...]
    cc: tuple[Mailbox, ...] = ()
    bcc: tuple[Mailbox, ...] = ()
    subject: str = ""
    text: str | None = None
    html: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    message_id: str | None = None
    """None: it is made of the idempotency key or the content, unless it stands among the headers."""
    attachments: tuple[Attachment, ...] = ()

    @property
    def recipients(self) -> tuple[str, ...]:
        """Everybody who gets it, once."""
        return once([address for _, address in (*self.to, *self.cc, *self.bcc)])


def once(recipients: list[str]) -> tuple[str, ...]:
    """Somebody in `to` and in `cc` gets one mail."""
    found: dict[str, str] = {}
    for recipient in recipients:
        found.setdefault(recipient.lower(), recipient)
    return tuple(found.values())


# --- reading ----------------------------------------------------------------------------------------


def read_letter(data: Mapping[str, Any]) -> Letter:
    """Read the fields of a mail. Raise `Malformed`."""
    only(data, LETTER_KEYS, "the body")
    sender = text(data, "from")
    if not sender:
        raise Malformed('"from" is missing; give the sender, like "Shop <shop@example.org>"')
    letter = Letter(
        from_=mailbox(sender, '"from"', Reason.INVALID),
        to=tuple(mailboxes(data, "to")),
        cc=tuple(mailboxes(data, "cc")) if data.get("cc") is not None else (),
        bcc=tuple(mailboxes(data, "bcc")) if data.get("bcc") is not None else (),
        subject=line(text(data, "subject") or "", '"subject"'),
        headers=tuple(_headers(data)),
        message_id=_message_id(data),
        text=text(data, "text"),
        html=text(data, "html"),
        attachments=tuple(_attachments(data)),
    )
    if letter.text is None and letter.html is None and not letter.attachments:
        raise Malformed('there is no content; give "text", "html" or both')
    return letter


def _headers(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    given = data.get("headers")
    if given is None:
        return []
    if not isinstance(given, dict):
        raise Malformed(f'"headers" is {kind(given)}; it must be an object of names and texts')
    headers = []
    for name, value in given.items():
        if not _FIELD_NAME.fullmatch(name):
            raise Malformed(f'"headers": {shown(name)} is no header name')
        if name.lower() in _OWNED or name.lower().startswith("content-"):
            raise Malformed(
                f'"headers": {name[:80]} has a field of its own or is written by the service; leave it out'
            )
        if not isinstance(value, str):
            raise Malformed(f'"headers": the value of {name[:80]} is {kind(value)}; it must be a text')
        where = f'"headers": the value of {name[:80]}'
        headers.append((name, line(sound(value, where), where)))
    return headers


def _message_id(data: Mapping[str, Any]) -> str | None:
    given = text(data, "message_id")
    if given is None:
        return None
    headers = data.get("headers")
    if isinstance(headers, dict) and any(name.lower() == "message-id" for name in headers):
        raise Malformed('"message_id" and a Message-ID in "headers" are both given; leave one out')
    if len(given) > LINE_CHARS or not MESSAGE_ID.fullmatch(given):
        raise Malformed(f'"message_id" is {shown(given)}; it must look like "<unique@example.org>"')
    return given


def _attachments(data: Mapping[str, Any]) -> list[Attachment]:
    given = data.get("attachments")
    if given is None:
        return []
    if not isinstance(given, list):
        raise Malformed(f'"attachments" is {kind(given)}; it must be a list of objects')
    return [_attachment(each, f"attachment {number}") for number, each in enumerate(given, 1)]


def _attachment(data: object, where: str) -> Attachment:
    if not isinstance(data, dict):
        raise Malformed(f"{where} is {kind(data)}; it must be an object")
    only(data, ATTACHMENT_KEYS, where)
    filename, content = text(data, "filename"), text(data, "content")
    if not filename or content is None:
        raise Malformed(f'{where} needs "filename" and "content"')
    content_type = text(data, "content_type") or "application/octet-stream"
    if not _CONTENT_TYPE.fullmatch(content_type) or content_type.lower().startswith(
        ("multipart/", "message/")
    ):
        raise Malformed(f'{where}: "content_type" is {shown(content_type)}; it must look like "image/png"')
    content_id = text(data, "content_id")
    return Attachment(
        filename=line(filename, f'{where}: "filename"'),
        content_type=content_type,
        content=from_base64(content, f'{where}: "content"'),
        content_id=None if content_id is None else line(content_id, f'{where}: "content_id"').strip("<>"),
    )


def check_size(letter: Letter) -> None:
    """Refuse a letter that nobody could write in a reasonable time. Raise `Malformed`."""
    names = (name for name, _ in (letter.from_, *letter.to, *letter.cc, *letter.bcc))
    heading_chars = len(letter.subject) + sum(map(len, names))
    heading_chars += sum(len(name) + len(value) for name, value in letter.headers)
    naming_chars = sum(len(each.filename) + len(each.content_id or "") for each in letter.attachments)
    for what, count, most in (
        ("subject, names and headers have {} characters", heading_chars, MOST_HEADING_CHARS),
        ("file names and Content-IDs have {} characters", naming_chars, MOST_NAMING_CHARS),
        ("there are {} attachments", len(letter.attachments), MOST_ATTACHMENTS),
    ):
        if count > most:
            raise Malformed(f"{what.format(count)}; {most} are possible", Reason.TOO_LARGE)


# --- writing ----------------------------------------------------------------------------------------


def message_id_of(letter: Letter, *, key: str | None, fingerprint: str, host: str) -> str | None:
    """Return the Message-ID of a letter as it is said among its fields, or a new one. None: it stands in `headers`.

    A new one is made from the key (or, without one, from the request's `fingerprint`) at the provider's name `host`.
    Not random: a second request with the same key must be the same mail (RFC 5322, section 3.6.4).
    """
    if letter.message_id is not None:
        return letter.message_id
    if letter.headers and any(name.lower() == "message-id" for name, _ in letter.headers):
        return None
    return made_id(key=key, fingerprint=fingerprint, host=host)


def made_id(*, key: str | None, fingerprint: str, host: str) -> str:
    """Return a new Message-ID, the same for the same key or (without one) content."""
    seed = f"key/{key}" if key is not None else f"body/{fingerprint}"
    return f"<{hashlib.sha256(seed.encode()).hexdigest()[:32]}@{host}>"


def fields_of(letter: Letter, message_id: str | None) -> tuple[tuple[str, str], ...]:
    """Return the header fields of a letter as people read them, in the order in which `write` writes them."""
    fields = [("From", heading.shown(letter.from_)), ("To", ", ".join(map(heading.shown, letter.to)))]
    if letter.cc:
        fields.append(("Cc", ", ".join(map(heading.shown, letter.cc))))
    fields.append(("Subject", letter.subject))
    if message_id is not None:
        fields.append(("Message-ID", message_id))
    fields += letter.headers
    return tuple(fields)


def write(letter: Letter, *, message_id: str | None, fingerprint: str, now: datetime) -> bytes:
    """Write the message, dated `now`. Raise `Malformed` for attachments that the standard library cannot write."""
    lines = [heading.addresses("From", [letter.from_]), heading.addresses("To", letter.to)]
    if letter.cc:
        lines.append(heading.addresses("Cc", letter.cc))
    lines.append(heading.words("Subject", letter.subject))
    if message_id is not None:
        lines.append(heading.as_it_is("Message-ID", message_id))
    if not any(name.lower() == "date" for name, _ in letter.headers):
        lines.append(heading.as_it_is("Date", format_datetime(now.astimezone(UTC))))
    for name, value in letter.headers:
        write_field = heading.as_it_is if name.lower() in _STRUCTURED else heading.words
        lines.append(write_field(name, value))
    message = EmailMessage(policy=SMTP)
    try:
        _fill(message, letter)
        _name_boundaries(message, fingerprint)
        return b"".join(lines) + message.as_bytes()
    except (ValueError, LookupError, AttributeError, TypeError, MessageError) as problem:
        raise Malformed(f"no message can be built from these fields: {problem}") from problem


def message_of(acceptance: Acceptance, body: bytes) -> bytes:
    """Return the message of an accepted mail: what was handed in, or what is written of its fields."""
    if acceptance.form is Form.MESSAGE:
        return body
    letter = read_letter(json.loads(body))
    # One among the headers is written from there.
    message_id = message_id_of(letter, key=None, fingerprint="", host="") and acceptance.message_id
    return write(
        letter, message_id=message_id, fingerprint=acceptance.fingerprint, now=acceptance.accepted_at
    )


def _fill(message: EmailMessage, letter: Letter) -> None:
    if letter.text is not None or letter.html is None:
        message.set_content(letter.text or "", charset="utf-8")
        if letter.html is not None:
            message.add_alternative(letter.html, subtype="html", charset="utf-8")
    else:
        message.set_content(letter.html, subtype="html", charset="utf-8")
    # An inline part belongs to the HTML that shows it (RFC 2387). These come first: what is attached to the whole
    # moves the HTML one level down.
    inline = [each for each in letter.attachments if each.content_id is not None]
    home = message.get_body(("html",)) or message
    assert isinstance(home, EmailMessage)
    for each in inline:
        main, _, sub = each.content_type.partition("/")
        home.add_related(
            each.content,
            maintype=main,
            subtype=sub,
            filename=each.filename,
            disposition="inline",
            cid=f"<{each.content_id}>",
        )
    for each in letter.attachments:
        if each.content_id is None:
            main, _, sub = each.content_type.partition("/")
            message.add_attachment(each.content, maintype=main, subtype=sub, filename=each.filename)


def _name_boundaries(message: EmailMessage, fingerprint: str) -> None:
    """The standard library rolls dice for boundaries; ours come from the content."""
    for number, part in enumerate(message.walk()):
        if part.is_multipart():
            part.set_boundary(f"=_{number}_{fingerprint[:32]}")
