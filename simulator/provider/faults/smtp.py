"""The faults that only SMTP has: of its dialogue, and of what providers say when they throttle."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from simulator.provider.answer import Answer, DragOn, Piece, Reply, Unasked, WhenHeard
from simulator.provider.faults.endings import End, ending
from simulator.provider.faults.stages import Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseEhlo:
    """Refuse EHLO and take HELO: a server of 1990, or a filter in front of one (RFC 5321, section 3.2)."""

    name: ClassVar[str] = "refuse_ehlo"
    stages: ClassVar[Stages] = {"smtp": ("ehlo",)}
    command: ClassVar[str] = "EHLO"
    """Only this command is an occasion."""
    code: int = 502
    enhanced: str | None = None
    text: str | None = None

    def answer(self) -> Answer:
        return Reply(code=self.code, enhanced=self.enhanced, text=self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTheBody:
    """End the line in the middle of the message: after so many octets of it, and not before its headers are there."""

    name: ClassVar[str] = "cut_body"
    stages: ClassVar[Stages] = {"smtp": ("body",)}
    after_bytes: int
    end: End = End.HANG_UP

    def answer(self) -> Answer:
        return WhenHeard(size_bytes=self.after_bytes, then=ending(self.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseOnNext:
    """Keep the line until the sender says its next word, and end it then: the race that an idle connection loses."""

    name: ClassVar[str] = "close_on_next"
    stages: ClassVar[Stages] = {"smtp": ("idle",)}
    end: End = End.HANG_UP
    code: int | None = None
    """Said before: 421, if anything."""

    def answer(self) -> Answer:
        then = ending(self.end) if self.code is None else Reply(code=self.code)
        return WhenHeard(size_bytes=1, then=then)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOutOfTurn:
    """Say a reply that nobody asked for, and go on: within the message, or after its answer. Senders lose count."""

    name: ClassVar[str] = "out_of_turn"
    stages: ClassVar[Stages] = {"smtp": ("body", "idle")}
    code: int = 250
    enhanced: str | None = None
    text: str | None = None

    def answer(self) -> Answer:
        return Unasked(words=Reply(code=self.code, enhanced=self.enhanced, text=self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tarpit:
    """From here on, wait before each reply of this connection (or each line, or octet): just under every time limit."""

    name: ClassVar[str] = "tarpit"
    stages: ClassVar[Stages] = {"smtp": ("connect", "ehlo", "auth", "mail", "rcpt", "data")}
    delay_s: float
    each: Piece = Piece.REPLY

    def answer(self) -> Answer:
        return DragOn(delay_s=self.delay_s, each=self.each)


class Style(StrEnum):
    """Whose words for "too fast" or "too much"."""

    GENERIC = "generic"
    CLOSING = "closing"
    PERMANENT = "permanent"
    SES = "ses"
    SES_QUOTA = "ses_quota"
    SENDGRID = "sendgrid"
    SENDGRID_CREDITS = "sendgrid_credits"


#: Code, enhanced code and text by style. 550 for what is over in a second is what Mailtrap says; a 451 for an account
#: that is out of credits, which no waiting helps, is what SendGrid says.
THROTTLES: dict[Style, tuple[int, str | None, str]] = {
    Style.GENERIC: (451, "4.7.0", "too many messages, try again later"),
    Style.CLOSING: (421, "4.7.0", "too many messages, try again later, closing the connection"),
    Style.PERMANENT: (550, "5.7.0", "Requested action not taken: too many emails per second"),
    Style.SES: (454, None, "Throttling failure: Maximum sending rate exceeded."),
    Style.SES_QUOTA: (454, None, "Throttling failure: Daily message quota exceeded."),
    Style.SENDGRID: (452, None, "Too many recipients received this hour (throttled)"),
    Style.SENDGRID_CREDITS: (451, None, "Authentication failed: Maximum credits exceeded"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Refuse in the words that real providers use for "too fast", the misleading ones among them."""

    name: ClassVar[str] = "throttle"
    stages: ClassVar[Stages] = {"smtp": ("connect", "auth", "mail", "rcpt", "data", "message")}
    style: Style = Style.GENERIC

    def answer(self) -> Answer:
        code, enhanced, text = THROTTLES[self.style]
        return Reply(code=code, enhanced=enhanced, text=text)
