"""SMTP's words: answers become reply lines (RFC 5321, section 4.2; enhanced codes of RFC 3463).

Only what the provider says lives here. Reading commands and addresses is the server's work, and so is
everything that touches the connection.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import assert_never

from simulator.provider.answer import (
    Accepted,
    Piece,
    Reason,
    Refused,
    Reply,
    Results,
    RetryAfter,
    RetryAfterKind,
    Words,
)

#: Why the provider itself refuses: code, enhanced code. Reasons that only HTTP has get the nearest meaning.
REASONS: dict[Reason, tuple[int, str]] = {
    Reason.INVALID: (554, "5.6.0"),
    Reason.CREDENTIAL_MISSING: (530, "5.7.0"),
    Reason.CREDENTIAL_UNKNOWN: (535, "5.7.8"),
    Reason.KEY_REQUIRED: (554, "5.7.0"),
    Reason.KEY_IN_FLIGHT: (450, "4.5.0"),
    Reason.KEY_REUSED: (554, "5.5.0"),
    Reason.KEY_DONE: (554, "5.5.0"),
    Reason.KEY_FAILED: (554, "5.5.0"),
    Reason.TOO_LARGE: (552, "5.3.4"),
    Reason.TOO_MANY_RECIPIENTS: (452, "4.5.3"),
    Reason.TOO_MANY_MAILS: (452, "4.5.3"),
    Reason.NO_RECIPIENTS: (554, "5.5.1"),
    Reason.RATE_LIMITED: (451, "4.7.0"),
    Reason.GREYLISTED: (451, "4.7.1"),
    Reason.QUOTA_EXCEEDED: (452, "4.5.3"),
    Reason.TOO_MANY_CONNECTIONS: (421, "4.7.0"),
}

#: The usual words for a code that a rule gives without words: enhanced code, text.
#: Greetings and 3yz replies carry no enhanced code (RFC 2034, section 4).
USUAL: dict[int, tuple[str | None, str]] = {
    220: (None, "service ready"),
    221: ("2.0.0", "bye"),
    235: ("2.7.0", "authentication succeeded"),
    250: ("2.0.0", "OK"),
    251: ("2.1.5", "user not local; will forward"),
    252: ("2.5.2", "cannot verify the user, but will take the message"),
    334: (None, ""),
    354: (None, "end data with <CR><LF>.<CR><LF>"),
    421: ("4.3.2", "service not available, closing the connection"),
    432: ("4.7.12", "a password transition is needed"),
    450: ("4.2.1", "mailbox unavailable, try again later"),
    451: ("4.3.0", "local error in processing, try again later"),
    452: ("4.3.1", "insufficient system storage, try again later"),
    454: ("4.7.0", "temporary authentication failure"),
    455: ("4.5.4", "the server cannot accommodate the parameters"),
    500: ("5.5.2", "syntax error, command not recognised"),
    501: ("5.5.4", "syntax error in parameters or arguments"),
    502: ("5.5.1", "command not implemented"),
    503: ("5.5.1", "bad sequence of commands"),
    504: ("5.5.4", "command parameter not implemented"),
    521: ("5.3.2", "this host takes no mail"),
    530: ("5.7.0", "authentication required"),
    534: ("5.7.9", "authentication mechanism is too weak"),
    535: ("5.7.8", "authentication credentials invalid"),
    538: ("5.7.11", "encryption required for this authentication mechanism"),
    550: ("5.1.1", "no such mailbox"),
    551: ("5.1.6", "user not local"),
    552: ("5.2.2", "mailbox full"),
    553: ("5.1.3", "mailbox name not allowed"),
    554: ("5.0.0", "transaction failed"),
    555: ("5.5.4", "parameters not recognised or not implemented"),
    556: ("5.1.10", "the domain takes no mail"),
}

#: The words for any other code, by its first digit.
_USUAL_BY_CLASS: dict[int, tuple[str | None, str]] = {
    2: ("2.0.0", "OK"),
    3: (None, "go on"),
    4: ("4.0.0", "try again later"),
    5: ("5.0.0", "refused for good"),
}

_ENHANCED = re.compile(rb"(?m)^(\d{3}[ -])[245]\.\d{1,3}\.\d{1,3} ")

#: Bytes that are a line, but no reply: no code, and not even UTF-8.
GARBLED = b"\xff\xfe2S0 m@il b0x \x00\xa7 ok\r\n"


def reply(words: Words, now: datetime) -> bytes:
    """Return the reply that says these words, with its final CRLF."""
    match words:
        case Accepted(id=id_):
            return queued(id_)[1]
        case Refused(reason=reason, detail=detail, retry_after=retry_after, smtp=codes):
            number, class_ = codes or REASONS[reason]
            return lines(number, class_, _with_wait(detail, retry_after, now))
        case Reply(code=code, enhanced=enhanced, text=text, retry_after=retry_after):
            usual_enhanced, usual_text = USUAL.get(code) or _USUAL_BY_CLASS[code // 100]
            if text is None:
                # Words of a rule go out as they were written; only where it has none, ours are whole.
                enhanced = usual_enhanced if enhanced is None else enhanced
                text = usual_text
            return lines(code, enhanced, _with_wait(text, retry_after, now))
        case Results():
            raise AssertionError("SMTP has no batches")
        case _:
            assert_never(words)


def queued(id_: str) -> tuple[str, bytes]:
    """Return the reply that says that a mail was taken: its first line as a text, and all of it."""
    said = f"250 2.0.0 OK: queued as {id_}"
    return said, said.encode() + b"\r\n"


def lines(code: int, enhanced: str | None, text: str) -> bytes:
    """Return one reply; line breaks in `text` make it a multi-line one (RFC 5321, section 4.2.1).

    The enhanced code stands in every line (RFC 2034, section 4).
    """
    prefix = f"{enhanced} " if enhanced is not None else ""
    parts = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    out = [f"{code}-{prefix}{part}" for part in parts[:-1]] + [f"{code} {prefix}{parts[-1]}"]
    return "".join(f"{line}\r\n" for line in out).encode("utf-8", "replace")


def without_enhanced(whole: bytes) -> bytes:
    """Return a reply without its enhanced codes."""
    return _ENHANCED.sub(rb"\1", whole)


def cut(whole: bytes, each: Piece) -> list[bytes]:
    """Return a reply in pieces."""
    match each:
        case Piece.REPLY:
            return [whole]
        case Piece.LINE:
            return whole.splitlines(keepends=True)
        case Piece.OCTET:
            return [whole[at : at + 1] for at in range(len(whole))]


def part_of(whole: bytes) -> bytes:
    """Return the beginning of a reply that a truncated answer consists of: two of the three digits.

    Not more: clients take a final line without its CRLF for a whole one, and `250 O` would be a yes.
    """
    return whole[:2]


def _with_wait(text: str, retry_after: RetryAfter | None, now: datetime) -> str:
    """Retry-After has no place on this wire: servers put it into the text, and so do we."""
    if retry_after is None:
        return text
    told = retry_after.text(now)
    match retry_after.kind:
        case RetryAfterKind.SECONDS | RetryAfterKind.ZERO:
            wait = f"try again in {told} seconds"
        case RetryAfterKind.DATE:
            wait = f"try again after {told}"
        case RetryAfterKind.GARBAGE:
            wait = f"try again {told}"
        case _:
            assert_never(retry_after.kind)
    return f"{text}; {wait}" if text else wait
