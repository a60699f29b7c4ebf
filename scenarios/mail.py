"""The mails of a scenario: what is handed to a sender, and whether what arrived says the same.

Pure: mails are values, their content comes from a seeded `random.Random`. All addresses are under
`example.org` and `example.com` (RFC 2606), so that no real person is ever written to.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass, replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

SHOP = "Shop <shop@example.org>"
OBLIGATION_HEADER = "X-Obligation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file in a mail; with a content id (without angle brackets) it is an image inside the HTML part."""

    filename: str
    content_type: str
    content: bytes
    content_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "filename": self.filename,
            "content_type": self.content_type,
            "content": base64.b64encode(self.content).decode("ascii"),
            "content_id": self.content_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """One business event's mail. Its recipients are its own: no other mail of the run goes to them."""

    key: str
    to: tuple[str, ...]
    subject: str
    text: str
    sender: str = SHOP
    html: str | None = None
    attachments: tuple[Attachment, ...] = ()
    mail_class: str | None = None
    """`code`: somebody waits for it; `newsletter`: it goes behind everything else. None: neither."""
    expires_in_s: float | None = None
    """Seconds from the enqueue after which it is not worth sending any more."""
    ref: str = ""
    """Which obligation it keeps; goes along as header `X-Obligation`. Empty: the key."""

    @property
    def obligation(self) -> str:
        return self.ref or self.key

    @property
    def recipient(self) -> str:
        """The only recipient, bare address."""
        (address,) = self.to
        return bare(address)

    @property
    def recipients(self) -> tuple[str, ...]:
        """All recipients, bare addresses."""
        return tuple(bare(address) for address in self.to)

    def again(self, key: str) -> Mail:
        """Return another business event with the same content to the same people."""
        return replace(self, key=key, ref=self.obligation)

    def as_json(self, *, rollback: bool = False) -> dict[str, Any]:
        """Return the mail as senders get it (docs/certification.md)."""
        return {
            "key": self.key,
            "from": self.sender,
            "to": list(self.to),
            "subject": self.subject,
            "text": self.text,
            "html": self.html,
            "attachments": [each.as_json() for each in self.attachments],
            "headers": {OBLIGATION_HEADER: self.obligation},
            "rollback": rollback,
            **({} if self.mail_class is None else {"class": self.mail_class}),
            **({} if self.expires_in_s is None else {"expires_in_s": self.expires_in_s}),
        }


def bare(address: str) -> str:
    """Return the address without a display name."""
    return address.rpartition("<")[2].rstrip(">") if "<" in address else address


def real_mail(key: str, to: str, rng: random.Random) -> Mail:
    """Return a mail like those of a shop: attachment, inline image, names and a subject that are not ASCII,
    lines that begin with dots, and lines longer than SMTP's 998 characters."""
    text = "\n".join(
        (
            "Grüß Gott, Frau Łącka,",
            "",
            ".",
            "..",
            ".a line that begins with a dot",
            "From here on a line that looks like an mbox separator",
            "=20 looks like quoted-printable, =?utf-8?q?this?= like an encoded word",
            "long: " + "word " * 500,
            "longer without a blank: " + "x" * 1500,
            "日本語の行。 Ελληνικά. 🎉",
            "",
            "-- ",
            "the end, with a blank before the line break ",
        )
    )
    image = b"\x89PNG\r\n\x1a\n" + rng.randbytes(3000)
    html = f"<html><body><p>Grüß Gott</p><img src='cid:logo'><pre>.\n..\n{'y' * 1200}</pre></body></html>"
    return Mail(
        key=key,
        to=(f"Zoë Łącka <{to}>",),
        sender="Müller & Søn <shop@example.org>",
        subject="Bestellung № 7 – danke, Zoë! " + "sehr " * 20 + "日本 🎉",
        text=text,
        html=html,
        attachments=(
            Attachment(filename="Rechnung – März.pdf", content_type="application/pdf", content=b"%PDF-1.7\n.\r\n..\r\n" + rng.randbytes(50_000)),
            Attachment(filename="logo.png", content_type="image/png", content=image, content_id="logo"),
        ),
    )  # fmt: skip


def large_mail(key: str, to: str, rng: random.Random, *, size_bytes: int = 10_000_000) -> Mail:
    """Return a mail with one large attachment."""
    return Mail(
        key=key,
        to=(to,),
        subject="The whole catalogue",
        text="Find the catalogue attached.",
        attachments=(
            Attachment(
                filename="catalogue.bin",
                content_type="application/octet-stream",
                content=rng.randbytes(size_bytes),
            ),
        ),
    )


def differences(mail: Mail, raw: bytes) -> list[str]:
    """Compare what was given with what arrived; return each difference as a sentence.

    Line ends and a final line break may change on the way (RFC 5322, section 2.1); nothing else may.
    """
    parsed = message_from_bytes(raw, policy=policy.default)
    assert isinstance(parsed, EmailMessage)
    found = []
    if str(parsed["Subject"]) != mail.subject:
        found.append(f"the subject became {str(parsed['Subject'])!r}")
    for name, given in (("From", (mail.sender,)), ("To", mail.to)):
        header = parsed[name]
        arrived = [(each.display_name, each.addr_spec) for each in header.addresses] if header else []
        wanted = [(_display(each), bare(each)) for each in given]
        if arrived != wanted:
            found.append(f"{name} became {arrived}")
    for what, kind, content in (("text", "plain", mail.text), ("html", "html", mail.html)):
        part = parsed.get_body(preferencelist=(kind,))
        if content is None:
            continue
        arrived_text = part.get_content() if part is not None else None
        if arrived_text is None or _lines(arrived_text) != _lines(content):
            found.append(f"the {what} part {'is missing' if arrived_text is None else 'changed'}")
    parts = {part.get_filename(): part for part in parsed.walk() if part.get_filename()}
    for attachment in mail.attachments:
        # An inline image may travel without a name: its content id is what the HTML needs.
        attached = parts.get(attachment.filename) or next(
            (
                each
                for each in parsed.walk()
                if attachment.content_id and each["Content-ID"] == f"<{attachment.content_id}>"
            ),
            None,
        )
        if attached is None:
            found.append(f"attachment {attachment.filename!r} is missing")
        elif attached.get_payload(decode=True) != attachment.content:
            found.append(f"attachment {attachment.filename!r} changed")
        elif attachment.content_id and attached["Content-ID"] != f"<{attachment.content_id}>":
            found.append(f"attachment {attachment.filename!r} has content id {attached['Content-ID']}")
    return found


def _display(address: str) -> str:
    return address.rpartition("<")[0].strip() if "<" in address else ""


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").rstrip("\n").split("\n")
