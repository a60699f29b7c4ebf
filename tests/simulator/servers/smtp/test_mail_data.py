"""The end of mail data, transparency, bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simulator.servers.smtp.mail_data import (
    Chunks,
    MailData,
    has_bare_line_ends,
    has_longer_line,
    plain_mail,
)
from tests.simulator.servers.smtp.bodies import BODIES, transparent


@given(body=BODIES, sizes=st.lists(st.integers(1, 7), min_size=1), after=st.binary(max_size=9))
def test_mail_data_arrives_byte_for_byte_however_it_is_cut(
    body: bytes, sizes: list[int], after: bytes
) -> None:
    """What a correct sender makes transparent comes out as it was; what follows the end is left alone."""
    wire = transparent(body) + b".\r\n" + after
    data, inbox, at = MailData(10_000), bytearray(), 0
    ended = False
    while not ended:
        size = sizes[at % len(sizes)]
        assert at < len(wire)
        inbox += wire[at : at + size]
        at += size
        ended = data.feed(inbox)
    assert data.raw() == body
    assert not has_bare_line_ends(body)
    assert bytes(inbox) + wire[at:] == after


@given(wire=st.lists(st.sampled_from([b"\r", b"\n", b".", b"\r\n", b"a"]), max_size=30).map(b"".join))
def test_reading_in_bulk_finds_what_reading_by_lines_finds(wire: bytes) -> None:
    """RFC 5321, section 4.5.2, read literally: lines end with CRLF, a lone dot ends, a first dot goes."""
    expected: bytes | None = None
    collected = b""
    for line in wire.split(b"\r\n")[:-1]:
        if line == b".":
            expected = collected
            break
        collected += (line[1:] if line.startswith(b".") else line) + b"\r\n"

    data = MailData(1_000)
    ended = data.feed(bytearray(wire))

    assert ended is (expected is not None)
    if ended:
        assert data.raw() == expected


def test_memory_stays_bounded_while_a_mail_is_too_large() -> None:
    data = MailData(1_000)
    for _ in range(2_000):
        assert not data.feed(bytearray(b"x" * 10_000))
        assert len(data._data) <= data._room
    assert data.feed(bytearray(b"\r\n.\r\n"))
    assert data.raw() is None


@given(
    lines=st.lists(st.integers(0, 30), max_size=12),
    limit=st.integers(1, 25),
    ended=st.booleans(),
)
def test_the_longest_line_decides(lines: list[int], limit: int, ended: bool) -> None:
    raw = b"\r\n".join(b"x" * size for size in lines) + (b"\r\n" if ended else b"")

    assert has_longer_line(raw, limit) is any(size > limit for size in lines)


def test_a_chunk_leaves_what_follows_it_alone() -> None:
    chunks, inbox = Chunks(10), bytearray(b"abcdefNOOP")
    chunks.begin(6)

    assert chunks.feed(inbox)
    assert inbox == b"NOOP"
    assert chunks.raw() == b"abcdef"


def test_chunks_beyond_the_limit_cost_no_memory() -> None:
    chunks = Chunks(1_000)
    chunks.begin(1_000_000)
    for _ in range(100):
        chunks.feed(bytearray(b"x" * 10_000))

    assert chunks.too_large
    assert chunks.raw() is None
    assert chunks.head() == b""


LINES = st.lists(
    st.sampled_from([b"", b".", b"..", b"x", b".x", b"Subject: x", b"\r", b"\n", b"\0", b"a\rb", b"a\nb", b"\r.", b"\n."]),
    max_size=6,
)  # fmt: skip


@given(lines=LINES, end=st.sampled_from([b".\r\n", b".\r\n", b".\r\n", b"", b"\n.\n", b".\r\nQUIT\r\n"]))
def test_a_plain_mail_is_what_is_found_piece_by_piece(lines: list[bytes], end: bytes) -> None:
    """And sound; of whatever has a dot to be taken out, or is not sound, nothing is said."""
    data = b"".join(line + b"\r\n" for line in lines) + end
    raw = plain_mail(data)

    mail, rest = MailData(1_000), bytearray(data)
    if raw is not None:
        assert mail.feed(rest)
        assert mail.raw() == raw
        assert not rest
        assert not has_bare_line_ends(raw)
        assert b"\0" not in raw
    elif lines and end == b".\r\n":
        odd = data[:-3]
        assert has_bare_line_ends(odd) or b"\0" in odd or b"\r\n." in b"\r\n" + odd
