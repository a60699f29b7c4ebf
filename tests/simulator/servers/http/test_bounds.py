"""Where one request ends and the next begins: what is wrong with a request is the same wherever it stands in a pipeline."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from simulator.servers.http.bounds import may_end, newest
from tests.simulator.running import Running, Sender, ask, mail, request
from tests.simulator.servers.http.provider import SEND
from tests.simulator.servers.http.test_connection import CHUNKED, CHUNKS, until_read

FALSE = b"FROB /of/a/body HTTP/1.1\r\n\r\nPUT /of/a/body HTTP/1.1\r\n\r\n"
UPGRADE = b"Connection: upgrade\r\nUpgrade: h2c\r\n"
#: Whole requests, whatever becomes of them.
WHOLE = [
    SEND,
    request(method="GET", path="/v1/emails/x"),
    b"\r\n" + request(method="DELETE", path="/v1/emails/x"),
    request(mail(text="a" * 100_000)),
    request(FALSE),
    request(b"\n" * 300),
    CHUNKED + CHUNKS + b"\r\n",
    CHUNKED + b"%x\r\n%b\r\n3;a=b\r\n\r\n\n\r\n0\r\nX-A: b\r\n\r\n" % (len(FALSE), FALSE),
    CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (400, b"\r\n\r\n" * 100),
    SEND.replace(b"\r\n", b"\r\n" + UPGRADE, 1),
    b"GET /v1/emails/x HTTP/1.1\r\nHost: x\r\n" + UPGRADE + b"\r\n",
    CHUNKED[:-2] + UPGRADE + b"\r\n" + CHUNKS + b"\r\n",
]
#: Behind the heads of the others a connection has another parser.
PLAIN = [each for each in WHOLE if UPGRADE not in each]
#: What no parser reads, and what is said of it.
STRANGE = {
    b"POSTER /v1/emails HTTP/1.1\r\nHost: x\r\n\r\n": 501,
    b"\r\n\r\nfrob / HTTP/1.0\r\n\r\n": 501,
    b"DESCRIBE / HTTP/1.1\r\n\r\n": 501,
    b"FROB / HTTP/2.0\r\n\r\n": 505,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 505,
    b"EHLO here\r\n": 400,
    b"FROB /half/a/line": 400,
    b"F@ / HTTP/1.1\r\n\r\n": 400,
}


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(WHOLE), max_size=6), st.sampled_from(sorted(STRANGE)), st.data())
def test_what_is_wrong_is_told_alike_at_any_place_in_a_pipeline(
    simulator: Running, before: list[bytes], strange: bytes, data: st.DataObject
) -> None:
    """In however many pieces that which stands before it comes."""
    ahead = b"".join(before)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ahead)), max_size=3)))
    alone = ask(simulator, strange)

    with Sender(simulator.http) as sender:
        for start, end in zip([0, *cuts], cuts, strict=False):
            sender.say(ahead[start:end])
            until_read(simulator)
        sender.say(ahead[cuts[-1] if cuts else 0 :] + strange)
        answers = [sender.see() for _ in range(len(before) + 1)]

    assert answers[-1].status == alone.status == STRANGE[strange]
    assert answers[-1].json == alone.json
    assert all(answer.status < 500 for answer in answers[:-1])


@pytest.mark.parametrize("whole", PLAIN, ids=range(len(PLAIN)))
def test_at_every_cut_of_a_request(whole: bytes) -> None:
    """A request ends where it may end, and nowhere is a cut of no bytes."""
    for cut in {*range(1, min(len(whole), 500)), *range(max(1, len(whole) - 20), len(whole))}:
        seen = Reader()
        seen.read(whole[:cut])
        rest = whole[cut:] + SEND
        while not seen.is_over:
            size = may_end(rest, seen.left)
            assert size > 0
            seen.read(rest[:size])
            rest = rest[size:]
        assert rest == SEND


@given(
    st.lists(st.sampled_from(PLAIN)),
    st.sampled_from([each for each, status in STRANGE.items() if status == 501]),
)
@example([request(b"\n" * 200_000)], b"FROB / HTTP/1.1\r\n\r\n")
def test_the_newest_begins_where_the_last_whole_one_ends(before: list[bytes], strange: bytes) -> None:
    """Empty lines before it belong to nobody."""
    assert newest(b"".join(before) + strange).lstrip() == strange.lstrip()


class Reader:
    """A parser that reads one request in pieces, and knows of its body what a connection knows."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._length: int | None = None
        self.left: int | None = None
        self.is_over = False

    def read(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-length":
            self._length = int(value)

    def on_headers_complete(self) -> None:
        self.left = self._length

    def on_body(self, body: bytes) -> None:
        if self.left is not None:
            self.left -= len(body)

    def on_message_complete(self) -> None:
        self.is_over = True


def test_a_body_of_known_length_ends_there() -> None:
    assert may_end(b"\r\n\r\nabc", 5) == 5
    assert may_end(b"abc", 5) == 3


def test_a_head_or_chunks_may_end_behind_an_empty_line() -> None:
    """Its beginning may have come before."""
    assert may_end(b"a\r\n\r\nb\r\n\r\n", None) == 5
    assert may_end(b"\r\nb", None) == 2
    assert may_end(b"\nb", None) == 1
    assert may_end(b"a\r\nb", None) == 4
