"""What an SMTP server says, and what a broken line means: octets and exceptions in, facts out.

Must not hold: sockets, commands, what a code means (`policy.classify`).
"""

from __future__ import annotations

import asyncio
import re
import ssl

from aiosmtplib.errors import SMTPException, SMTPResponseException, SMTPTimeoutError

from reference_sender.policy.evidence import Evidence, Phase, Wire

_KEPT_ANSWER_CHARS = 2_000

# A complete reply: continuation lines, then the last one (RFC 5321 section 4.2).
_REPLY = re.compile(rb"(?:([2-5][0-9]{2})-[^\r\n]*\r?\n)*([2-5][0-9]{2})(?: [^\r\n]*)?\r?\n")
_CODES = re.compile(rb"(?m)^([0-9]{3})")
_ENHANCED = re.compile(r"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?:\s|\Z)")
_QUEUED_AS = re.compile(r"queued as <?([^\s<>]+)", re.IGNORECASE)


class Garbled(SMTPException):
    """The server said something that is no reply."""


class NotOffered(SMTPException):
    """The server lacks something we were told to use."""


def reply_octets(heard: bytes) -> int:
    """How much of what was heard is the first reply; 0: there is none."""
    reply = _REPLY.match(heard)
    return 0 if reply is None else reply.end()


def evidence_of(heard: bytes, phase: Phase) -> Evidence:
    """What a reply says. Raises an `SMTPException` if it is none."""
    # aiosmtplib reads replies generously ("25" and "250OK" pass); what decides about a mail must be exact.
    match = _REPLY.match(heard)
    if match is None or len(set(_CODES.findall(match[0]))) != 1:
        raise Garbled("no reply that RFC 5321 knows")
    lines = [line[4:].decode("utf-8", "replace").strip() for line in match[0].splitlines()]
    text = "\n".join(lines).replace("\x00", "")
    enhanced = _ENHANCED.match(text)
    queued = _QUEUED_AS.search(text)
    return Evidence(
        wire=Wire.SMTP,
        phase=phase,
        code=int(match[2]),
        enhanced=enhanced[1] if enhanced else None,
        answer=text[:_KEPT_ANSWER_CHARS],
        provider_id=(queued[1] if queued else text.replace("\n", " "))[:255] or None,
    )


def words_of(message: str) -> str:
    """What aiosmtplib has read of a reply, as every database takes it: octets that are no UTF-8 are half characters there."""
    text = message.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text.replace("\x00", "")[:_KEPT_ANSWER_CHARS]


# Most telling first: a subclass before its parents.
_TROUBLES: tuple[tuple[type[BaseException], str], ...] = (
    (SMTPTimeoutError, "timeout"),
    (asyncio.TimeoutError, "timeout"),
    (Garbled, "garbled"),
    (NotOffered, "not offered"),
    (SMTPResponseException, "garbled"),
    (ssl.SSLError, "tls"),
    (ConnectionRefusedError, "no connection"),
    (ConnectionResetError, "reset"),
    (BrokenPipeError, "reset"),
)


def trouble_of(error: BaseException) -> str:
    """What an exception of the line is called."""
    # aiosmtplib hides a reset behind its own exception, as the cause.
    for seen in (error, error.__cause__):
        for kind, name in _TROUBLES:
            if isinstance(seen, kind):
                return name
    return "eof" if isinstance(error, SMTPException) else type(error).__name__


def hung_up_while_idle(evidence: Evidence) -> bool:
    """Whether a used connection had been closed before anything of this mail was said on it."""
    # The first command on a used connection found it closed. Nothing was begun, so a fresh connection is no retry.
    if evidence.phase is not Phase.MAIL:
        return False
    return evidence.code == 421 or evidence.trouble in {"eof", "reset"}
