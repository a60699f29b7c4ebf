"""A request's JSON body becomes a submission, or a refusal that names the place and what would be right."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import msgspec

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
from simulator.dialects.native.letter import check_size, fields_of, message_id_of, once, read_letter, write
from simulator.dialects.native.plain import plain_mail
from simulator.provider.answer import Reason, Refused
from simulator.provider.message import (
    HEADER_LIMIT_BYTES,
    LINE_CHARS,
    OBLIGATION_HEADER,
    Form,
    Submission,
    bounded,
    digest,
    from_bytes,
    header,
    identifier,
    short_name,
    shortened,
)

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

    With `raw`, the message goes on unchanged. Otherwise the fields do, and become a message when somebody asks for
    it; a missing Message-ID is made from the key (or the content) at the provider's name `host`.
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


_sorted = msgspec.json.Encoder(order="sorted").encode


def canonical_of(data: object) -> bytes:
    """Return the JSON of a request's meaning, in ASCII: order of members and spaces do not count."""
    try:
        canonical = _sorted(data)
        if canonical.isascii():
            return canonical
    except (UnicodeEncodeError, ValueError, OverflowError, RecursionError):
        pass  # Halves of surrogate pairs, numbers of other sizes: written as before, refused by whoever reads.
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")


def fingerprint_of(data: object) -> str:
    """Return the hex SHA-256 of a request's meaning."""
    return digest(canonical_of(data))


def read_mail(data: dict[str, Any], *, key: str | None, now: datetime, host: str) -> Submission:
    """Read one mail, whose key has been taken out of it. Raise `Malformed`."""
    canonical = canonical_of(data)
    fingerprint = digest(canonical)
    if "raw" in data:
        return _raw_mail(data, key, fingerprint)
    plain = plain_mail(data, canonical, key=key, fingerprint=fingerprint, host=host)
    if plain is not None:
        return plain
    letter = read_letter(data)
    check_size(letter)
    message_id = message_id_of(letter, key=key, fingerprint=fingerprint, host=host)
    if letter.attachments:
        # What cannot be written must be refused now, not found out when somebody asks for the message.
        write(letter, message_id=message_id, fingerprint=fingerprint, now=now)
    fields = fields_of(letter, message_id)
    if message_id is None:
        message_id = short_name((header(fields, "Message-ID") or "").strip(), LINE_CHARS) or None
    return Submission(
        dialect=DIALECT,
        sender=letter.from_[1],
        recipients=letter.recipients,
        raw=canonical,
        form=Form.FIELDS,
        key=key,
        fingerprint=fingerprint,
        sha256=fingerprint,
        message_id=message_id,
        # The whole of them is in the body; what the ledger keeps in mind has a bound.
        headers=fields if len(canonical) <= HEADER_LIMIT_BYTES else bounded(fields),
        subject=shortened(letter.subject),
        obligation=identifier(header(fields, OBLIGATION_HEADER)),
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
