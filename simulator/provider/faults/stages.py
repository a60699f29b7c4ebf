"""Where faults can strike: the stages of both wires and of webhooks, and which of them come before the mail or after booking."""

from __future__ import annotations

from collections.abc import Mapping

SMTP_STAGES = (
    "connect",
    "ehlo",
    "starttls",
    "auth",
    "mail",
    "rcpt",
    "data",
    "body",
    "message",
    "reply",
    "rset",
    "quit",
    "idle",
)
WEBHOOK_STAGES = ("webhook",)
HTTP_STAGES = ("tls", "connect", "upload", "request", "validate", "accept", "reply", "body", "lookup")

#: Places at which the mail is booked already: what goes wrong here loses the answer, not the mail.
AFTER_BOOKING = frozenset({("smtp", "reply"), ("http", "reply"), ("http", "body")})
#: Stages at which nothing is known of the mail yet.
BEFORE_THE_MAIL = frozenset({"connect", "ehlo", "starttls", "tls", "auth", "idle", "upload", "lookup"})

Stages = Mapping[str, tuple[str, ...]]
"""Wire -> the stages on it at which a fault can strike; a wire that is missing cannot have the fault."""


def all_but(*left_out: str) -> Stages:
    """Return every stage of both wires except these."""
    return {
        "smtp": tuple(stage for stage in SMTP_STAGES if stage not in left_out),
        "http": tuple(stage for stage in HTTP_STAGES if stage not in left_out),
    }
