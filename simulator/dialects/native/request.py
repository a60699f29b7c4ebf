"""A request's JSON body becomes a submission, or a refusal that names the place and what would be right."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from simulator.dialects.native import DIALECT
from simulator.dialects.native.fields import (
    Malformed,
    as_object,
    from_base64,
    mailbox,
    mailboxes,
    only,
    parse,
    text,
)
from simulator.dialects.native.keys import take_key
from simulator.dialects.native.letter import once, read_letter, write
from simulator.provider.answer import Reason, Refused
from simulator.provider.message import Submission, from_bytes

RAW_KEYS = frozenset({"from", "to", "raw"})


def read(
    body: bytes,
    *,
    key: str | None,
    now: datetime,
    host: str,
    body_field: str | None = None,
    max_chars: int = 255,
) -> Submission | Refused:
    """Read the JSON body of a request for one mail.

    With `raw`, the message goes on unchanged. Otherwise it is built from the fields, dated `now`, and a
    missing Message-ID is made from the key (or the content) at the provider's name `host`.
    `key` came with the head; `body_field` names the member of the body where one may be, too.
    """
    try:
        data = as_object(parse(body), "the body")
        if body_field is not None:
            inside = take_key(data, body_field, max_chars=max_chars)
            key = inside if key is None else key
        return read_mail(data, key=key, now=now, host=host)
    except Malformed as problem:
        return Refused(reason=problem.reason, detail=problem.detail)


def fingerprint_of(data: object) -> str:
    """Return the hex SHA-256 of a request's meaning: order of members and spaces do not count."""
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")
    return hashlib.sha256(canonical).hexdigest()


def read_mail(data: dict[str, Any], *, key: str | None, now: datetime, host: str) -> Submission:
    """Read one mail, whose key has been taken out of it. Raise `Malformed`."""
    fingerprint = fingerprint_of(data)
    if "raw" in data:
        return _raw_mail(data, key, fingerprint)
    letter = read_letter(data)
    return from_bytes(
        write(letter, key=key, fingerprint=fingerprint, now=now, host=host),
        dialect=DIALECT,
        sender=letter.from_[1],
        recipients=letter.recipients,
        key=key,
        fingerprint=fingerprint,
    )


def _raw_mail(data: dict[str, Any], key: str | None, fingerprint: str) -> Submission:
    only(data, RAW_KEYS, 'a body with "raw"')
    sender = text(data, "from")
    if sender is None:
        raise Malformed('"from" is missing; give the envelope sender, like "a@example.org"')
    # The empty string is the null sender of bounces (RFC 5321, section 4.5.5).
    envelope_sender = mailbox(sender, '"from"', Reason.INVALID)[1] if sender else ""
    recipients = [address for _, address in mailboxes(data, "to")]
    raw = from_base64(text(data, "raw") or "", '"raw"')
    if not raw:
        raise Malformed('"raw" is empty; give the base64 of the message')
    return from_bytes(
        raw,
        dialect=DIALECT,
        sender=envelope_sender,
        recipients=once(recipients),
        key=key,
        fingerprint=fingerprint,
    )
