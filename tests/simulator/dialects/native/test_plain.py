"""The short way of a plain letter gives what the long way gives; and most letters go it."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.dialects.native.plain import plain_mail
from simulator.dialects.native.request import canonical_of, fingerprint_of, read
from simulator.provider.message import Submission
from tests.simulator.dialects.native.bodies import FIELDS
from tests.simulator.provider.mails import NOW

PLAIN = FIELDS | {"from": "shop@example.org"}
ADDRESSES = st.sampled_from(
    [
        "a@x.example",
        "A@x.example",
        "b.c+d@y.example",
        "Ann <a@x.example>",
        "a@b@c",
        "ä@x.example",
        "",
        "a" * 330 + "@x",
    ]
)
TEXTS = st.sampled_from(
    ["", "Thanks", "Grüße", "two\r\nlines", "\ud800", "a\0b", '"x":', "\x1c", "x" * 1_200]
)
IDS = st.sampled_from(["<a@b>", "a@b", "<ä@b>", "<a@b> ", "", "<" + "a" * 1_000 + "@b>"])
ODD = st.none() | st.integers() | st.booleans() | st.lists(TEXTS, max_size=2)
LETTERS = st.fixed_dictionaries(
    {"from": ADDRESSES | ODD, "to": st.lists(ADDRESSES, max_size=4) | ODD | ADDRESSES},
    optional={
        "subject": TEXTS | ODD,
        "text": TEXTS | ODD,
        "html": TEXTS | ODD,
        "message_id": IDS | ODD,
        "cc": st.just(["c@x.example"]),
        "headers": st.just({"X-A": "b"}),
        "unknown": TEXTS,
    },
)


def short(data: dict[str, Any], key: str | None) -> Submission | None:
    return plain_mail(data, canonical_of(data), key=key, fingerprint=fingerprint_of(data), host="mx.example")


def taken(data: dict[str, Any], key: str | None) -> object:
    return read(json.dumps(data).encode(), key=key, now=NOW, host="mx.example")


def long(data: dict[str, Any], key: str | None) -> object:
    with patch("simulator.dialects.native.request.plain_mail", return_value=None):
        return taken(data, key)


@settings(max_examples=300, deadline=None)
@given(data=LETTERS, key=st.none() | st.just("order-1"))
def test_both_ways_are_the_same(data: dict[str, Any], key: str | None) -> None:
    found = short(data, key)

    assert found is None or found == long(data, key)
    assert taken(data, key) == long(data, key)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"html": "<p>Thanks</p>"},
        {"message_id": "<order-1@example.org>"},
        {"to": ["a@x.example", "A@X.example", "b@x.example"]},
        {"subject": "Grüße"},
        {"text": "two\nlines"},
    ],
    ids=repr,
)
def test_a_plain_letter_goes_the_short_way(more: dict[str, Any]) -> None:
    found = short(PLAIN | more, "order-1")

    assert found is not None
    assert found == long(PLAIN | more, "order-1")


@pytest.mark.parametrize(
    "more",
    [
        {"from": "Shop <shop@example.org>"},
        {"cc": ["c@x.example"]},
        {"subject": "two\nlines"},
        {"text": "half a \ud800"},
        {"text": None},
        {"message_id": "none"},
        {"to": [f"c{n}@x.example" for n in range(51)]},
        {"unknown": "x"},
    ],
    ids=lambda more: str(next(iter(more))),
)
def test_any_other_does_not(more: dict[str, Any]) -> None:
    assert short(PLAIN | more, "order-1") is None
