"""The native HTTP API's words: JSON bodies become submissions, answers become status, headers and body.

Everything here is a function of its arguments: the same request at the same instant is the same message,
byte for byte. Paths, header names and connections are the server's work.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any, assert_never

from simulator.provider.answer import Accepted, Reason, Refused, RefusedRecipient, Reply, RetryAfter, Words
from simulator.provider.ledger import Acceptance
from simulator.provider.message import Submission, from_bytes

DIALECT = "native"

#: Why the provider itself refuses, as a status. The `code` of the problem is the reason's own name.
STATUS: dict[Reason, int] = {
    Reason.INVALID: 400,
    Reason.KEY_REQUIRED: 400,
    Reason.KEY_IN_FLIGHT: 409,
    Reason.KEY_REUSED: 422,
    Reason.TOO_LARGE: 413,
    Reason.TOO_MANY_RECIPIENTS: 422,
    Reason.NO_RECIPIENTS: 422,
    Reason.RATE_LIMITED: 429,
}

#: The `code` of a problem that a rule made, where the status has a usual one.
_CODE_OF_STATUS = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    409: "key_in_flight",
    413: "too_large",
    422: "invalid_request",
    429: "rate_limited",
    500: "internal_error",
    503: "unavailable",
}

_WITHOUT_BODY = frozenset({204, 205, 304})

RAW_KEYS = frozenset({"from", "to", "raw"})
FIELD_KEYS = frozenset(
    {"from", "to", "cc", "bcc", "subject", "text", "html", "headers", "message_id", "attachments"}
)
ATTACHMENT_KEYS = frozenset({"filename", "content_type", "content", "content_id"})

#: Headers that have a field of their own, or that the builder must own to write a readable message.
_OWNED = frozenset({"from", "to", "cc", "bcc", "subject", "mime-version"})

_FIELD_NAME = re.compile(r"[!-9;-~]+")
_MESSAGE_ID = re.compile(r"<[^<>@\s]+@[^<>@\s]+>")
_CONTENT_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+")
_ADDRESS = re.compile(r"[^@\s,;<>()\[\]\"]+@(?:[^@\s,;<>()\[\]\"]+|\[[^@\s\[\]]+\])")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpWords:
    """A whole HTTP answer. `Content-Length` is left to the server, which may lie about it on purpose."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


# --- what comes in ----------------------------------------------------------------------------------


class _Malformed(Exception):
    """Never leaves this file: `read` turns it into a `Refused`."""

    def __init__(self, detail: str, reason: Reason = Reason.INVALID) -> None:
        super().__init__(detail)
        self.detail = detail
        self.reason = reason


def read(body: bytes, *, key: str | None, now: datetime, host: str) -> Submission | Refused:
    """Read the JSON body of a request.

    With `raw`, the message goes on unchanged. Otherwise it is built from the fields, dated `now`, and a
    missing Message-ID is made from the key (or the content) at the provider's name `host`.
    A malformed body gives a `Refused` whose detail names the place and what would be right.
    """
    try:
        data = _object(body)
        canonical = json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")
        fingerprint = hashlib.sha256(canonical).hexdigest()
        if "raw" in data:
            return _read_raw(data, key, fingerprint)
        return _read_fields(data, key, fingerprint, now, host)
    except _Malformed as problem:
        return Refused(reason=problem.reason, detail=problem.detail)


def read_key(value: str | None) -> str | Refused | None:
    """Read an idempotency key header: a string of RFC 9651 in double quotes, or the plain characters."""
    if value is None:
        return None
    text = value.strip()
    if text.startswith('"'):
        quoted = re.fullmatch(r'"((?:[^"\\]|\\["\\])*)"', text)
        if quoted is None:
            return Refused(
                reason=Reason.INVALID,
                detail='the idempotency key begins with a double quote but is no quoted string; close it, like "order-1"',
            )
        text = re.sub(r"\\(.)", r"\1", quoted[1])
    if not text:
        return Refused(
            reason=Reason.INVALID, detail="the idempotency key is empty; leave the header out or name a key"
        )
    if len(text) > 255 or not all(" " <= char <= "~" for char in text):
        return Refused(
            reason=Reason.INVALID, detail="an idempotency key has 1 to 255 printable ASCII characters"
        )
    return text


def _object(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise _Malformed(f"the body is not UTF-8 at byte {problem.start}; send JSON in UTF-8") from problem
    except json.JSONDecodeError as problem:
        raise _Malformed(
            f"the body is not JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}"
        ) from problem
    except (ValueError, RecursionError) as problem:
        # Numbers of thousands of digits, brackets of thousands of levels.
        raise _Malformed("the body is JSON beyond what this service reads") from problem
    if not isinstance(data, dict):
        raise _Malformed(f"the body is {_kind(data)}; it must be a JSON object")
    return data


def _read_raw(data: dict[str, Any], key: str | None, fingerprint: str) -> Submission:
    _only(data, RAW_KEYS, 'a body with "raw"')
    sender = _text(data, "from")
    if sender is None:
        raise _Malformed('"from" is missing; give the envelope sender, like "a@example.org"')
    # The empty string is the null sender of bounces (RFC 5321, section 4.5.5).
    envelope_sender = _mailbox(sender, '"from"', Reason.INVALID)[1] if sender else ""
    recipients = [address for _, address in _mailboxes(data, "to")]
    raw = _base64(_text(data, "raw") or "", '"raw"')
    if not raw:
        raise _Malformed('"raw" is empty; give the base64 of the message')
    return from_bytes(
        raw,
        dialect=DIALECT,
        sender=envelope_sender,
        recipients=_once(recipients),
        key=key,
        fingerprint=fingerprint,
    )


def _read_fields(
    data: dict[str, Any], key: str | None, fingerprint: str, now: datetime, host: str
) -> Submission:
    _only(data, FIELD_KEYS, "the body")
    sender = _text(data, "from")
    if not sender:
        raise _Malformed('"from" is missing; give the sender, like "Shop <shop@example.org>"')
    from_ = _mailbox(sender, '"from"', Reason.INVALID)
    to = _mailboxes(data, "to")
    cc = _mailboxes(data, "cc") if "cc" in data else []
    bcc = _mailboxes(data, "bcc") if "bcc" in data else []

    # An address beyond ASCII cannot be an encoded word: such a message needs RFC 6532 headers.
    plain = all(address.isascii() for _, address in (from_, *to, *cc))
    message = EmailMessage(policy=SMTP if plain else SMTPUTF8)
    message["From"] = _written(from_)
    message["To"] = [_written(each) for each in to]
    if cc:
        message["Cc"] = [_written(each) for each in cc]
    message["Subject"] = _line(_text(data, "subject") or "", '"subject"')
    headers = _headers(data)
    names = {name.lower() for name, _ in headers}
    message_id = _message_id(data, names)
    if message_id is None and "message-id" not in names:
        # Not random: a second request with the same key must be the same mail (RFC 5322, section 3.6.4).
        seed = f"key/{key}" if key is not None else f"body/{fingerprint}"
        message_id = f"<{hashlib.sha256(seed.encode()).hexdigest()[:32]}@{host}>"
    if message_id is not None:
        message["Message-ID"] = message_id
    if "date" not in names:
        message["Date"] = format_datetime(now.astimezone(UTC))
    for name, value in headers:
        try:
            message[name] = value
        except (ValueError, IndexError, AttributeError) as problem:
            # The standard library's header parsers raise all of these for odd values.
            raise _Malformed(f'"headers": the value of {name!r} cannot be written: {problem}') from problem
    _fill(message, data)
    _name_boundaries(message, fingerprint)
    try:
        raw = message.as_bytes()
    except (ValueError, LookupError, AttributeError, MessageError) as problem:
        raise _Malformed(f"no message can be built from these fields: {problem}") from problem
    return from_bytes(
        raw,
        dialect=DIALECT,
        sender=from_[1],
        recipients=_once([address for _, address in (*to, *cc, *bcc)]),
        key=key,
        fingerprint=fingerprint,
    )


def _fill(message: EmailMessage, data: dict[str, Any]) -> None:
    text, html = _text(data, "text"), _text(data, "html")
    attachments = _attachments(data)
    if text is None and html is None and not attachments:
        raise _Malformed('there is no content; give "text", "html" or both')
    if text is not None or html is None:
        message.set_content(text or "", charset="utf-8")
        if html is not None:
            message.add_alternative(html, subtype="html", charset="utf-8")
    else:
        message.set_content(html, subtype="html", charset="utf-8")
    for filename, content_type, content, content_id in attachments:
        main, _, sub = content_type.partition("/")
        if content_id is None:
            message.add_attachment(content, maintype=main, subtype=sub, filename=filename)
            continue
        # An inline part belongs to the HTML that shows it (RFC 2387).
        home = message.get_body(("html",)) or message
        assert isinstance(home, EmailMessage)
        home.add_related(
            content,
            maintype=main,
            subtype=sub,
            filename=filename,
            disposition="inline",
            cid=f"<{content_id}>",
        )


def _name_boundaries(message: EmailMessage, fingerprint: str) -> None:
    """The standard library rolls dice for boundaries; ours come from the content."""
    for number, part in enumerate(message.walk()):
        if part.is_multipart():
            part.set_boundary(f"=_{number}_{fingerprint[:32]}")


def _headers(data: dict[str, Any]) -> list[tuple[str, str]]:
    given = data.get("headers") or {}
    if not isinstance(given, dict):
        raise _Malformed(f'"headers" is {_kind(given)}; it must be an object of names and texts')
    headers = []
    for name, value in given.items():
        if not _FIELD_NAME.fullmatch(name):
            raise _Malformed(f'"headers": {name!r} is no header name')
        if name.lower() in _OWNED or name.lower().startswith("content-"):
            raise _Malformed(
                f'"headers": {name} has a field of its own or is written by the service; leave it out'
            )
        if not isinstance(value, str):
            raise _Malformed(f'"headers": the value of {name} is {_kind(value)}; it must be a text')
        headers.append((name, _line(value, f'"headers": the value of {name}')))
    return headers


def _message_id(data: dict[str, Any], header_names: set[str]) -> str | None:
    given = _text(data, "message_id")
    if given is None:
        return None
    if "message-id" in header_names:
        raise _Malformed('"message_id" and a Message-ID in "headers" are both given; leave one out')
    if not _MESSAGE_ID.fullmatch(given):
        raise _Malformed(f'"message_id" is {given!r}; it must look like "<unique@example.org>"')
    return given


def _attachments(data: dict[str, Any]) -> list[tuple[str, str, bytes, str | None]]:
    given = data.get("attachments") or []
    if not isinstance(given, list):
        raise _Malformed(f'"attachments" is {_kind(given)}; it must be a list of objects')
    found = []
    for number, each in enumerate(given, 1):
        where = f"attachment {number}"
        if not isinstance(each, dict):
            raise _Malformed(f"{where} is {_kind(each)}; it must be an object")
        _only(each, ATTACHMENT_KEYS, where)
        filename, content = _text(each, "filename"), _text(each, "content")
        if not filename or content is None:
            raise _Malformed(f'{where} needs "filename" and "content"')
        content_type = _text(each, "content_type") or "application/octet-stream"
        if not _CONTENT_TYPE.fullmatch(content_type) or content_type.lower().startswith(
            ("multipart/", "message/")
        ):
            raise _Malformed(f'{where}: "content_type" is {content_type!r}; it must look like "image/png"')
        content_id = _text(each, "content_id")
        if content_id is not None:
            content_id = _line(content_id, f'{where}: "content_id"').strip("<>")
        found.append(
            (
                _line(filename, f'{where}: "filename"'),
                content_type,
                _base64(content, f'{where}: "content"'),
                content_id,
            )
        )
    return found


def _mailboxes(data: dict[str, Any], field: str) -> list[tuple[str, str]]:
    given = data.get(field)
    if given is None:
        raise _Malformed(f'"{field}" is missing; give a list of addresses')
    if not isinstance(given, list):
        raise _Malformed(f'"{field}" is {_kind(given)}; it must be a list of addresses')
    if not given and field == "to":
        raise _Malformed('"to" is empty; give at least one address', Reason.NO_RECIPIENTS)
    found = []
    for number, each in enumerate(given, 1):
        where = f'"{field}", address {number}'
        if not isinstance(each, str):
            raise _Malformed(f"{where} is {_kind(each)}; it must be a text")
        found.append(_mailbox(_sound(each, where), where, Reason.NO_RECIPIENTS))
    return found


def _mailbox(text: str, where: str, reason: Reason) -> tuple[str, str]:
    """Return display name and address."""
    name, address = "", _line(text, where).strip()
    if address.endswith(">"):
        name, _, address = address[:-1].rpartition("<")
        name = name.strip()
    if len(address) > 320 or "<" in name or ">" in name or not _ADDRESS.fullmatch(address):
        shown = text if len(text) <= 80 else f"{text[:80]}…"
        raise _Malformed(
            f'{where} is {shown!r}; an address looks like "a@example.org" or "Name <a@example.org>"', reason
        )
    if len(name) >= 2 and name.startswith('"') and name.endswith('"'):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return name, address


def _written(mailbox: tuple[str, str]) -> Address:
    name, address = mailbox
    local, _, domain = address.rpartition("@")
    return Address(display_name=name, username=local, domain=domain)


def _text(data: Mapping[str, Any], field: str) -> str | None:
    given = data.get(field)
    if given is None:
        return None
    if not isinstance(given, str):
        raise _Malformed(f'"{field}" is {_kind(given)}; it must be a text')
    return _sound(given, f'"{field}"')


def _sound(text: str, where: str) -> str:
    # JSON can spell half a character ("\ud800"), which no encoding can write.
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise _Malformed(f"{where} contains half of a surrogate pair; send whole characters")
    return text


def _line(text: str, where: str) -> str:
    if any(char in text for char in "\r\n\0\v\f\x1c\x1d\x1e\x85\u2028\u2029"):
        raise _Malformed(f"{where} contains a line break or NUL; a header has one line")
    return text


def _base64(text: str, where: str) -> bytes:
    try:
        # Line breaks every 76 characters are common in base64; anything else is a mistake.
        return base64.b64decode("".join(text.split()).encode("ascii"), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise _Malformed(f"{where} is not base64: {problem}") from problem


def _only(data: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    unknown = sorted(set(data) - known)
    if unknown:
        raise _Malformed(f"{where} has the unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")


def _once(recipients: Sequence[str]) -> tuple[str, ...]:
    """Somebody in `to` and in `cc` gets one mail."""
    found: dict[str, str] = {}
    for recipient in recipients:
        found.setdefault(recipient.lower(), recipient)
    return tuple(found.values())


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


# --- what goes out ----------------------------------------------------------------------------------


def answer(words: Words, now: datetime) -> HttpWords:
    """Return the HTTP answer that says these words."""
    match words:
        case Accepted():
            extra = (("Idempotency-Replayed", "true"),) if words.replayed else ()
            return _json(200, _yes(words), extra)
        case Refused(reason=reason, detail=detail, refused=refused, retry_after=retry_after):
            more = {"rejected": [_rejected(each) for each in refused]} if refused else {}
            return problem(STATUS[reason], reason.value, detail, _retry(retry_after, now), more)
        case Reply():
            return _reply(words, now)
        case _:
            assert_never(words)


def problem(
    status: int,
    code: str,
    detail: str,
    headers: Sequence[tuple[str, str]] = (),
    more: Mapping[str, Any] | None = None,
) -> HttpWords:
    """Return a problem document (RFC 9457) with the member `code` that a program can branch on."""
    document = {
        "type": "about:blank",
        "title": _phrase(status),
        "status": status,
        "detail": detail,
        "code": code,
    }
    return _json(status, document | dict(more or {}), headers, content_type="application/problem+json")


def garbled(code: int) -> HttpWords:
    """Return a well-formed head around a body that is neither JSON nor UTF-8."""
    return HttpWords(
        status=code,
        headers=(("Content-Type", "application/json"),),
        body=b'{"id": "msg_\xff\xfe\x00", "stat<html>',
    )


def part_of(body: bytes) -> bytes:
    """Return the first half of a body: what a truncated answer consists of. Never the whole of it."""
    return body[: len(body) // 2]


def as_json(acceptance: Acceptance) -> dict[str, Any]:
    """Return an acceptance as a look-up shows it to the sender."""
    return {
        "id": acceptance.id,
        "message_id": acceptance.message_id,
        "idempotency_key": acceptance.key,
        "status": "accepted",
        "to": list(acceptance.recipients),
        "accepted": list(acceptance.recipients),
        "rejected": [_rejected(each) for each in acceptance.refused],
        "created_at": acceptance.accepted_at.isoformat(),
    }


def _yes(words: Accepted) -> dict[str, Any]:
    return {
        "id": words.id,
        "message_id": words.message_id,
        "status": "accepted",
        "accepted": list(words.recipients),
        "rejected": [_rejected(each) for each in words.refused],
    }


def _rejected(refused: RefusedRecipient) -> dict[str, Any]:
    told = {"recipient": refused.recipient, "code": refused.code, "message": refused.text}
    return told if refused.enhanced is None else told | {"enhanced": refused.enhanced}


def _reply(words: Reply, now: datetime) -> HttpWords:
    headers = _retry(words.retry_after, now)
    if words.code in _WITHOUT_BODY:
        return HttpWords(status=words.code, headers=tuple(headers), body=b"")
    if words.body is not None:
        start = words.body.lstrip()[:1]
        kind = "application/json" if start in ("{", "[") else "text/html" if start == "<" else "text/plain"
        return HttpWords(
            status=words.code,
            headers=(("Content-Type", f"{kind}; charset=utf-8"), *headers),
            body=words.body.encode("utf-8", "replace"),
        )
    if words.code < 300:
        # A yes that a rule invented has no id: the provider took nothing.
        return _json(
            words.code, {"status": "accepted", "message": words.text or _phrase(words.code)}, headers
        )
    code = _CODE_OF_STATUS.get(words.code) or ("error" if words.code < 500 else "unavailable")
    return problem(words.code, code, words.text or _phrase(words.code), headers)


def _retry(retry_after: RetryAfter | None, now: datetime) -> list[tuple[str, str]]:
    return [] if retry_after is None else [("Retry-After", retry_after.text(now))]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return {2: "OK", 3: "Redirect", 4: "Refused"}.get(status // 100, "Failed")


def _json(
    status: int,
    document: Mapping[str, Any],
    headers: Sequence[tuple[str, str]] = (),
    *,
    content_type: str = "application/json",
) -> HttpWords:
    return HttpWords(
        status=status,
        headers=(("Content-Type", content_type), *headers),
        body=json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"),
    )
