"""Any bytes become a submission; of its bytes only the header block is read."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.provider.message import (
    HEADER_LIMIT_BYTES,
    HEADER_LIMIT_LINES,
    SUBJECT_LIMIT_CHARS,
    Moment,
    _read_any,
    _read_plain,
    bounded,
    digest,
    from_bytes,
    header,
    read_headers,
    readable,
    shortened,
)


@given(st.binary(max_size=400))
def test_no_bytes_are_refused(raw: bytes) -> None:
    """A ledger takes whatever a sender managed to send, and keeps it as it is."""
    submission = from_bytes(raw, dialect="smtp", sender="", recipients=["a@example.org"])

    assert submission.raw == raw
    assert submission.fingerprint == digest(raw)


@given(st.text(max_size=200))
def test_no_subject_breaks_the_reading(text: str) -> None:
    assert isinstance(readable(text), str)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("=?utf-8?q?Gr=C3=BC=C3=9Fe?=", "Grüße"),
        ("=?utf-8?b?abcde?=", "=?utf-8?b?abcde?="),
        ("=?no-such-charset?q?a?=", "=?no-such-charset?q?a?="),
        ("plain", "plain"),
    ],
)
def test_encoded_words_are_decoded_or_left(written: str, shown: str) -> None:
    assert readable(written) == shown


def test_headers_are_unfolded_and_utf8_is_read() -> None:
    """RFC 5322 folding, and the raw UTF-8 of RFC 6532."""
    headers = read_headers("Subject: Grüße\r\n an alle\r\nX-A: 1\r\n\r\nX-B: 2\r\n".encode())

    assert headers == (("Subject", "Grüße an alle"), ("X-A", "1"))


def test_broken_bytes_in_a_header_are_marked() -> None:
    assert read_headers(b"Subject: a\xffb\n\nbody") == (("Subject", "a�b"),)


def test_the_first_header_of_a_name_counts_whatever_its_case() -> None:
    assert header((("X-A", "1"), ("x-a", "2")), "x-A") == "1"
    assert header((), "x-A") is None


def test_a_mail_is_the_same_mail_by_its_recipients() -> None:
    """Key and Message-ID would be renewed by exactly the senders we hunt."""
    first = Moment(stage="message", dialect="smtp", account="a", recipients=("b@x", "a@x"), message_id="<1>")
    second = Moment(stage="message", dialect="smtp", account="a", recipients=("a@x", "b@x"), message_id="<2>")

    assert first.mail == second.mail
    assert Moment(stage="mail", dialect="smtp", account="a", connection="c1").mail == "id:c1"


def test_a_header_bomb_is_read_up_to_a_bound() -> None:
    bomb = from_bytes(b"a: b\r\n" * 20_000 + b"\r\nbody\r\n", dialect="smtp", sender="", recipients=("a@x",))

    assert len(bomb.headers) == HEADER_LIMIT_LINES
    assert set(bomb.headers) == {("a", "b")}


def test_a_subject_is_read_up_to_a_bound() -> None:
    raw = b"Subject: " + b"=?utf-8?B?w7w=?= " * 10_000 + b"\r\n\r\n"
    long = from_bytes(raw, dialect="smtp", sender="", recipients=("a@x",))

    assert 200 < len(long.subject) <= SUBJECT_LIMIT_CHARS
    assert set(long.subject) == {"ü"}


@pytest.mark.parametrize("last", ["e\u0301", "👩\u200d👧", "=?utf-8?q?x?=", "=?utf-8?b?w7w=?="])
def test_a_subject_ends_with_a_whole_character_or_word(last: str) -> None:
    """Wherever the bound falls."""
    for size in range(1, len(last)):
        begun = "x" * (SUBJECT_LIMIT_CHARS - size)
        assert shortened(begun + last) == begun
    assert shortened("=?" * SUBJECT_LIMIT_CHARS) == "=?" * (SUBJECT_LIMIT_CHARS // 2)


def test_so_much_of_the_fields_is_kept() -> None:
    """The first ones whole, of the one that is too much its beginning."""
    many = tuple((f"X-{number}", "y") for number in range(HEADER_LIMIT_LINES + 1))
    large = (("A", "x" * HEADER_LIMIT_BYTES), ("B", "y"))

    assert bounded(many) == many[:-1]
    assert bounded(large) == (("A", "x" * (HEADER_LIMIT_BYTES - 1)),)


HEADS = st.lists(
    st.sampled_from(
        [b"Subject: a b", b"X-Y:  z ", "From: ä <a@b>".encode(), b"A:", b"B: =?utf-8?q?x?=", b"C: \xff", b"\r\n", b"\r\n", b"\r\n", b"\r\n ", b"\r\n\t", b"\r", b"\n", b" ", b"\t", b":", b"From x", b"\0", b"\x0b", b"\x85", b"\x1c"]
    ),
    max_size=9,
).map(lambda parts: b"".join(parts) + b"\r\n\r\n")  # fmt: skip


@given(HEADS)
@example(b"Subject: one\r\n two\r\nTo: b@x\r\n\r\n")
@example(b"Subject:\r\n \r\n\r\n")
def test_the_quick_way_to_read_headers_finds_what_the_library_finds(head: bytes) -> None:
    """Where it dares to say anything."""
    head = head[: head.find(b"\r\n\r\n") + 4]
    quickly = _read_plain(head)

    assert quickly in (None, _read_any(head))
    assert read_headers(head + b"body\r\n\r\n") == _read_any(head)


@pytest.mark.parametrize(
    "bomb", [b"A:" + b" " * 200_000, b"A: b" + b" \t" * 100_000, b"A:" + b" b" * 100_000]
)
def test_blanks_that_end_in_something_odd_take_no_time(bomb: bytes) -> None:
    """Each is tried once: quadratic, these would take hours."""
    ((name, value),) = read_headers(bomb + b"\x01\r\n\r\n")

    assert (name, value[-1]) == ("A", "\x01")


@pytest.mark.parametrize("size", [0, 2_047, 2_048, 4_096, 70_000])
def test_a_digest_is_that_of_all_bytes(size: int) -> None:
    raw = bytes(range(256)) * 300

    assert digest(raw[:size]) == sha256(raw[:size]).hexdigest()


def test_nearly_every_mail_is_read_in_the_quick_way() -> None:
    """Else it would prove nothing."""
    assert _read_plain(b"Received: from a\r\n\tby b\r\nSubject: a\r\nX-\xc3: y\r\n\r\n") is None
    assert _read_plain("Received: from a\r\n\tby b\r\nSubject: ä\r\n\r\n".encode()) == (
        ("Received", "from a\tby b"),
        ("Subject", "ä"),
    )
