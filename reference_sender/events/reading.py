"""From the body of a webhook to facts: splitting a batch, naming its items, reading one.

    {"id": "evt_1", "type": "email.bounced", "timestamp": "2026-01-02T03:04:08.000Z",
     "data": {"email_id": "msg_1", "message_id": "<a@b>", "key": "order-1", "recipient": "ann@example.com",
              "bounce": "hard", "reply": {"code": 550, "enhanced": "5.1.1", "text": "no such user"}}}

A body is one such object or an array of them. Splitting happens before anything is read, so that an item nobody can
read costs itself and not its neighbours. Another provider's shape is another `TYPES` and another `_names`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from reference_sender.events.kinds import Happened, Irrelevant, Kind, Malformed, bounce_by_reply

#: Longest id, provider id or key that is kept as it is, in characters.
LONGEST_ID = 255
LONGEST_MESSAGE_ID = 340
LONGEST_DETAIL = 500

#: What a provider calls it → what it is. A bounce is hard or soft by what comes with it.
TYPES: dict[str, Kind] = {
    "email.accepted": Kind.QUEUED,
    "email.deferred": Kind.DEFERRED,
    "email.delivered": Kind.DELIVERED,
    "email.bounced": Kind.SOFT_BOUNCE,
    "email.suppressed": Kind.SUPPRESSED,
    "email.complained": Kind.COMPLAINT,
    "email.opened": Kind.OPENED,
    "email.clicked": Kind.CLICKED,
    "email.unsubscribed": Kind.UNSUBSCRIBED,
}

# What every database can store, and nobody's mail lies outside of.
_YEARS = range(1990, 2200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of a body, as it came."""

    event_id: str
    """The same whenever this event is told; where it names none, made of its bytes."""
    raw: bytes


def items_of(body: bytes, *, request_id: str | None = None) -> tuple[Item, ...]:
    """Split a body. What is no JSON is one item, as it is. `request_id`: of the request, if it is signed."""
    text = body.lstrip(b" \t\r\n")
    if text.startswith(b"["):
        try:
            # Raw: the bytes of each item as they stand there.
            raws = msgspec.json.decode(body, type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            return (_item(body, None),)
        return tuple(_item(bytes(raw).strip(), None) for raw in raws)
    return (_item(body, request_id),)


def _item(raw: bytes, request_id: str | None) -> Item:
    event_id = _id_in(raw) or _usable(request_id, LONGEST_ID)
    return Item(event_id=event_id or "sha256:" + hashlib.sha256(raw).hexdigest(), raw=raw)


def _id_in(raw: bytes) -> str | None:
    facts = _parsed(raw)
    return _usable(facts.get("id"), LONGEST_ID) if isinstance(facts, dict) else None


def read(raw: bytes) -> Happened | Malformed | Irrelevant:
    """Read one item."""
    facts = _parsed(raw)
    if not isinstance(facts, dict):
        return Malformed(reason="it is no JSON object")
    type_, data = facts.get("type"), facts.get("data")
    if not isinstance(type_, str):
        return Malformed(reason='it has no text "type"')
    kind = TYPES.get(type_)
    if kind is None:
        return Irrelevant(reason=f"nothing is known of the type {type_[:60]!r}")
    if not isinstance(data, dict):
        return Malformed(reason='it has no object "data"')
    at = _moment(facts.get("timestamp"))
    if at is None:
        return Malformed(reason='it has no "timestamp" with a time zone')
    reply = data.get("reply")
    code, enhanced, detail = _reply(reply) if isinstance(reply, dict) else (None, None, None)
    if type_ == "email.bounced":
        match data.get("bounce"):
            case "hard":
                kind = Kind.HARD_BOUNCE
            case "soft":
                kind = Kind.SOFT_BOUNCE
            case _:
                kind = bounce_by_reply(code, enhanced)
    happened = Happened(
        kind=kind,
        at=at,
        provider_id=_usable(data.get("email_id"), LONGEST_ID),
        message_id=_usable(data.get("message_id"), LONGEST_MESSAGE_ID),
        key=_usable(data.get("key"), LONGEST_ID),
        recipient=_address(data.get("recipient")),
        detail=detail,
    )
    if not happened.names_a_mail and happened.recipient is None:
        return Malformed(reason="it names neither a mail nor a recipient")
    return happened


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _moment(told: object) -> datetime | None:
    """An instant from RFC 3339 text with an offset, or from seconds since 1970."""
    try:
        if isinstance(told, str):
            moment = datetime.fromisoformat(told)
            if moment.tzinfo is None:
                return None
            moment = moment.astimezone(UTC)
        elif isinstance(told, int | float) and not isinstance(told, bool) and math.isfinite(told):
            moment = datetime.fromtimestamp(told, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.year in _YEARS else None


def _reply(reply: Mapping[str, Any]) -> tuple[int | None, str | None, str | None]:
    code, enhanced, text = reply.get("code"), reply.get("enhanced"), reply.get("text")
    number = code if isinstance(code, int) and not isinstance(code, bool) and 100 <= code < 1000 else None
    enhanced = enhanced if isinstance(enhanced, str) else None
    said = " ".join(str(each) for each in (number, enhanced, text) if isinstance(each, str | int))
    return number, enhanced, detail_of(said)


def detail_of(said: str) -> str | None:
    """What was said, on one line, in characters that every database stores."""
    line = " ".join("".join(c if c.isprintable() else " " for c in said).split())
    return line[:LONGEST_DETAIL] or None


def _usable(told: object, longest: int) -> str | None:
    """A name that can be stored and looked up; anything else is no name."""
    if isinstance(told, str) and 0 < len(told) <= longest and told.isprintable():
        return told
    return None


def _address(told: object) -> str | None:
    address = _usable(told, 320)
    return address if address is not None and 0 < address.rfind("@") < len(address) - 1 else None
