"""What goes out: answers as status, headers and body."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never

import msgspec

from simulator.dialects.http import WITHOUT_BODY, HttpWords, head, phrase
from simulator.provider.answer import (
    Accepted,
    Reason,
    Refused,
    RefusedRecipient,
    Reply,
    Results,
    RetryAfter,
    Words,
)
from simulator.provider.batch import BatchRules

#: Why the provider itself refuses, as a status. The `code` of the problem is the reason's own name.
STATUS: dict[Reason, int] = {
    Reason.INVALID: 400,
    Reason.CREDENTIAL_MISSING: 401,
    Reason.CREDENTIAL_UNKNOWN: 401,
    Reason.KEY_REQUIRED: 400,
    Reason.KEY_IN_FLIGHT: 409,
    Reason.KEY_REUSED: 422,
    Reason.KEY_DONE: 409,
    Reason.KEY_FAILED: 412,
    Reason.TOO_LARGE: 413,
    Reason.TOO_MANY_RECIPIENTS: 422,
    Reason.TOO_MANY_MAILS: 413,
    Reason.NO_RECIPIENTS: 422,
    Reason.RATE_LIMITED: 429,
    Reason.GREYLISTED: 503,
    Reason.QUOTA_EXCEEDED: 429,
    Reason.TOO_MANY_CONNECTIONS: 429,
}

#: The `code` of a problem that a rule made, where the status has a usual one.
_CODE_OF_STATUS = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    408: "request_timeout",
    409: "key_in_flight",
    412: "key_failed",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
    429: "rate_limited",
    500: "internal_error",
    501: "not_implemented",
    502: "bad_gateway",
    503: "unavailable",
    504: "gateway_timeout",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How an account's answers look beyond their words."""

    replay_header: str = "Idempotency-Replayed"
    """Empty: a replay looks like a first answer."""
    headers: tuple[tuple[str, str], ...] = ()
    """Said with every answer."""
    batch: BatchRules = BatchRules()


USUAL = Style()

_YES_HEAD = head(200, (("Content-Type", "application/json"),), ()).removesuffix(b"\r\n")


def answer(words: Words, now: datetime, style: Style = USUAL) -> HttpWords:
    """Return the HTTP answer that says these words."""
    extra = style.headers
    if words.replayed and style.replay_header:
        extra = ((style.replay_header, "true"), *extra)
    match words:
        case Accepted():
            return _json(200, yes(words), extra)
        case Refused(reason=reason, detail=detail, refused=refused, retry_after=retry_after):
            more: dict[str, Any] = {"rejected": [rejected(each) for each in refused]} if refused else {}
            if words.index is not None:
                more["index"] = words.index
            status = words.code or STATUS[reason]
            headers = (*_challenge(status), *_retry(retry_after, now), *extra)
            return problem(status, reason.value, detail, headers, more)
        case Reply():
            return _reply(words, (*_retry(words.retry_after, now), *words.headers, *extra))
        case Results():
            raise AssertionError("what is said of a batch stands in `results`")
        case _:
            assert_never(words)


def _challenge(status: int) -> tuple[tuple[str, str], ...]:
    """RFC 9110, section 11.6.1: a 401 must say how one authenticates."""
    return (("WWW-Authenticate", 'Bearer realm="mail"'),) if status == 401 else ()


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
        "title": phrase(status),
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


def yes(words: Accepted) -> dict[str, Any]:
    """Return the document that says that a mail was taken."""
    named = {"id": words.id, "message_id": words.message_id} if words.shows_id else {}
    return named | {
        "status": "accepted",
        "accepted": list(words.recipients),
        "rejected": [rejected(each) for each in words.refused],
    }


def whole_yes(words: Accepted, fields: Sequence[bytes], *, closes: bool) -> bytes:
    """Return a yes as it goes out, with these header lines: what `answer` makes of it, written at once."""
    body = _encoded(yes(words))
    more = b"".join([line + b"\r\n" for line in fields])
    ending = b"connection: close\r\n\r\n" if closes else b"\r\n"
    return b"%b%bcontent-length: %d\r\n%b%b" % (_YES_HEAD, more, len(body), ending, body)


def rejected(refused: RefusedRecipient) -> dict[str, Any]:
    """Return a refused recipient as answers and look-ups show it."""
    told = {"recipient": refused.recipient, "code": refused.code, "message": refused.text}
    return told if refused.enhanced is None else told | {"enhanced": refused.enhanced}


def _reply(words: Reply, headers: tuple[tuple[str, str], ...]) -> HttpWords:
    if words.code in WITHOUT_BODY:
        return HttpWords(status=words.code, headers=headers, body=b"")
    if words.body is not None:
        start = words.body.lstrip()[:1]
        kind = "text/html; charset=utf-8" if start == "<" else "text/plain; charset=utf-8"
        if start in ("{", "["):
            kind = "application/json"  # Which has no charset (RFC 8259, section 11).
        return HttpWords(
            status=words.code,
            headers=(("Content-Type", kind), *headers),
            body=words.body.encode("utf-8", "replace"),
        )
    if words.code < 300:
        # A yes that a rule invented has no id: the provider took nothing.
        return _json(words.code, {"status": "accepted", "message": words.text or phrase(words.code)}, headers)
    code = _CODE_OF_STATUS.get(words.code) or ("error" if words.code < 500 else "unavailable")
    return problem(words.code, code, words.text or phrase(words.code), headers)


def _retry(retry_after: RetryAfter | None, now: datetime) -> list[tuple[str, str]]:
    return [] if retry_after is None else [("Retry-After", retry_after.text(now))]


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
        body=_encoded(document),
    )


_encode = msgspec.json.Encoder().encode


def _encoded(document: Mapping[str, Any]) -> bytes:
    try:
        return _encode(document)
    except (UnicodeEncodeError, OverflowError):
        # Halves of surrogate pairs, which become question marks; numbers of other sizes.
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
