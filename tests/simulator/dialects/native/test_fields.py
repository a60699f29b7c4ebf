"""JSON is read strictly: whatever could mean two things means none."""

from __future__ import annotations

import pytest

from simulator.dialects.native.fields import Malformed, as_object, kind, parse, shown


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
