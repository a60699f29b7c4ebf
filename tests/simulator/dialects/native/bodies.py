"""Short ways to write the native API's bodies, and to read what they become."""

from __future__ import annotations

import base64
import json
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from simulator.dialects.native.letter import message_of
from simulator.dialects.native.request import read
from simulator.provider.answer import Refused
from simulator.provider.message import Submission
from tests.simulator.provider.mails import acceptance, after

FIELDS: dict[str, Any] = {
    "from": "Shop <shop@example.org>",
    "to": ["bob@example.org"],
    "subject": "Order",
    "text": "Thanks",
}
RAW = b"Subject: Hi\r\nMessage-ID: <1@x>\r\n\r\n.dots\r\n"
RAW_BODY: dict[str, Any] = {
    "from": "shop@example.org",
    "to": ["bob@example.org"],
    "raw": base64.b64encode(RAW).decode(),
}


def take(data: object, key: str | None = None, at_s: float = 0) -> Submission | Refused:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return read(body, key=key, now=after(at_s), host="mail.example")


def taken(data: object, key: str | None = None, at_s: float = 0) -> Submission:
    submission = take(data, key, at_s)
    assert isinstance(submission, Submission), submission
    return submission


def written(submission: Submission) -> bytes:
    """Return the message that is written of a mail in the end."""
    accepted = acceptance(
        message_id=submission.message_id, fingerprint=submission.fingerprint, form=submission.form
    )
    return message_of(accepted, submission.raw)


def parsed(submission: Submission) -> EmailMessage:
    message = message_from_bytes(written(submission), policy=default)
    assert isinstance(message, EmailMessage)
    return message


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
