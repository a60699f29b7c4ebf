"""From mail about mail to facts: delivery status notifications (RFC 3464) and complaint reports (RFC 5965).

A report becomes items in the shape of a webhook (`reading`), one for each recipient it is about, so that behind the
door there is one kind of event. What is no such report, or says nothing of a mail of ours, is one item as it came, or
the beginning of it: nobody can read it, and somebody should look.
"""

from __future__ import annotations

import email
import email.policy
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import EmailMessage, Message
from email.utils import parsedate_to_datetime
from typing import Any

from reference_sender.events.kinds import Kind, bounce_by_reply
from reference_sender.events.reading import LONGEST_ID, LONGEST_MESSAGE_ID, Item, detail_of

#: So many octets are kept of a mail that nobody can read. Some databases take no more than 16 MB at once, and whoever can
#: mail the door could send as much as he likes.
MOST_KEPT = 1_048_576

#: RFC 3464 section 2.3.3. `failed` is hard or soft by the status.
_ACTIONS = {
    "failed": "email.bounced",
    "delayed": "email.deferred",
    "delivered": "email.delivered",
    "relayed": "email.accepted",
    "expanded": "email.accepted",
}
# What the other server said, in a Diagnostic-Code: `smtp; 550 5.1.1 no such user` (RFC 3464 section 2.3.6).
_DIAGNOSIS = re.compile(
    r"\s*smtp\s*;\s*(?P<code>[245]\d\d)?[ -]?\s*(?P<enhanced>[245]\.\d{1,3}\.\d{1,3})?", re.I
)
_STATUS = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})")
_MESSAGE_ID = re.compile(r"<[^<>\s]+>")


def items_in(raw: bytes, *, now: datetime) -> tuple[Item, ...]:
    """Read a mail that came back. `now` stands in where the report names no time."""
    digest = hashlib.sha256(raw).hexdigest()
    try:
        message = email.message_from_bytes(raw, policy=email.policy.default)
        found = list(_events(message, now))
    except Exception:
        # The standard library's parser has raised all kinds of things for mail that is wrong in new ways.
        found = []
    if not found:
        return (Item(event_id=f"mail:{digest}", raw=raw[:MOST_KEPT]),)
    name = _message_id(message) or digest
    return tuple(
        Item(
            event_id=_named(f"mail:{name}/{number}"),
            raw=json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"),
        )
        for number, facts in enumerate(found)
    )


def _message_id(message: EmailMessage) -> str:
    """The name of a report: a copy of it that came by another way has the same, where its bytes may differ."""
    try:
        return _one_line(message.get("Message-ID"))
    except Exception:
        # There are some over which the standard library's parser falls.
        return ""


def _named(name: str) -> str:
    """A name that every database stores: one that is too long, or holds what it should not, goes by its hash."""
    if len(name) <= LONGEST_ID and name.isprintable():
        return name
    return "mail:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _events(message: EmailMessage, now: datetime) -> Iterator[dict[str, Any]]:
    if message.get_content_type() != "multipart/report":
        return
    parts = [part for part in message.iter_parts() if isinstance(part, EmailMessage)]
    returned = _returned(parts, message)
    for part in parts:
        blocks = part.get_payload()
        match part.get_content_type():
            case "message/delivery-status" if isinstance(blocks, list):
                yield from _statuses(
                    [each for each in blocks if isinstance(each, Message)], message, returned, now
                )
            case "message/feedback-report":
                yield from _complaint(_fields_of(part), message, returned, now)
            case _:
                pass


def _statuses(
    blocks: list[Message[Any, Any]], message: EmailMessage, returned: str | None, now: datetime
) -> Iterator[dict[str, Any]]:
    """The first block is about the mail, the others are about a recipient each (RFC 3464 section 2.1)."""
    about_mail = blocks[0] if blocks else Message()
    for block in blocks[1:]:
        type_ = _ACTIONS.get(_one_line(block.get("Action")).lower())
        recipient = _recipient(block.get("Original-Recipient")) or _recipient(block.get("Final-Recipient"))
        if type_ is None or recipient is None:
            continue
        said = _DIAGNOSIS.match(_one_line(block.get("Diagnostic-Code")))
        status = _STATUS.match(_one_line(block.get("Status")))
        code = int(said["code"]) if said and said["code"] else None
        # The Status has the class of the action, whatever the server said; the reply itself knows more.
        enhanced = (said and said["enhanced"]) or (status[1] if status else None)
        at = _date(block.get("Last-Attempt-Date")) or _date(about_mail.get("Arrival-Date"))
        yield _event(
            type_,
            at or _date(message.get("Date")) or now,
            recipient=recipient,
            message_id=returned,
            provider_id=_one_line(block.get("Final-Log-ID")) or None,
            reply={
                "code": code,
                "enhanced": enhanced,
                "text": detail_of(_one_line(block.get("Diagnostic-Code"))),
            },
            bounce=(
                None
                if type_ != "email.bounced"
                else "hard"
                if bounce_by_reply(code, enhanced) is Kind.HARD_BOUNCE
                else "soft"
            ),
        )


def _complaint(
    fields: Message[Any, Any], message: EmailMessage, returned: str | None, now: datetime
) -> Iterator[dict[str, Any]]:
    """RFC 5965 section 3. Only what people complain about: `not-spam` is no complaint, nor is `virus` the reader's."""
    if _one_line(fields.get("Feedback-Type")).lower() not in ("abuse", "fraud", "opt-out"):
        return
    # Not the Arrival-Date: that is when the mail came, and the complaint came later.
    at = _date(message.get("Date")) or now
    recipients: list[str | None] = [_bare(_one_line(each)) for each in fields.get_all("Original-Rcpt-To", [])]
    # Many providers leave the recipient out; then the Message-ID alone leads to the row that has it.
    for recipient in recipients or [None]:
        if recipient is not None or returned is not None:
            yield _event("email.complained", at, recipient=recipient, message_id=returned)


def _event(type_: str, at: datetime, **data: Any) -> dict[str, Any]:
    # A name that is too long names nothing of ours (`reading`).
    told = {
        name: None if isinstance(value, str) and len(value) > LONGEST_MESSAGE_ID else value
        for name, value in data.items()
    }
    return {"type": type_, "timestamp": at.astimezone(UTC).isoformat(), "data": told}


def _fields_of(part: EmailMessage) -> Message[Any, Any]:
    """The fields of a feedback report: a parser takes the part for a mail in a mail, or for text."""
    payload = part.get_payload()
    if isinstance(payload, list):
        return payload[0] if payload and isinstance(payload[0], Message) else Message()
    return email.message_from_string(str(payload))


def _returned(parts: list[EmailMessage], message: EmailMessage) -> str | None:
    """The Message-ID of the mail it is about: from what came back of it, else from what the report answers."""
    for part in parts:
        heads: Message[Any, Any] | None = None
        payload = part.get_payload()
        match part.get_content_type():
            case "message/rfc822" if (
                isinstance(payload, list) and payload and isinstance(payload[0], Message)
            ):
                heads = payload[0]
            case "text/rfc822-headers":
                content = part.get_payload(decode=True)
                heads = email.message_from_bytes(content if isinstance(content, bytes) else b"")
            case _:
                pass
        if heads is not None and (found := _MESSAGE_ID.search(_one_line(heads.get("Message-ID")))):
            return found[0]
    for name in ("In-Reply-To", "References"):
        if found := _MESSAGE_ID.search(_one_line(message.get(name))):
            return found[0]
    return None


def _recipient(field: object) -> str | None:
    """The address in `rfc822; ann@example.com` (RFC 3464 section 2.3.1), or in the form of RFC 6533 section 3."""
    type_, semicolon, address = _one_line(field).partition(";")
    if not semicolon:
        return None
    address = _bare(address)
    if type_.strip().lower() == "utf-8":
        address = re.sub(r"\\x\{([0-9A-Fa-f]{1,6})\}", _character, address)
    return address if "@" in address else None


def _character(found: re.Match[str]) -> str:
    number = int(found[1], 16)
    return (
        chr(number) if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF else "\N{REPLACEMENT CHARACTER}"
    )


def _bare(address: str) -> str:
    return address.strip().removeprefix("<").removesuffix(">").strip()


def _date(field: object) -> datetime | None:
    text = _one_line(field)
    try:
        moment = parsedate_to_datetime(text) if text else None
    except (ValueError, TypeError, OverflowError):
        return None
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _one_line(field: object) -> str:
    return "" if field is None else " ".join(str(field).split())
