"""Records as bytes: what is written down is what is read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.provider.clock import ClockMoved
from simulator.provider.ledger import Booked, Decided, Named, Tried, Wiped
from simulator.provider.notes import Noted
from simulator.provider.provider import Record
from simulator.store.entries import BOOKED, STATE_KINDS, TRIED, clean, decode, encode, value_of
from tests.simulator.store.records import OWED, RAW, booked, decided, tried

RECORDS: list[Record] = [
    booked(),
    tried(),
    decided(),
    OWED,
    Named(account="default"),
    Wiped(account="default"),
    ClockMoved(account="default", ahead_s=1.5),
    Noted(account="default", topic="t", name="n", facts=None),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    entry = encode(record)
    value = decode(entry.kind, entry.facts)

    match record:
        case Booked(acceptance=acceptance):
            assert (value, entry.body) == (acceptance, RAW)
        case Tried(attempt=attempt):
            assert value == attempt
        case Decided(decision=decision):
            assert value == decision
        case _:
            assert value == record
    assert value_of(entry) == value


def test_every_kind_of_record_has_a_code_of_its_own() -> None:
    """A record without one could not be kept."""
    kinds = {encode(record).kind for record in RECORDS}

    assert len(kinds) == len(RECORDS)
    assert {kind.code for kind in STATE_KINDS} < kinds
    assert {type(record) for record in RECORDS} == set(Record.__args__)


def test_an_attempt_is_written_as_it_is_now_without_its_headers() -> None:
    """What it becomes later is another entry; whoever holds it notices nothing."""
    record = tried(headers=(("Subject", "x"),))
    entry = encode(record)
    record.attempt.answer = "changed"

    assert decode(TRIED, entry.facts) == replace(tried().attempt)
    assert record.attempt.headers == (("Subject", "x"),)


@given(st.text(st.characters(categories=["L", "Cs", "Cc", "So"], include_characters='\\u0"'), max_size=20))
def test_any_text_can_be_kept(text: str) -> None:
    """Unchanged, unless it has what no database takes; that is replaced and nothing else is touched."""
    entry = encode(booked(subject=text, headers=((text, text),), destinies=()))
    found = decode(BOOKED, entry.facts)

    assert found.subject == clean(text)
    assert found.headers == ((clean(text), clean(text)),)
    assert not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in found.subject)
    assert len(found.subject) == len(text)


def test_facts_of_former_versions_are_read() -> None:
    """`json` wrote halves of surrogate pairs, and knew no headers and no destinies."""
    facts = json.loads(encode(booked()).facts)
    del facts["headers"], facts["destinies"]
    facts["subject"] = "\ud83d!"

    found = decode(BOOKED, json.dumps(facts).encode())
    assert (found.subject, found.headers, found.destinies) == ("\ufffd!", (), ())


def test_what_is_no_record_is_a_value_error() -> None:
    for kind, facts in ((99, b"{}"), (BOOKED, b"{}"), (BOOKED, b"nonsense"), (TRIED, b"[]")):
        with pytest.raises(ValueError, match=r".+"):
            decode(kind, facts)
