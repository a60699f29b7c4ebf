"""JSON is read strictly: whatever could mean two things means none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.dialects.native.fields import (
    Malformed,
    _each_once,
    _parse_plain,
    as_object,
    kind,
    parse,
    shown,
)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"to": 1, "to": 2}', "the body has the member 'to' twice; give it once"),
        (b'[{"a": {"b": 1, "c": 2, "b": 1}}]', "the body has the member 'b' twice"),
        (b'{"a": NaN}', "NaN is no number that JSON knows"),
        (b"[-Infinity]", "-Infinity is no number that JSON knows"),
        (b"\xef\xbb\xbf{}", "the body is not JSON"),
        (b'{"a": "\xc3"}', "the body is not UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "the body is not UTF-8 at byte 7"),
        (b"[" * 100_000, "beyond what this service reads"),
        (b'{"a":' * 100_000, "beyond what this service reads"),
        (b"1" * 100_000, "beyond what this service reads"),
        (b"-" + b"9" * 5_000, "beyond what this service reads"),
        (b'"\x00"', "Invalid control character"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_json_is_said_in_one_sentence(body: bytes, says: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse(body)

    assert says in caught.value.detail
    assert "\n" not in caught.value.detail


def test_a_million_members_are_looked_through_once() -> None:
    """The last one comes twice: a search for it that looks again and again would never end."""
    members = b",".join(b'"%d":0' % number for number in range(200_000))

    with pytest.raises(Malformed, match="'199999' twice"):
        parse(b"{" + members + b',"199999":0}')


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"), (True, "true or false"), (1, "a number"), (1.5, "a number"),
        ("", "a text"), ([], "a list"), ({}, "an object"),
    ],
)  # fmt: skip
def test_each_kind_of_value_has_a_name(value: object, name: str) -> None:
    assert kind(value) == name


def test_only_an_object_is_an_object() -> None:
    assert as_object({"a": 1}, "it") == {"a": 1}
    with pytest.raises(Malformed, match="it is a list; it must be a JSON object"):
        as_object([], "it")


def test_what_a_sender_wrote_is_shown_short_and_in_one_line() -> None:
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown("x" * 10_000)) < 90


NAMES = st.sampled_from(["from", "to", "subject", "a", "", "é", 'q"', "x\\", "b\tb"]) | st.text(max_size=3)
TEXTS = st.text(max_size=6) | st.sampled_from(["from", "to", 'a":', '"to" :'])
VALUES = TEXTS | st.lists(TEXTS, max_size=3) | st.dictionaries(NAMES, TEXTS, max_size=3) | st.integers()
MEMBERS = st.lists(st.tuples(NAMES, VALUES), max_size=4)


@given(MEMBERS, st.booleans(), st.booleans(), st.sampled_from([(",", ":"), (", ", ": "), (",", " : ")]))
def test_the_quick_way_to_parse_finds_what_the_strict_one_finds(
    members: list[tuple[str, object]], ascii_only: bool, doubled: bool, separators: tuple[str, str]
) -> None:
    """Where it dares to say anything; a member that comes twice it leaves to the strict one."""
    members += members[:1] if doubled else []
    body = (
        "{"
        + separators[0].join(
            json.dumps(name, ensure_ascii=ascii_only)
            + separators[1]
            + json.dumps(value, ensure_ascii=ascii_only)
            for name, value in members
        )
        + "}"
    ).encode("utf-8", "surrogatepass")
    quickly = _parse_plain(body)

    if quickly is not None:
        assert quickly == json.loads(body, object_pairs_hook=_each_once)
        assert list(quickly) == list(json.loads(body))


def test_nearly_every_request_is_parsed_in_the_quick_way() -> None:
    """Else it would prove nothing."""
    body = {
        "from": "a@x",
        "to": ["b@x"],
        "subject": "Grüße: {x}",
        "text": 'say "to"',
        "headers": {"X-Ref": "1"},
    }

    for dumped in (json.dumps(body), json.dumps(body, indent=2), json.dumps(body, ensure_ascii=False)):
        assert _parse_plain(dumped.encode()) == body
    assert _parse_plain(b'{"to": [1]}') is None
    assert _parse_plain(b'{"text": "\\":"}') is None
