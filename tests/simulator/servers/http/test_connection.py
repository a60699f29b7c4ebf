"""Connections as they should not be: they end with the right words, and nobody else suffers."""

from __future__ import annotations

import contextlib
import json
import socket
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.servers.http import connection
from tests.simulator.running import Running, Sender, ask, mail, request
from tests.simulator.servers.http.provider import SEND, accepted, is_yes, plan

#: What requests are made of, whole and broken.
PIECES = [
    SEND,
    SEND[:60],
    SEND[60:],
    request(method="GET", path="/v1/emails/x"),
    b"POST /v1/emails HTTP/1.1\r\n",
    b"Host: x\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"\r\n",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"\xff\x00",
    b" ",
    b"{}",
]


def test_bytes_that_are_no_http_get_400(simulator: Running) -> None:
    """A sender that speaks SMTP to the wrong port hears that it is wrong."""
    assert ask(simulator, b"EHLO here\r\n\r\n").status == 400


def test_an_endless_head_is_refused(simulator: Running) -> None:
    """Whether it is one header or many: 431, and nothing is collected any longer."""
    for endless in (b"a" * 65_536, b"X-A: b\r\n" * 8192):
        with Sender(simulator.http) as sender:
            sender.say(b"POST /v1/emails HTTP/1.1\r\nX-First: ")
            for _ in range(64):
                sender.say(endless)
            assert sender.see().status == 431


@pytest.mark.parametrize("cut", [1, 10, 30, 60, 100, len(SEND) - 1])
@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_sender_may_leave_at_any_byte(simulator: Running, cut: int, how: str) -> None:
    """Nothing is booked, nothing is logged as an error, and the next sender is served."""
    with Sender(simulator.http) as sender:
        sender.say(SEND[:cut])
        if how == "rst":
            sender.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    assert is_yes(ask(simulator, request(mail(), key="another")))
    assert accepted(simulator) == 1


def test_a_head_of_too_many_lines_is_refused(simulator: Running) -> None:
    """A header bomb: whatever it is made of, 256 KB of head are enough."""
    for bomb in (
        b"X-A: b\r\n" * 40_000,
        b"X-" + b"a" * 300_000 + b": b\r\n",
        b"X: " + b" " * 300_000 + b"\r\n",
    ):
        with Sender(simulator.http) as sender:
            seen = sender.say(b"POST /v1/emails HTTP/1.1\r\nHost: x\r\n" + bomb).see()
            assert (seen.status, seen.json["code"]) == (431, "head_too_large")
            assert sender.end() in ("eof", "reset")
    assert is_yes(ask(simulator, SEND))


def test_a_whole_head_of_too_many_bytes_is_refused(simulator: Running) -> None:
    """However few pieces it comes in: that it has an end does not make it shorter."""
    for bomb in (b"X-A: b\r\n" * 40_000, b"X-A: " + b"a" * 300_000 + b"\r\n"):
        with Sender(simulator.http) as sender:
            seen = sender.say(SEND.replace(b"\r\n", b"\r\n" + bomb, 1)).see()
            assert (seen.status, seen.json["code"]) == (431, "head_too_large")
            assert sender.end() in ("eof", "reset")
    assert accepted(simulator) == 0


@pytest.mark.parametrize("end", [b"", b" HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["endless", "whole"])
def test_a_target_that_is_too_long_is_refused(simulator: Running, end: bytes) -> None:
    """RFC 9110, section 15.5.15: 414, and once only."""
    with Sender(simulator.http) as sender:
        seen = sender.say(b"GET /" + b"a" * 600_000 + end).see()
        assert (seen.status, seen.json["code"]) == (414, "uri_too_long")
        assert sender.end() in ("eof", "reset")


def test_a_target_may_have_64_kb(simulator: Running) -> None:
    """One byte more is too many."""
    for over, status in ((0, 404), (1, 414)):
        path = "/" + "a" * (connection.MAX_TARGET_BYTES - 1 + over)
        assert ask(simulator, request(method="GET", path=path)).status == status


@pytest.mark.parametrize("cut", [0, 2, 4])
def test_a_method_that_is_not_known_is_told_so(simulator: Running, cut: int) -> None:
    """RFC 9110, section 15.6.2: 501, also behind other requests and in pieces; and the end of the line."""
    data = b"POSTER /v1/emails HTTP/1.1\r\nHost: x\r\n\r\n"
    with Sender(simulator.http) as sender:
        assert is_yes(sender.say(SEND).see())
        sender.say(data[:cut])
        until_read(simulator)
        seen = sender.say(data[cut:]).see()
        assert (seen.status, seen.json["code"]) == (501, "not_implemented")
        assert sender.end() == "eof"


def test_a_sound_head_may_be_long(simulator: Running) -> None:
    """Real requests carry cookies and traces: 60 KB of them are none of our business."""
    many = {f"X-Trace-{number}": "v" * 500 for number in range(120)}

    assert is_yes(ask(simulator, request(mail(), headers=many)))


def test_a_head_that_never_ends_is_seen_out(simulator: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow-loris: 408 in the end, whatever drips in meanwhile."""
    monkeypatch.setattr(connection, "HEAD_S", 0.2)
    with Sender(simulator.http) as sender:
        sender.say(b"POST /v1/emails HTTP/1.1\r\nHost: x\r\n")
        while (seen := sender.say(b"X-A: b\r\n").see(silence_s=0.05)).end == "silence":
            pass

        assert (seen.status, seen.json["code"]) == (408, "request_timeout")
        assert sender.end() in ("eof", "reset")


def test_a_connection_that_says_nothing_is_closed(
    simulator: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "KEEP_ALIVE_S", 0.1)
    with Sender(simulator.http) as sender:
        assert sender.end() == "eof"


def test_a_request_that_is_being_answered_is_not_hurried(
    simulator: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only senders have to hurry; a provider may be slow."""
    monkeypatch.setattr(connection, "HEAD_S", 0.05)
    monkeypatch.setattr(connection, "KEEP_ALIVE_S", 0.05)
    plan(simulator, {"fault": "slow", "stage": "accept", "delay_s": 0.3})

    with Sender(simulator.http) as sender:
        sender.say(SEND[:20])
        assert is_yes(sender.say(SEND[20:]).see())


def test_many_idle_connections_harm_nobody(simulator: Running) -> None:
    """Each costs a few kilobytes; who comes behind them is served as ever, and all of them still are."""
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(Sender(simulator.http)) for _ in range(300)]
        for sender in idle[::2]:
            sender.say(SEND[:30])

        assert is_yes(ask(simulator, SEND))
        assert [is_yes(sender.say(SEND[30:]).see()) for sender in idle[::2]] == [True] * 150
        assert [is_yes(sender.say(SEND).see()) for sender in idle[1::2]] == [True] * 150
    assert accepted(simulator) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/11.1\r\n\r\n",
        b"GET / HTTP/1.x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/emails HTTP/1.1\r\nHost: x\r\nX-A: b\x00c\r\n\r\n",
        b"POST /v1/emails HTTP/1.1\r\nHost: x\r\n : b\r\n\r\n",
        b"POST /v1/emails HTTP/1.1\nHost x\n\n",
        b"\r\n\r\n\r\nHELO\r\n\r\n",
    ],
    ids=repr,
)
def test_what_is_no_request_is_told_so(simulator: Running, data: bytes) -> None:
    """400 as a problem document, and the end of the line."""
    with Sender(simulator.http) as sender:
        seen = sender.say(data).see()

        assert (seen.status, seen.headers["content-type"]) == (400, "application/problem+json")
        assert seen.headers["connection"] == "close"
        assert sender.end() == "eof"


@pytest.mark.parametrize(
    "data",
    [SEND.replace(b"HTTP/1.1", b"HTTP/" + version, 1) for version in (b"0.9", b"2.0", b"2.7", b"3.0", b"9.9")]
    + [b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ids=lambda data: data.split(b"\r")[0].decode(),
)
@pytest.mark.parametrize("cut", [0, 7, 20])
def test_another_major_version_is_not_served(simulator: Running, data: bytes, cut: int) -> None:
    """RFC 9110, section 15.6.6: 505, nothing booked, and the end of the line; behind the answers that are due."""
    with Sender(simulator.http) as sender:
        assert is_yes(sender.say(SEND).see())
        sender.say(data[:cut])
        seen = sender.say(data[cut:]).see()

        assert (seen.status, seen.json["code"]) == (505, "version_not_supported")
        assert seen.headers["connection"] == "close"
        assert sender.end() in ("eof", "reset")
    assert accepted(simulator) == 1


@pytest.mark.parametrize("version", [b"1.2", b"1.9"])
def test_a_higher_minor_version_is_read_as_the_highest_known(simulator: Running, version: bytes) -> None:
    """RFC 9110, section 2.5: also that it needs a Host, and that the connection is kept."""
    newer = SEND.replace(b"HTTP/1.1", b"HTTP/" + version, 1)
    with Sender(simulator.http) as sender:
        assert is_yes(sender.say(newer).see())
        assert is_yes(sender.say(newer).see())
        assert sender.say(b"GET /v1/emails/x HTTP/" + version + b"\r\n\r\n").see().status == 400


def until_read(simulator: Running) -> None:
    """Whatever was said before is read by now: one loop reads all that is there before it answers what came later."""
    with simulator.control() as control:
        control.health()


CHUNKED = b"POST /v1/emails HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = json.dumps(mail()).encode()
CHUNKS = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize("cut", [0, len(CHUNKED), len(CHUNKED + CHUNKS)])
def test_what_stands_behind_a_body_is_no_header(simulator: Running, cut: int) -> None:
    """RFC 9110, section 6.5.1: neither a second Host nor anybody's key, in however many pieces it comes."""
    data = CHUNKED + CHUNKS + b"Host: y\r\nAuthorization: Basic x\r\nIdempotency-Key: k\r\n\r\n"
    for _ in range(2):
        with Sender(simulator.http) as sender:
            sender.say(data[:cut])
            until_read(simulator)
            seen = sender.say(data[cut:]).see()
            assert is_yes(seen)
            assert "idempotency-replayed" not in seen.headers
    assert accepted(simulator) == 2


@pytest.mark.parametrize(
    ("before", "endless"),
    [
        (CHUNKED + CHUNKS, b"X-A: b\r\n" * 8192),
        (CHUNKED + CHUNKS + b"X-A: ", b"a" * 65_536),
        (CHUNKED + b"5;", b"a" * 65_536),
    ],
    ids=["trailers", "trailer", "chunk extension"],
)
def test_an_endless_framing_is_refused(simulator: Running, before: bytes, endless: bytes) -> None:
    """Behind a sound head, too, nothing is collected without end: 431."""
    with Sender(simulator.http) as sender:
        sender.say(before)
        for _ in range(64):
            sender.say(endless)
        assert sender.see().status == 431
    assert accepted(simulator) == 0


def test_framing_may_be_most_of_a_long_body(simulator: Running) -> None:
    """Chunks of one octet with much to say of each are odd, not endless."""
    body = json.dumps(mail(text="a" * 600)).encode()
    chunks = b"".join(b"1;a=%b\r\n%c\r\n" % (b"b" * 1_000, octet) for octet in body)

    assert len(chunks) > 2 * connection.MAX_HEAD_BYTES
    assert is_yes(ask(simulator, CHUNKED + chunks + b"0\r\n\r\n"))


def test_a_sender_of_http_1_0_hears_no_100(simulator: Running) -> None:
    """RFC 9110, section 10.1.1: it would take it for the answer."""
    head, _, body = SEND.partition(b"\r\n\r\n")
    with Sender(simulator.http) as sender:
        sender.say(head.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\nExpect: 100-continue\r\n\r\n")
        assert sender.see(silence_s=0.2).end == "silence"
        assert is_yes(sender.say(body).see())


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.data())
def test_any_bytes_are_answered_or_waited_for(
    simulator: Running, pieces: list[bytes], data: st.DataObject
) -> None:
    """No sequence of pieces of requests makes the server fall silent, log a traceback, or take what was not sent."""
    stream = b"".join(pieces)
    cut = data.draw(st.integers(0, len(stream)))
    with simulator.control() as control:
        control.reset()
    with Sender(simulator.http) as sender:
        sender.say(stream[:cut])
        sender.say(stream[cut:])
        sender.socket.shutdown(socket.SHUT_WR)
        assert sender.end() in ("eof", "reset")

    assert accepted(simulator) <= stream.count(b"POST /v1/emails")
    assert is_yes(ask(simulator, request(mail(), key="after")))
