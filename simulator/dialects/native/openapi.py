"""The native HTTP API described as data: its operations, its problems, and the OpenAPI 3.1 document made of them.

Rules of a plan may answer anything at all; what is described here is the service that no rule strikes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simulator.dialects.native.letter import ATTACHMENT_KEYS, LETTER_KEYS
from simulator.dialects.native.request import RAW_KEYS
from simulator.provider.api import PATHS
from simulator.provider.batch import BatchRules

PROBLEM_TYPE = "application/problem+json"

#: Every refusal of the service's own: status, `code`, when.
PROBLEMS: tuple[tuple[int, str, str], ...] = (
    (
        400,
        "invalid_request",
        "The request, its JSON or its idempotency key cannot be read; `detail` says where.",
    ),
    (400, "key_required", "`[idempotency] required`, and there is no key."),
    (401, "credential_missing", "An API key is required, or the Authorization header is none."),
    (401, "credential_unknown", "The API key is not known here (403 with `[http] api_key_required`)."),
    (404, "not_found", "There is no such path, or no mail with this id (yet)."),
    (405, "method_not_allowed", "Another method is possible here: see `Allow`."),
    (408, "request_timeout", "The request came too slowly; the connection ends."),
    (
        409,
        "key_in_flight",
        "The first request with this key is still being processed: repeat it unchanged later.",
    ),
    (409, "key_done", '`finished = "conflict"`: the first request with this key was accepted.'),
    (412, "key_failed", '`failed = "refuse"`: the first request with this key failed; use another key.'),
    (413, "too_large", "The request or the message is too large."),
    (413, "too_many_mails", "The batch has more mails than `[batch] max_mails`."),
    (414, "uri_too_long", "The target of the request has more than 65,535 bytes; the connection ends."),
    (
        415,
        "unsupported_media_type",
        "The body has a content coding that is not taken: see `Accept-Encoding`.",
    ),
    (422, "invalid_recipient", "An address is none, or no recipient was accepted: see `rejected`."),
    (422, "key_reused", 'The key was used before with another body (409 with `reused = "conflict"`).'),
    (422, "too_many_recipients", "The mail has more recipients than `[limits] max_recipients`."),
    (429, "rate_limited", "Too many mails just now: see `Retry-After`."),
    (429, "quota_exceeded", "The quota of the minute, hour or day is used up: see `Retry-After`."),
    (429, "too_many_connections", "Too many requests at the same time."),
    (
        431,
        "head_too_large",
        "The head of the request, or what stands around its chunks, is too long; the connection ends.",
    ),
    (
        501,
        "not_implemented",
        "The method is not known, and the connection ends; or the body has a transfer coding besides `chunked`.",
    ),
    (503, "greylisted", "The mail is put off on purpose: come back later."),
    (503, "unavailable", "The ledger cannot be written just now; nothing was booked."),
    (
        505,
        "version_not_supported",
        "The request line names another major version than HTTP/1; the connection ends.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing a sender can ask for."""

    method: str
    path: str
    name: str
    summary: str
    takes: str | None = None
    """The schema of its JSON body."""
    gives: str
    """The schema of its answer with 200."""
    key_header: str | None = None
    query: tuple[str, ...] = ()
    problems: tuple[int, ...]
    """The statuses it may be refused with."""


#: What a batch of which no mail was taken is answered with, mail by mail.
NONE_TAKEN = BatchRules().none_status

_ANYWHERE = (400, 401, 408, 429, 431, 505)
_SENDING = (*_ANYWHERE, 409, 412, 413, 415, 422, 503)

OPERATIONS: tuple[Operation, ...] = (
    *(
        Operation(
            method="POST",
            path=path,
            name="sendMail" if number == 0 else f"sendMailAlias{number}",
            summary="Hand in one mail." if number == 0 else "Hand in one mail, as other services call it.",
            takes="Mail",
            gives="Accepted",
            key_header=header,
            problems=_SENDING,
        )
        for number, (path, header) in enumerate(PATHS.items())
    ),
    Operation(
        method="POST",
        path="/v1/emails/batch",
        name="sendBatch",
        summary="Hand in several mails; each is taken or refused on its own, or all together.",
        takes="Batch",
        gives="Results",
        key_header="Idempotency-Key",
        problems=_SENDING,
    ),
    Operation(
        method="GET",
        path="/v1/emails/{id}",
        name="showMail",
        summary="Look a mail up by its id.",
        gives="Found",
        problems=(*_ANYWHERE, 404),
    ),
    Operation(
        method="GET",
        path="/v1/emails",
        name="findMail",
        summary="Look mails up by idempotency key or Message-ID; exactly one of both.",
        gives="FoundList",
        query=("idempotency_key", "message_id"),
        problems=_ANYWHERE,
    ),
)


# --- schemas ----------------------------------------------------------------------------------------

_TEXT = {"type": "string"}
_BARE = r'[^@\s,;<>()\[\]"]{1,60}@[^@\s,;<>()\[\]"]{1,200}'
_ADDRESS = {
    "type": "string",
    "description": "`a@example.org` or `Name <a@example.org>`.",
    "pattern": rf"^(?:{_BARE}|[^<>\x00-\x1f\x7f-\x9f\u2028\u2029]*<{_BARE}>)$",
}
_ADDRESSES = {"type": "array", "items": _ADDRESS}
_BASE64 = {"type": "string", "contentEncoding": "base64"}
_NULLABLE_TEXT = {"type": ["string", "null"]}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A member that may be left out may be null as well."""
    return schema | {"type": [schema["type"], "null"]}


_LETTER_FIELDS: dict[str, Any] = {
    "from": _ADDRESS,
    "to": _ADDRESSES | {"minItems": 1},
    "cc": _or_null(_ADDRESSES),
    "bcc": _or_null(_ADDRESSES),
    "subject": _NULLABLE_TEXT,
    "text": _NULLABLE_TEXT,
    "html": _NULLABLE_TEXT,
    "headers": _or_null({"type": "object", "additionalProperties": _TEXT}),
    "message_id": _or_null({"type": "string", "pattern": "^<[^<>@\\s]+@[^<>@\\s]+>$"}),
    "attachments": _or_null({"type": "array", "items": {"$ref": "#/components/schemas/Attachment"}}),
}
_RAW_FIELDS: dict[str, Any] = {
    "from": {
        "description": "The envelope sender; empty: the null sender.",
        "anyOf": [_ADDRESS, {"const": ""}],
    },
    "to": _ADDRESSES | {"minItems": 1},
    "raw": _BASE64 | {"description": "The message of RFC 5322, sent on unchanged.", "minLength": 1},
}
_ATTACHMENT_FIELDS: dict[str, Any] = {
    "filename": _TEXT | {"minLength": 1},
    "content_type": _NULLABLE_TEXT,
    "content": _BASE64,
    "content_id": _NULLABLE_TEXT | {"description": "The part belongs to the HTML that shows it."},
}
assert set(_LETTER_FIELDS) == LETTER_KEYS
assert set(_RAW_FIELDS) == RAW_KEYS
assert set(_ATTACHMENT_FIELDS) == ATTACHMENT_KEYS

_REJECTED = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"recipient": _TEXT, "code": {"type": "integer"}, "enhanced": _TEXT, "message": _TEXT},
        "required": ["recipient", "code", "message"],
    },
}
_ACCEPTED_FIELDS: dict[str, Any] = {
    "id": _TEXT,
    "message_id": _NULLABLE_TEXT,
    "status": {"const": "accepted"},
    "accepted": {"type": "array", "items": _TEXT},
    "rejected": _REJECTED,
}
_FOUND_FIELDS: dict[str, Any] = {
    **_ACCEPTED_FIELDS,
    "idempotency_key": _NULLABLE_TEXT,
    "to": {"type": "array", "items": _TEXT},
    "created_at": {"type": "string", "format": "date-time"},
}
_PROBLEM_FIELDS: dict[str, Any] = {
    "type": _TEXT,
    "title": _TEXT,
    "status": {"type": "integer"},
    "detail": _TEXT | {"description": "One sentence: what was given, and what would be right."},
    "code": _TEXT | {"enum": sorted({code for _, code, _ in PROBLEMS})},
    "rejected": _REJECTED,
    "index": {"type": "integer", "description": "Which mail of a batch it is about, from 0."},
}


def _object(fields: dict[str, Any], *required: str, closed: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": list(required)}
    return schema | {"additionalProperties": False} if closed else schema


def schemas() -> dict[str, Any]:
    """Return the JSON Schemas of what the API takes and gives. What it takes is closed, what it gives may grow."""
    own_key = {"idempotency_key": _or_null({"type": "string", "pattern": "^[ -~]{1,255}$"})}
    item = [
        _object(_LETTER_FIELDS | own_key, "from", "to", closed=True),
        _object(_RAW_FIELDS | own_key, "from", "to", "raw", closed=True),
    ]
    problem = _object(_PROBLEM_FIELDS, "type", "title", "status", "detail", "code")
    return {
        "Letter": _object(_LETTER_FIELDS, "from", "to", closed=True),
        "RawMail": _object(_RAW_FIELDS, "from", "to", "raw", closed=True),
        "Mail": {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("Letter", "RawMail")]},
        "Attachment": _object(_ATTACHMENT_FIELDS, "filename", "content", closed=True),
        "Batch": {"type": "array", "minItems": 1, "items": {"anyOf": item}},
        "Accepted": _object(_ACCEPTED_FIELDS, "status", "accepted", "rejected"),
        "Found": _object(_FOUND_FIELDS, *_FOUND_FIELDS),
        "FoundList": _object(
            {"data": {"type": "array", "items": {"$ref": "#/components/schemas/Found"}}}, "data"
        ),
        "Results": _object(
            {
                "data": {"type": "array", "items": {"type": "object"}},
                "errors": {"type": "array", "items": {"type": "object"}},
                "accepted": {"type": "integer"},
                "rejected": {"type": "integer"},
            }
        ),
        "Problem": problem,
    }


# --- the document -----------------------------------------------------------------------------------


def document(version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the native API, of this version of the simulator."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mailproof simulator: native mail API",
            "version": version,
            "description": "How a sender hands in mail over HTTP and looks it up again.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{}, {"api_key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "api_key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The name of an account; unknown ones, or none, belong to the default account.",
                }
            },
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "schema": {"type": "string"}} for name in operation.query
    ]
    if "{id}" in operation.path:
        parameters.append(
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        )
    if operation.key_header is not None:
        parameters.append(
            {
                "name": operation.key_header,
                "in": "header",
                "description": "The idempotency key; a String of RFC 9651, or its plain characters.",
                "schema": {"type": "string", "pattern": "^[!#-~][ -~]*$", "maxLength": 255},
            }
        )
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": ["mail"],
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": _ref(operation.gives)}},
            },
            **{str(status): _refusal(operation, status) for status in sorted(set(operation.problems))},
        },
    }
    if operation.takes is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(operation.takes)}},
        }
    return described


def _refusal(operation: Operation, status: int) -> dict[str, Any]:
    content = {PROBLEM_TYPE: {"schema": _ref("Problem")}}
    if operation.takes == "Batch" and status == NONE_TAKEN:
        content["application/json"] = {"schema": _ref(operation.gives)}
    return {
        "description": " ".join(says for code, _, says in PROBLEMS if code == status),
        "content": content,
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
