"""Notices: an event on its way to a webhook, once or several times, in order or out of it, whole or spoilt.

An event becomes one notice; the rules of stage `webhook` make of that whatever goes wrong. How a spoilt one looks on the
wire is decided here, too: `body` and `signed` are all that a server sends.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from simulator.provider import signing
from simulator.provider.events import Event, event_as_json
from simulator.provider.signing import Scheme


class Spoilt(StrEnum):
    """What is wrong with a notice."""

    SIGNATURE = "bad_signature"
    TIMESTAMP = "stale"
    BODY = "malformed"


class Forgery(StrEnum):
    """How a signature is bad."""

    WRONG_SECRET = "wrong_secret"
    TAMPERED = "tampered"
    """The signature is right for another body."""
    MISSING = "missing"
    GARBAGE = "garbage"
    """Nothing that looks like a signature; some libraries stumble over it instead of refusing it."""


class Damage(StrEnum):
    """How a body is malformed. The first ones spoil one event, which may stand in a batch; the last ones everything."""

    NO_TYPE = "no_type"
    NO_DATA = "no_data"
    WRONG_TYPES = "wrong_types"
    NULL = "null"
    TEXT = "text"
    TRUNCATED = "truncated"
    HTML = "html"
    EMPTY = "empty"


#: Damage after which a body is no JSON: such a notice is sent alone.
WHOLE_BODY = frozenset({Damage.TRUNCATED, Damage.HTML, Damage.EMPTY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """Something that is wrong with the first `tries` attempts at telling a notice."""

    what: Spoilt
    how: str = ""
    age_s: float = 0.0
    tries: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One event to be told once."""

    key: str = ""
    """Tells it from other notices of its event."""
    source: str
    """Id of the event that really happened."""
    event: Event
    """What is told; not always what happened."""
    due_at: datetime
    flaws: tuple[Flaw, ...] = ()
    lost: bool = False
    """It is never told."""
    once: bool = False
    """It is not told again, however the receiver answers."""
    rules: tuple[str, ...] = ()
    """The rules that made it what it is."""

    @property
    def alone(self) -> bool:
        """Tell whether it cannot share a request with others."""
        return any(flaw.what is not Spoilt.BODY or Damage(flaw.how) in WHOLE_BODY for flaw in self.flaws)

    def flaws_at(self, number: int) -> tuple[Flaw, ...]:
        """Return what is wrong with the n-th attempt (from 1)."""
        return tuple(flaw for flaw in self.flaws if number <= flaw.tries)


def notice_of(event: Event) -> Notice:
    """Return the notice of an event with which nothing is wrong."""
    return Notice(source=event.id, event=event, due_at=event.at)


# --- on the wire ------------------------------------------------------------------------------------


def body(notices: Sequence[Notice], *, batched: bool, number: int) -> bytes:
    """Return the body of the n-th attempt (from 1) at telling these."""
    items = [_item(notice, number) for notice in notices]
    text = json.dumps(items if batched else items[0], ensure_ascii=False, separators=(",", ":"))
    # Halves of surrogate pairs, which mails may bring, are no characters and cannot be sent.
    raw = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    for notice in notices:
        for flaw in notice.flaws_at(number):
            if flaw.what is Spoilt.BODY:
                raw = _damaged(raw, Damage(flaw.how))
    return raw


def signed(
    notices: Sequence[Notice],
    *,
    scheme: Scheme,
    keys: Sequence[bytes],
    webhook_id: str,
    now: datetime,
    content: bytes,
    number: int,
) -> dict[str, str]:
    """Return the headers that sign the n-th attempt (from 1), in a wrong way if that is what the notices want."""
    flaws = {flaw.what: flaw for notice in notices for flaw in notice.flaws_at(number)}
    stale = flaws.get(Spoilt.TIMESTAMP)
    timestamp = int(now.timestamp() - (0.0 if stale is None else stale.age_s))
    forgery = flaws.get(Spoilt.SIGNATURE)
    if forgery is None or not keys:
        return signing.headers(scheme, keys, webhook_id, timestamp, content)
    match Forgery(forgery.how):
        case Forgery.WRONG_SECRET:
            return signing.headers(scheme, [_other(key) for key in keys], webhook_id, timestamp, content)
        case Forgery.TAMPERED:
            return signing.headers(scheme, keys, webhook_id, timestamp, content + b" ")
        case Forgery.MISSING:
            return signing.headers(scheme, [], webhook_id, timestamp, content)
        case Forgery.GARBAGE:
            sound = signing.headers(scheme, keys, webhook_id, timestamp, content)
            return {
                name: "v1,this is no signature" if name.endswith("signature") else value
                for name, value in sound.items()
            }


def _other(key: bytes) -> bytes:
    return bytes(byte ^ 0x55 for byte in key)


def _item(notice: Notice, number: int) -> Any:
    item: Any = event_as_json(notice.event)
    for flaw in notice.flaws_at(number):
        if flaw.what is not Spoilt.BODY:
            continue
        match Damage(flaw.how):
            case Damage.NO_TYPE:
                del item["type"]
            case Damage.NO_DATA:
                del item["data"]
            case Damage.WRONG_TYPES:
                item |= {"type": 7, "data": ["no", "object"], "timestamp": True}
            case Damage.NULL:
                return None
            case Damage.TEXT:
                return "this is no event"
            case _:
                pass
    return item


def _damaged(raw: bytes, how: Damage) -> bytes:
    match how:
        case Damage.TRUNCATED:
            return raw[: len(raw) // 2]
        case Damage.HTML:
            return b"<!doctype html><title>502 Bad Gateway</title>"
        case Damage.EMPTY:
            return b""
        case _:
            return raw


# --- kept over a restart ----------------------------------------------------------------------------


def notice_as_facts(notice: Notice) -> dict[str, Any]:
    """Write a notice down, with what it tells."""
    event = notice.event
    return {
        "key": notice.key,
        "source": notice.source,
        "event": {
            "id": event.id,
            "type": event.type,
            "at": event.at.isoformat(),
            "told_at": None if event.told_at is None else event.told_at.isoformat(),
            "data": event.data(),
        },
        "due_at": notice.due_at.isoformat(),
        "flaws": [dataclasses.asdict(flaw) for flaw in notice.flaws],
        "lost": notice.lost,
        "once": notice.once,
        "rules": list(notice.rules),
    }


def notice_from(account: str, facts: Mapping[str, Any]) -> Notice:
    """Read a notice that `notice_as_facts` wrote."""
    event = facts["event"]
    return Notice(
        key=facts["key"],
        source=facts["source"],
        event=Event(
            id=event["id"],
            type=event["type"],
            account=account,
            at=datetime.fromisoformat(event["at"]),
            order=(),
            given=event["data"],
            told_at=None if event["told_at"] is None else datetime.fromisoformat(event["told_at"]),
        ),
        due_at=datetime.fromisoformat(facts["due_at"]),
        flaws=tuple(Flaw(**flaw | {"what": Spoilt(flaw["what"])}) for flaw in facts["flaws"]),
        lost=facts["lost"],
        once=facts["once"],
        rules=tuple(facts["rules"]),
    )
