"""Records as bytes: what a log and a table keep of them.

The facts of a record are JSON; the bytes of a mail stand beside them. Texts are cleaned on the way: NUL and halves of
surrogate pairs, which no database takes, become U+FFFD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from simulator.provider.acceptance import Acceptance
from simulator.provider.clock import ClockMoved
from simulator.provider.ledger import Attempt, Booked, Decided, Decision, Named, Tried, Wiped
from simulator.provider.notes import Noted
from simulator.provider.obligations import Obligation
from simulator.provider.provider import Record

#: Kinds of entries, each with a table of its own. Numbers stand in logs: none is ever used again for anything else.
BOOKED, TRIED, DECIDED, WIPED, NAMED = 1, 2, 3, 4, 8


@dataclass(frozen=True, slots=True)
class StateKind:
    """A record of which only the latest counts, by account and `key`."""

    code: int
    name: str
    record: type[Any]
    key: Callable[[Any], str]
    is_gone: Callable[[Any], bool] = lambda each: False
    """Tells whether a record only says that there is nothing any more."""


#: In the order in which a restart reads them.
STATE_KINDS = (
    StateKind(5, "clock", ClockMoved, lambda each: ""),
    StateKind(6, "obligation", Obligation, lambda each: f"{each.ref}\x1f{each.recipient.lower()}"),
    StateKind(7, "note", Noted, lambda each: f"{each.topic}\x1f{each.name}", lambda each: each.facts is None),
)

STATE_BY_CODE = {kind.code: kind for kind in STATE_KINDS}
STATE_BY_NAME = {kind.name: kind for kind in STATE_KINDS}


class Entry(NamedTuple):
    """A record, ready to be written."""

    kind: int
    facts: bytes
    body: bytes = b""
    value: Any = None
    """What the facts are of, where it cannot change any more; None: `decode` tells."""


_UNCLEAN = re.compile("[\0\ud800-\udfff]")
_json = msgspec.json.Encoder().encode

_DECODERS: dict[int, Callable[[bytes], Any]] = {
    BOOKED: msgspec.json.Decoder(Acceptance).decode,
    TRIED: msgspec.json.Decoder(Attempt).decode,
    DECIDED: msgspec.json.Decoder(Decision).decode,
    WIPED: msgspec.json.Decoder(Wiped).decode,
    NAMED: msgspec.json.Decoder(Named).decode,
} | {kind.code: msgspec.json.Decoder(kind.record).decode for kind in STATE_KINDS}


def encode(record: Record) -> Entry:
    """Write a record down as it is now."""
    return _ENCODERS[type(record)](record)


def _booked(record: Booked) -> Entry:
    acceptance = record.acceptance
    return _entry(Entry, (BOOKED, facts_of(acceptance), record.raw, acceptance))


def _tried(record: Tried) -> Entry:
    attempt = record.attempt
    # Its headers are for the rules of a living attempt; those of an accepted mail stand in the acceptance.
    headers, attempt.headers = attempt.headers, ()
    try:
        return _entry(Entry, (TRIED, facts_of(attempt), b"", attempt))
    finally:
        attempt.headers = headers


def _decided(record: Decided) -> Entry:
    return Entry(DECIDED, facts_of(record.decision), b"", record.decision)


def _plain(kind: int) -> Callable[[Any], Entry]:
    """Return what writes down a record that is all facts."""
    return lambda record: Entry(kind, facts_of(record), b"", record)


#: `Entry(…)` without a detour through Python: every mail has three of them.
_entry = tuple.__new__

_ENCODERS: dict[type, Callable[[Any], Entry]] = {
    Booked: _booked,
    Tried: _tried,
    Decided: _decided,
    Wiped: _plain(WIPED),
    Named: _plain(NAMED),
    **{kind.record: _plain(kind.code) for kind in STATE_KINDS},
}


def decode(kind: int, facts: bytes) -> Any:
    """Return what the facts are of. Raises `ValueError` if they are of nothing."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise ValueError(f"there is no record of kind {kind}")
    try:
        return decoder(facts)
    except msgspec.DecodeError:
        # Ledgers of former versions have halves of surrogate pairs, which `json` wrote and reads.
        return decoder(json.dumps(_clean(json.loads(facts))).encode())


def value_of(entry: Entry) -> Any:
    """Return what an entry is of."""
    return decode(entry.kind, entry.facts) if entry.value is None else entry.value


def facts_of(value: object) -> bytes:
    """Return the facts of an acceptance, an attempt, … as JSON without NUL and halves of surrogate pairs."""
    try:
        facts = _json(value)
    except UnicodeEncodeError:
        facts = _json(_clean(msgspec.to_builtins(value)))
    if b"\\u0000" in facts:
        facts = _json(_clean(msgspec.json.decode(facts)))
    return facts


def clean(text: str) -> str:
    """Return a text that every database takes."""
    if text.isascii() and "\0" not in text:
        return text  # As nearly always.
    return _UNCLEAN.sub("\ufffd", text)


def _clean(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(key): _clean(each) for key, each in value.items()}
        case list() | tuple():
            return [_clean(each) for each in value]
        case _:
            return value
