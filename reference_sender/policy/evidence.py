"""What one attempt saw, as plain facts, and the four things it can mean.

A transport gathers `Evidence` and judges nothing; `classify` turns it into an outcome.
Must not hold: any judgement about codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Wire(StrEnum):
    """Which protocol was spoken: the same number means different things on different wires."""

    HTTP = "http"
    SMTP = "smtp"


class Phase(StrEnum):
    """How far an attempt got. The line between BODY and SENT is the one that doubt depends on."""

    CONNECT = "connect"  # name look-up, TCP, TLS
    GREETING = "greeting"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"  # the DATA command itself, up to 354
    BODY = "body"  # bytes of the mail are leaving, but the last one is still held back
    SENT = "sent"  # the last byte may have left: from here silence says neither yes nor no


#: An address has letters that this wire does not carry (RFC 6531): the provider was not asked.
NO_LETTERS = "no letters for its address"
#: Troubles that are our own: the provider was asked nothing, so they say nothing about it.
OUR_OWN = frozenset({"withdrawn", "no time left", NO_LETTERS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The facts of one attempt."""

    wire: Wire
    phase: Phase  # the last phase that was reached
    code: int | None = None  # only when a complete, well-formed reply was read
    enhanced: str | None = None  # RFC 3463, for people; the basic code wins
    answer: str | None = None  # what the provider said, shortened; for people
    retry_after: str | None = None  # the header as it came, unread
    limits: tuple[tuple[str, str], ...] = ()  # RateLimit fields as they came, unread
    provider_id: str | None = None
    problem: str | None = None  # the provider's own error name, like key_in_flight
    recipient_code: int | None = None  # a 2xx that refused this recipient in its body
    trouble: str | None = None  # without a reply: timeout, refused, reset, eof, garbled, truncated, …


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The provider took responsibility."""

    reason: str
    provider_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TryLater:
    """Surely not accepted by this attempt; the same mail may succeed later."""

    reason: str
    channel: bool = False  # the trouble is the provider's or the line's: it does not count against the mail
    lasting: bool = (
        False  # of the channel: it lasts until a person mends it (login, account, address of the API)
    )
    throttled: bool = False  # too fast, says the provider: it does not count against the mail either
    doubt: bool = False  # something of this mail is still under way elsewhere (an earlier request in flight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Surely not accepted by this attempt, and asking again unchanged is pointless."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """It may have been accepted or not, and nothing this attempt saw can tell."""

    reason: str
    futile: bool = False  # the same bytes will hear the same: to send them again tells nothing


Outcome = Accepted | TryLater | Refused | Unknown
