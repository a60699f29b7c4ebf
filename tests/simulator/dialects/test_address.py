"""What can be an address at all: whatever the wires take, and nothing that none of them would."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.dialects.address import can_receive, can_send, is_address, leaves_room
from simulator.dialects.native.fields import Malformed, mailbox
from simulator.provider.answer import Reason
from simulator.servers.smtp.syntax import Objection, read_path

#: Pieces of which addresses, and what looks like them, are made.
PIECES = (
    "a",
    "bob",
    "@",
    "@@",
    ".",
    "-",
    "_",
    " ",
    '"',
    "\\",
    "[",
    "]",
    ":",
    "192.0.2.1",
    "é",
    "\u2028",
    "\x01",
    ",",
)
WORDS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
ADDRESSES = st.one_of(
    WORDS,
    st.builds("{}@{}".format, WORDS, WORDS),
    st.builds('"{}"@{}'.format, WORDS, WORDS),
    st.builds("{}@[{}]".format, WORDS, WORDS),
)


def over_http(text: str) -> bool:
    try:
        return mailbox(text, "to", Reason.INVALID) == ("", text)
    except Malformed:
        return False


def over_smtp(text: str) -> bool:
    try:
        return read_path(f"TO:<{text}>", "TO:", local_part_limit_bytes=10_000) == (text, "")
    except Objection:
        return False


@given(ADDRESSES)
def test_whatever_comes_over_a_wire_can_be_received(text: str) -> None:
    """And what does not, is none. Of literals only SMTP looks at what is within."""
    comes = over_http(text) or over_smtp(text)

    assert can_receive(text) or not comes
    assert comes or not can_receive(text) or "[" in text


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("bob@example.com", True),
        ('"bob@@example"@example.com', True),
        ("bob@[192.0.2.1]", True),
        ("bücher@example.com", True),
        ("a" * 250 + "@example.com", True),
        ("b", False),
        ("bob@@example", False),
        ("bob@", False),
        ("@example.com", False),
        ("bob smith@example.com", False),
        ("Bob <bob@example.com>", False),
        ("bob@example.com, ann@example.com", False),
        ("bob@exam\x00ple.com", False),
        ("bob@exam\ud800ple.com", False),
        ("a@" + "a" * 300, True),
        ("a@" + "a" * 400, False),
        ("", False),
        ("postmaster", False),
    ],
)
def test_an_address_is_known_from_what_is_none(text: str, is_one: bool) -> None:
    assert is_address(text) is is_one


def test_who_has_no_domain_can_send_or_receive() -> None:
    assert (can_send(""), can_receive("")) == (True, False)
    assert (can_send("postmaster"), can_receive("Postmaster")) == (False, True)


#: Parts that fit together.
LOCAL = st.lists(st.sampled_from(("a", "b-b", "é", "_")), min_size=1, max_size=4).map(".".join)
GOOD = st.one_of(
    st.builds("{}@{}".format, LOCAL, st.sampled_from(("a", "x.example", "é.b-b", "[192.0.2.1]", "[a:b@b]"))),
    st.sampled_from(('"a b"@c', '"a@b@"@c.d', '"\\""@c', '""@c')),
)


@settings(max_examples=300, deadline=None)
@given(GOOD, st.data())
def test_a_wildcard_that_stands_for_a_part_of_an_address_leaves_room(text: str, data: st.DataObject) -> None:
    """Whatever is replaced, by one or two of them."""
    ends = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    other = data.draw(st.integers(0, ends[0]))
    pattern = f"{text[:other]}*{text[other : ends[0]]}*{text[ends[1] :]}"

    assert leaves_room(pattern, is_address)


@pytest.mark.parametrize(
    ("pattern", "room"),
    [
        ("*", True),
        ("*@*", True),
        ("bob@*", True),
        ("*@@example.com", False),
        ("bob@@*", False),
        ("*@", False),
        ("@*", False),
        ("b*b", True),
        ("bob *", False),
        ("*@*@*", True),
        ("bob?example.com", True),
        ("bob@?", True),
        ("bob@@?????", True),
    ],
)
def test_a_wildcard_leaves_room_or_not(pattern: str, room: bool) -> None:
    """Of many wildcards nobody says that they do not."""
    assert leaves_room(pattern, is_address) is room
