"""How an account's SMTP is spoken: what EHLO offers, what must come before a mail, and how much a session may hold.

These are settings, not faults: with all of them at their defaults the server is RFC 5321 to the letter.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Keywords of EHLO that can be offered (RFC 1870, 2920, 6152, 6531, 3030, 3461, 2034, 4954, 3207, 5321), in order.
KEYWORDS = (
    "SIZE",
    "PIPELINING",
    "8BITMIME",
    "SMTPUTF8",
    "CHUNKING",
    "DSN",
    "ENHANCEDSTATUSCODES",
    "AUTH",
    "STARTTLS",
    "HELP",
)
#: Mechanisms of AUTH that can be offered (RFC 4616, and LOGIN as everybody has it).
MECHANISMS = ("PLAIN", "LOGIN")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpRules:
    """The settings of the table `[smtp]`. None: no limit."""

    banner: str | None = None
    """The text of the greeting after its code; None: host name and `ESMTP ready`."""
    hide: tuple[str, ...] = ()
    """Keywords that EHLO does not offer; what they stand for is then not taken either."""
    offer: tuple[str, ...] = ()
    """Further lines of EHLO, said as they are; nothing stands behind them."""
    size: int | None = None
    """The number that EHLO says behind SIZE, true or not; None: the limit that holds. 0: no number, as RFC 1870 allows."""
    ehlo: bool = True
    """False: EHLO is a command that this server does not have, HELO works."""
    auth: tuple[str, ...] = MECHANISMS
    require_auth: bool = False
    """True: MAIL is refused with 530 before AUTH."""
    require_tls: bool = False
    """True: before STARTTLS nothing but EHLO, NOOP, STARTTLS and QUIT is taken (RFC 3207, section 4)."""
    max_messages: int | None = None
    """Transactions per connection; the next MAIL gets 421."""
    max_line_bytes: int | None = None
    """Longest line of a message, without its CRLF."""
    max_local_part_bytes: int = 64
    """RFC 5321, section 4.5.3.1.1. Return paths that carry a recipient may be longer, and many servers take them."""
    idle_timeout_s: float | None = 300.0
    """How long a sender may keep the server waiting, for a whole command or a piece of a message.

    RFC 5321, section 4.5.3.2.7, asks for five minutes.
    """
    message_timeout_s: float | None = 3_600.0
    """How long a whole message may take to come in."""

    def offers(self, keyword: str) -> bool:
        """Tell whether a keyword is offered, as far as these settings go."""
        return keyword not in self.hide and (keyword != "AUTH" or bool(self.auth))
