"""What a server learnt at a stage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What a server learnt at this stage. None or empty: nothing new."""

    credential: str | None = None
    secret: str | None = None
    """The password that came with it, where the wire has one."""
    sender: str | None = None
    recipient: str | None = None
    """The recipient this stage is about."""
    recipients: tuple[str, ...] = ()
    """All recipients, on a wire that brings them at once."""
    key: str | None = None
    message_id: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    fingerprint: str = ""
    command: str = ""
    """SMTP: `EHLO` or `HELO`, where both come to the same stage."""


#: For stages at which nothing new is learnt.
NOTHING_NEW = Detail()
