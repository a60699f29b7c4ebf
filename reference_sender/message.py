"""The mail itself: what a caller may ask for, how it becomes bytes, and the names it goes by.

A `Mail` that exists is valid. Rendering is a pure function: same mail, same Message-ID, same date, same bytes.
Must not hold: clocks, dice, I/O.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from typing import cast

import idna

SCHEME = "v1"  # of the keys below; a new scheme gets a new name, so that old and new keys never meet
MAX_LINE_OCTETS = 998  # RFC 5322 section 2.1.1, without CRLF

# 7bit: every mail server may carry it, with or without 8BITMIME. The body is encoded, never split by a relay.
_WIRE = policy.SMTP.clone(cte_type="7bit")

_NUL = re.compile(r"\x00")
# C0, DEL and C1 (ISO 6429): names are shown on terminals and written into lines.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# MySQL compares most texts as if they ended with as many blanks as the longer one: two names would be one.
_PADDED = re.compile(r" \Z")
_PADDING = "a blank at its end, where some databases overlook it"
# All that some reader may take for a line end (str.splitlines knows more of them than RFC 5322), and other control.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_HEADER_NAME = re.compile(r"[!-9;-~]+\Z")  # RFC 5322 section 2.2
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL_PART = re.compile(rf"{_ATOM}(?:\.{_ATOM})*\Z")
_DOMAIN = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*\Z"
)
_MAILBOX = re.compile(r"\s*(?P<name>.*?)\s*<\s*(?P<address>[^<>]*?)\s*>\s*\Z")
_CONTENT_TYPE = re.compile(r"(?P<main>[A-Za-z0-9!#$&^_.+-]+)/(?P<sub>[A-Za-z0-9!#$&^_.+-]+)\Z")
# With or without the angle brackets that the header has and the cid: URL has not.
_CONTENT_ID = re.compile(r"<[A-Za-z0-9!#$%&'*+/=?^_`{|}~.@-]+>\Z|[A-Za-z0-9!#$%&'*+/=?^_`{|}~.@-]+\Z")

# Headers that this module writes, or that would tell everybody what only the envelope may know.
_OWN_HEADERS = frozenset(
    {"from", "to", "cc", "bcc", "sender", "subject", "date", "message-id", "mime-version", "return-path"}
)


class InvalidMail(ValueError):
    """The caller asked for a mail that cannot be sent; the text is one sentence that says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """A display name and an address: `Shop <shop@example.org>`."""

    name: str
    address: str

    @classmethod
    def parse(cls, text: str, what: str) -> Mailbox:
        """Read `Name <a@b>` or `a@b`; raises InvalidMail, naming `what` (sender, recipient)."""
        _refuse_control(text, f"the {what}")
        match = _MAILBOX.match(text)
        name, address = (match["name"], match["address"]) if match else ("", text.strip())
        if len(name) >= 2 and name[0] == name[-1] == '"':
            name = re.sub(r"\\(.)", r"\1", name[1:-1])
        return cls(name=name, address=_checked_address(address, what))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that goes along. With a content_id it is an inline image that the HTML names as `cid:…`."""

    filename: str
    content_type: str
    content: bytes = field(repr=False)
    content_id: str | None = None

    def __post_init__(self) -> None:
        _refuse_control(self.filename, "the file name of an attachment")
        if not self.filename:
            raise InvalidMail("an attachment has no file name; give it one like 'invoice.pdf'")
        match = _CONTENT_TYPE.match(self.content_type)
        if not match or match["main"].lower() in {"multipart", "message"}:
            raise InvalidMail(
                f"the content type {self.content_type!r} of attachment {self.filename!r} is not usable; "
                "write it like 'application/pdf' or 'image/png'"
            )
        if self.content_id is not None and not _CONTENT_ID.match(self.content_id):
            raise InvalidMail(
                f"the content id {self.content_id!r} of attachment {self.filename!r} is not usable; "
                "use letters, digits, dots and dashes, as in 'logo@example.org'"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """What the business wants to tell somebody. Several recipients get one message each."""

    sender: str
    recipients: tuple[str, ...]
    subject: str
    text: str | None = field(default=None, repr=False)
    html: str | None = field(default=None, repr=False)
    attachments: tuple[Attachment, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Mailbox.parse(self.sender, "sender")
        if not self.recipients:
            raise InvalidMail("the mail has no recipient; name at least one")
        for recipient in self.recipients:
            Mailbox.parse(recipient, "recipient")
        _refuse_control(self.subject, "the subject")
        if self.text is None and self.html is None:
            raise InvalidMail("the mail has neither text nor html; give at least one of them")
        for what, body in (("text", self.text), ("html", self.html)):
            if body is not None:
                _refuse(_NUL, body, f"the {what}", "a NUL character, which no mail may carry")
        if self.html is None and any(a.content_id is not None for a in self.attachments):
            raise InvalidMail("an attachment has a content id, but there is no html that could show it")
        for name, value in self.headers.items():
            _check_header(name, value)


def parse_mail(document: Mapping[str, object]) -> Mail:
    """Read a mail from its JSON form: from, to, subject, text, html, attachments, headers (raises InvalidMail)."""
    to = document.get("to")
    recipients = [to] if isinstance(to, str) else to
    if not isinstance(recipients, list) or not all(isinstance(r, str) for r in recipients):
        raise InvalidMail('"to" must be a list of addresses like ["ann@example.org"]')
    headers = document.get("headers") or {}
    if not isinstance(headers, dict) or not all(isinstance(v, str) for v in headers.values()):
        raise InvalidMail('"headers" must be an object whose values are strings')
    attachments = document.get("attachments") or []
    if not isinstance(attachments, list):
        raise InvalidMail('"attachments" must be a list of objects')
    return Mail(
        sender=_text_of(document, "from") or "",
        recipients=tuple(recipients),
        subject=_text_of(document, "subject") or "",
        text=_text_of(document, "text"),
        html=_text_of(document, "html"),
        attachments=tuple(_parse_attachment(entry) for entry in attachments),
        headers=headers,
    )


def check_event_key(key: str) -> None:
    """Raise InvalidMail unless this can name a business event (and be stored and found as that)."""
    if not key or len(key) > 255:
        raise InvalidMail(f"the event key has {len(key)} characters; it must have between 1 and 255")
    _refuse(_CONTROL, key, "the event key", "a control character")


def check_name(name: str | None, what: str, *, most: int = 255) -> None:
    """Raise InvalidMail unless this can be stored and found as a name, or is none at all."""
    if name is None:
        return
    if not name or len(name) > most:
        raise InvalidMail(f"{what} has {len(name)} characters; it must have between 1 and {most}")
    _refuse(_CONTROL, name, what, "a control character")
    _refuse(_PADDED, name, what, _PADDING)


def check_moment(moment: datetime | None, what: str) -> None:
    """Raise InvalidMail for a time of which nobody can say which moment it is."""
    if moment is not None and moment.tzinfo is None:
        raise InvalidMail(
            f"{what} is {moment.isoformat()}, which has no time zone; give it one, like datetime.now(UTC)"
        )


def idempotency_key_for(event_key: str, recipient: str) -> str:
    """The key the provider sees for this (event, recipient): the same in every attempt, for ever.

    It starts with the event key, so that a person can read it, and ends with a hash, so that it is unique,
    short and safe in any header. It is a pure function of its arguments: nothing random, nothing renewed.
    """
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", event_key)[:80].strip("-") or "mail"
    local, _, domain = recipient.rpartition("@")
    digest = hashlib.sha256(f"{SCHEME}\0{event_key}\0{local}@{domain.lower()}".encode()).hexdigest()
    return f"{readable}.{SCHEME}.{digest[:32]}"


def message_id_for(idempotency_key: str, sender: str) -> str:
    """The Message-ID of this (event, recipient); a retry keeps it (RFC 5322 section 3.6.4)."""
    domain = Mailbox.parse(sender, "sender").address.rpartition("@")[2]
    digest = hashlib.sha256(f"message-id\0{idempotency_key}".encode()).hexdigest()
    return f"<{digest[:32]}.{SCHEME}@{domain}>"


def render(mail: Mail, message_id: str, date: datetime) -> bytes:
    """The message as RFC 5322 bytes with CRLF line ends, 7-bit clean, no line longer than 998 octets."""
    message = EmailMessage(policy=_WIRE)
    message["From"] = _header_address(Mailbox.parse(mail.sender, "sender"))
    message["To"] = [_header_address(Mailbox.parse(r, "recipient")) for r in mail.recipients]
    message["Subject"] = mail.subject
    message["Date"] = date
    message["Message-ID"] = message_id
    for name, value in mail.headers.items():
        message[name] = value
    _add_bodies(message, mail)
    _settle_boundaries(message, message_id)
    raw = message.as_bytes(policy=_WIRE)
    assert all(len(line) <= MAX_LINE_OCTETS for line in raw.split(b"\r\n")), "the standard library folds"
    return raw


def single(mail: Mail, recipient: str) -> Mail:
    """The mail as this one recipient gets it: nobody sees who else was written to."""
    return replace(mail, recipients=(recipient,))


def _add_bodies(message: EmailMessage, mail: Mail) -> None:
    # The nesting that mail programs expect: mixed( alternative( text, related( html, images ) ), files ).
    inline = [a for a in mail.attachments if a.content_id is not None]
    files = [a for a in mail.attachments if a.content_id is None]
    html_part = message
    if mail.text is not None:
        message.set_content(mail.text)
        if mail.html is not None:
            message.add_alternative(mail.html, subtype="html")
            # The policy makes every part an EmailMessage; the signature only promises a Message.
            html_part = cast(EmailMessage, list(message.iter_parts())[-1])
    elif mail.html is not None:
        message.set_content(mail.html, subtype="html")
    for image in inline:
        main, sub = image.content_type.split("/")
        html_part.add_related(
            image.content,
            maintype=main,
            subtype=sub,
            cid=f"<{(image.content_id or '').strip('<>')}>",
            filename=image.filename,
            disposition="inline",
        )
    for attachment in files:
        main, sub = attachment.content_type.split("/")
        message.add_attachment(attachment.content, maintype=main, subtype=sub, filename=attachment.filename)


def _settle_boundaries(message: EmailMessage, message_id: str) -> None:
    # The standard library draws boundaries at random; ours follow from the Message-ID, so that rendering twice
    # gives the same bytes. A text that happens to contain the boundary moves it on.
    multiparts = [part for part in message.walk() if part.is_multipart()]
    leaves = [part.get_payload() for part in message.walk() if not part.is_multipart()]
    for number, part in enumerate(multiparts):
        salt = 0
        while True:
            digest = hashlib.sha256(f"{message_id}\0{number}\0{salt}".encode()).hexdigest()
            boundary = f"=_{digest[:40]}"
            if not any(boundary in str(leaf) for leaf in leaves):
                break
            salt += 1
        part.set_boundary(boundary)


def _header_address(mailbox: Mailbox) -> Address:
    return Address(display_name=mailbox.name, addr_spec=mailbox.address)


def in_ascii(domain: str) -> str:
    """A domain as the DNS has it: `xn--…` where it has other letters. Raises `UnicodeError` for what is no domain.

    By RFC 5891 and UTS #46: Python's own codec speaks IDNA of 2003, which makes `ss` of ß, and so another domain, which
    somebody else may have.
    """
    return idna.encode(domain, uts46=True).decode("ascii")


def _checked_address(address: str, what: str) -> str:
    local, at, domain = address.rpartition("@")
    if not at:
        raise InvalidMail(f"the {what} {address!r} is not an address; write it like 'ann@example.org'")
    if not local.isascii():
        raise InvalidMail(
            f"the {what} {address!r} has non-ASCII letters before the @, which few mail servers accept (RFC 6531)"
        )
    if not domain.isascii():
        try:
            domain = in_ascii(domain)
        except UnicodeError as error:
            raise InvalidMail(
                f"the domain of the {what} {address!r} is not a domain name; if there is one, write it in its xn-- form"
            ) from error
    # RFC 5321 section 4.5.3.1: 64 octets before the @, 255 after it.
    if not _LOCAL_PART.match(local) or not _DOMAIN.match(domain) or len(local) > 64 or len(domain) > 255:
        raise InvalidMail(f"the {what} {address!r} is not an address; write it like 'ann@example.org'")
    return f"{local}@{domain}"


def _check_header(name: str, value: str) -> None:
    _refuse_control(name, "a header name")
    if not _HEADER_NAME.match(name):
        raise InvalidMail(f"{name!r} is not a header name; use letters, digits and dashes")
    if name.lower() in _OWN_HEADERS or name.lower().startswith(("content-", "resent-")):
        raise InvalidMail(f"the header {name!r} is written by the sender itself and cannot be given")
    _refuse_control(value, f"the header {name!r}")


def _refuse_control(text: str, what: str) -> None:
    _refuse(
        _FORBIDDEN,
        text,
        what,
        "a line break, NUL or other control character, which could smuggle in a header",
    )


def _refuse(pattern: re.Pattern[str], text: str, what: str, because: str) -> None:
    if pattern.search(text):
        raise InvalidMail(f"{what} contains {because}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMail(
            f"{what} contains a half character (lone surrogate), which cannot be encoded"
        ) from error


def _text_of(document: Mapping[str, object], name: str) -> str | None:
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidMail(f'"{name}" must be a string')
    return value


def _parse_attachment(entry: object) -> Attachment:
    if not isinstance(entry, dict):
        raise InvalidMail('each attachment must be an object with "filename", "content_type" and "content"')
    content = entry.get("content")
    try:
        if not isinstance(content, str):
            raise ValueError("not a string")
        data = base64.b64decode(content, validate=True)
    except (ValueError, binascii.Error) as error:
        raise InvalidMail(f'the "content" of attachment {entry.get("filename")!r} is not base64') from error
    return Attachment(
        filename=_text_of(entry, "filename") or "",
        content_type=_text_of(entry, "content_type") or "application/octet-stream",
        content=data,
        content_id=_text_of(entry, "content_id"),
    )
