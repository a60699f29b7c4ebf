"""Header fields, written: whatever is given can be read again, in lines that no server refuses."""

from __future__ import annotations

import time
from email import message_from_bytes
from email.policy import default

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulator.dialects.native import heading

TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Zl", "Zp"], exclude_characters="\r\n\0\v\f\x1c\x1d\x1e\x85"),
    max_size=300,
)


def lines_of(field: bytes) -> list[bytes]:
    assert field.endswith(b"\r\n")
    return field[:-2].split(b"\r\n")


@settings(deadline=None)
@given(TEXTS)
@example("x" * 2_000)
@example(" " * 2_000)
@example("a " * 900)
@example("=?utf-8?q?looks_encoded?=")
@example("ä" * 500)
@example(" blank at both ends ")
def test_free_text_is_read_as_it_was_written(text: str) -> None:
    field = heading.words("X-Text", text)

    assert message_from_bytes(field + b"\r\n", policy=default)["X-Text"] == text
    assert field.isascii()
    lines = lines_of(field)
    assert all(len(line) <= heading.MOST_CHARS for line in lines)
    # RFC 5322, section 3.2.2: no line of a folded field is empty to the eye.
    assert all(line[:1] == b" " and line.strip() for line in lines[1:])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(TEXTS.map(str.strip), st.sampled_from(["a@b.c", f"{'x' * 64}@{'y' * 60}.example"])),
        min_size=1,
        max_size=5,
    )
)
def test_addresses_are_read_as_they_were_written(mailboxes: list[heading.Mailbox]) -> None:
    """Names too, up to the blanks that the standard library's reader puts between encoded words."""
    field = heading.addresses("To", mailboxes)
    read = message_from_bytes(field + b"\r\n", policy=default)["To"].addresses

    assert [each.addr_spec for each in read] == [address for _, address in mailboxes]
    assert ["".join(each.display_name.split()) for each in read] == [
        "".join(name.split()) for name, _ in mailboxes
    ]
    assert all(len(line) <= heading.MOST_CHARS for line in lines_of(field))


@pytest.mark.parametrize(
    ("mailbox", "reads"),
    [
        (("", "a@b.c"), "a@b.c"),
        (("Shop", "a@b.c"), "Shop <a@b.c>"),
        (("Shop, Inc.", "a@b.c"), '"Shop, Inc." <a@b.c>'),
        (('The "Shop" \\', "a@b.c"), '"The \\"Shop\\" \\\\" <a@b.c>'),
        (("Zoë", "a@b.c"), "Zoë <a@b.c>"),
    ],
)
def test_a_mailbox_is_shown_as_people_read_it(mailbox: heading.Mailbox, reads: str) -> None:
    assert heading.shown(mailbox) == reads


def test_long_fields_are_broken_where_it_does_no_harm() -> None:
    """Between addresses, and at blanks of a text."""
    to = heading.addresses("To", [("", f"person{number}@example.org") for number in range(20)])
    subject = heading.words("Subject", "word " * 60 + "end")

    for field in (to, subject):
        assert len(lines_of(field)) > 3
        assert all(len(line) <= heading.LINE_CHARS for line in lines_of(field))


def test_a_monstrous_field_is_broken_in_no_time() -> None:
    """Each blank is looked at once: ten times the text takes ten times as long, not a hundred times."""
    took_s = []
    for size in (100_000, 1_000_000):
        began = time.process_time()
        field = heading.words("Subject", "a b " * (size // 4) + "c")
        took_s.append(time.process_time() - began)
        assert all(len(line) <= heading.LINE_CHARS for line in lines_of(field))

    assert took_s[1] < 40 * max(took_s[0], 0.001)


def test_what_has_a_grammar_is_left_as_it_is() -> None:
    """Encoded words have no place in it; beyond ASCII it is UTF-8 (RFC 6532)."""
    assert heading.as_it_is("Reply-To", "Zoë <a@b.c>") == "Reply-To: Zoë <a@b.c>\r\n".encode()
