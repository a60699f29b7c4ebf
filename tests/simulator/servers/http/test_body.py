"""Bodies are read within bounds, decoded, or refused."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.answer import Reason, Refused, Reply
from simulator.servers.http import body as body_module
from simulator.servers.http.body import DRAIN_BYTES, MAX_BODY_BYTES, STALL_S, Coding, decoded, read_body
from tests.simulator.running import Running, Sender, ask, mail, raw_mail, request
from tests.simulator.servers.http.provider import SEND, accepted, is_yes, plan


def test_a_body_at_the_limit_is_taken(simulator: Running) -> None:
    """40 MB of request; the ledger has the very bytes."""
    frame = len(json.dumps(raw_mail(b"", "ada@example.com")))
    raw = b"Subject: big\r\n\r\n" + b"0123456789abcde\r\n" * ((MAX_BODY_BYTES - frame) // 4 * 3 // 17 - 1)
    body = json.dumps(raw_mail(raw, "ada@example.com")).encode()
    assert MAX_BODY_BYTES - 100 < len(body) <= MAX_BODY_BYTES

    seen = ask(simulator, request(body))

    assert seen.status == 200
    with simulator.control() as control:
        assert control.raw(seen.json["id"]) == raw


def test_a_larger_body_is_refused_and_not_kept(simulator: Running) -> None:
    """413 after the body was thrown away piece by piece; the connection lives on."""
    with Sender(simulator.http) as sender:
        seen = sender.say(request(b" " * (MAX_BODY_BYTES + 1))).see()
        assert (seen.status, seen.json["code"]) == (413, "too_large")
        assert is_yes(sender.say(SEND).see())


def test_a_chunked_body_has_the_same_limit(simulator: Running) -> None:
    """The limit does not trust a declared length."""
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    head = b"POST /v1/emails HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Sender(simulator.http) as sender:
        seen = sender.say(head + chunk * 41 + b"0\r\n\r\n").see()
    assert seen.status == 413


def test_a_body_without_end_is_neither_kept_nor_read_without_end() -> None:
    """Memory never holds more than the limit, and after four times the limit the sender is told anyway."""
    piece, asked = b" " * 1024 * 1024, 0

    async def receive() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": piece, "more_body": True}

    tracemalloc.start()
    try:
        outcome = asyncio.run(read_body({}, receive))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert isinstance(outcome, Refused)
    assert asked == DRAIN_BYTES // len(piece) + 1
    # A growing buffer is copied once in a while: twice the limit is the bound, not four times.
    assert peak_bytes < 2.2 * MAX_BODY_BYTES


def test_a_sender_that_asks_first_is_refused_before_it_sends(simulator: Running) -> None:
    """`Expect: 100-continue` with a length that is too large: 413 instead of 100 (RFC 9110, section 10.1.1)."""
    head = (
        f"POST /v1/emails HTTP/1.1\r\nHost: x\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    with Sender(simulator.http) as sender:
        assert sender.say(head.encode()).see().status == 413


def test_a_sender_that_asks_first_is_told_to_go_on(simulator: Running) -> None:
    """`Expect: 100-continue` with a good length: 100, then the answer."""
    head, _, body = request(mail(), headers={"Expect": "100-continue"}).partition(b"\r\n\r\n")
    with Sender(simulator.http) as sender:
        assert sender.say(head + b"\r\n\r\n").see().status == 100
        assert is_yes(sender.say(body).see())


# --- senders that mean no good ------------------------------------------------------------------------


def head(*lines: str, length: int) -> bytes:
    return "\r\n".join(
        ("POST /v1/emails HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines, "", "")
    ).encode()


def test_a_gigabyte_that_is_declared_is_refused_at_once(simulator: Running) -> None:
    """413 before a byte of it is read; and whoever sends it all the same is not read for ever."""
    with Sender(simulator.http) as sender:
        seen = sender.say(head(length=1 << 30)).see()

        assert (seen.status, seen.json["code"], seen.headers["connection"]) == (413, "too_large", "close")
        for _ in range(64):
            sender.say(b" " * 65_536)
        sender.socket.shutdown(socket.SHUT_WR)
        assert sender.end() in ("eof", "reset")


def test_a_body_that_stalls_is_seen_out(simulator: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """408 (RFC 9110, section 15.5.9), and the line ends; others do not notice."""
    monkeypatch.setattr(body_module, "STALL_S", 0.1)
    with Sender(simulator.http) as sender:
        sender.say(SEND[:-5])
        assert is_yes(ask(simulator, request(mail(), key="meanwhile")))

        seen = sender.see()

        assert (seen.status, seen.json["code"]) == (408, "request_timeout")
        assert sender.end() == "eof"
    assert accepted(simulator) == 1


def test_a_body_that_drips_is_seen_out() -> None:
    """A byte now and then is no progress: on the whole a body has to come as fast as `LEAST_BYTES_PER_S`."""
    clock, sent = 0.0, 0

    async def receive() -> dict[str, Any]:
        nonlocal clock, sent
        clock, sent = clock + STALL_S - 1, sent + 1
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def read() -> object:
        loop = asyncio.get_running_loop()
        loop.time = lambda: clock  # type: ignore[method-assign]
        return await read_body({}, receive)

    outcome = asyncio.run(read())

    assert isinstance(outcome, Reply)
    assert outcome.code == 408
    assert sent == 2


@pytest.mark.parametrize(
    ("framing", "status"),
    [
        (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"Content-Length: -1\r\n\r\n", 400),
        (b"Content-Length: 99999999999999999999\r\n\r\n", 400),
        (b"Content-Length: 0x2\r\n\r\n{}", 400),
        (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n", 400),
        (b"Transfer-Encoding: gzip\r\n\r\n{}", 400),
    ],
    ids=repr,
)
def test_framing_that_means_two_things_is_refused(simulator: Running, framing: bytes, status: int) -> None:
    """RFC 9112, section 6: what one server takes for a body another takes for a request."""
    with Sender(simulator.http) as sender:
        seen = sender.say(b"POST /v1/emails HTTP/1.1\r\nHost: x\r\n" + framing).see()

        assert (seen.status, seen.headers["content-type"]) == (status, "application/problem+json")
        assert sender.end() == "eof"
    assert accepted(simulator) == 0


def test_a_broken_chunk_behind_a_sound_request_is_answered_in_turn(simulator: Running) -> None:
    """The first request gets its answer first, then comes the refusal of what followed."""
    plan(simulator, {"fault": "slow", "stage": "reply", "delay_s": 0.1})
    broken = b"POST /v1/emails HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"

    with Sender(simulator.http) as sender:
        sender.say(SEND + broken)

        assert is_yes(sender.see())
        assert sender.see().status == 400
        assert sender.end() == "eof"


ODD_BODIES = {
    "deep nesting": b'{"text":' * 200_000,
    "deep arrays": b"[" * 1_000_000,
    "a huge number": b'{"from": ' + b"9" * 1_000_000 + b"}",
    "a huge exponent": b'{"from": 1e999999999}',
    "members twice": b'{"to": ["a@x.example"], "to": ["b@x.example"]}',
    "a million members": b"{" + b",".join(b'"%d":0' % n for n in range(100_000)) + b"}",
    "no UTF-8": b'{"subject": "\xff\xfe"}',
    "half a surrogate": b'{"from": "a@x.example", "to": ["b@x.example"], "text": "\\ud800"}',
    "NUL": b'{"from": "a\\u0000@x.example", "to": ["b@x.example"], "text": "x"}',
    "a header in a header": b'{"from": "a@x.example\\r\\nBcc: c@x.example", "to": ["b@x.example"], "text": "x"}',
    "a million recipients": b'{"from": "a@x.example", "to": ['
    + b",".join([b'"b"'] * 300_000)
    + b'], "text": "x"}',
    "NaN": b'{"from": NaN}',
}


@pytest.mark.parametrize("name", ODD_BODIES)
def test_an_odd_body_is_refused_in_one_sentence(simulator: Running, name: str) -> None:
    """Whatever it is: 4xx, a sentence, and the connection goes on."""
    with Sender(simulator.http) as sender:
        seen = sender.say(request(ODD_BODIES[name])).see()

        assert seen.status in (400, 422)
        assert 0 < len(seen.json["detail"]) < 500
        assert "\n" not in seen.json["detail"]
        assert is_yes(sender.say(SEND).see())


# --- content codings ----------------------------------------------------------------------------------


def packed(body: bytes, *, coding: str = "gzip") -> bytes:
    return request(body, headers={"Content-Encoding": coding})


BODY = json.dumps(mail()).encode()


def test_a_compressed_body_is_refused_clearly(simulator: Running) -> None:
    """415 with what would be taken (RFC 9110, section 15.5.16)."""
    seen = ask(simulator, packed(gzip.compress(BODY)))

    assert (seen.status, seen.json["code"]) == (415, "unsupported_media_type")
    assert seen.headers["accept-encoding"] == "identity"
    assert "gzip" in seen.json["detail"]


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP"])
def test_a_compressed_body_is_read_where_the_account_takes_it(simulator: Running, coding: str) -> None:
    plan(simulator, http={"request_gzip": True})
    half = len(BODY) // 2

    assert is_yes(ask(simulator, packed(gzip.compress(BODY), coding=coding)))
    members = gzip.compress(BODY[:half]) + gzip.compress(BODY[half:])
    assert is_yes(ask(simulator, packed(members)))
    assert is_yes(ask(simulator, packed(BODY, coding="identity")))


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (packed(BODY, coding="br"), 415),
        (packed(gzip.compress(BODY), coding="gzip, gzip"), 415),
        (packed(BODY), 400),
        (packed(gzip.compress(BODY)[:-4]), 400),
        (packed(gzip.compress(BODY) + b"junk"), 400),
        (packed(gzip.compress(b" " * (MAX_BODY_BYTES + 1), 1)), 413),
    ],
    ids=["another", "two", "none", "cut", "junk behind", "bomb"],
)
def test_a_damaged_or_too_large_one_is_refused(simulator: Running, data: bytes, status: int) -> None:
    """A bomb never unfolds beyond the limit."""
    plan(simulator, http={"request_gzip": True})

    assert ask(simulator, data).status == status
    assert accepted(simulator) == 0


def test_a_bomb_costs_no_more_memory_than_the_limit() -> None:
    # Blocks that end with a full flush stand for themselves: one of them can be said as often as one likes.
    packer, block = zlib.compressobj(wbits=31), b" " * 1024 * 1024
    first, other = (packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = first + other * (8 * MAX_BODY_BYTES // len(block))
    tracemalloc.start()
    try:
        outcome = decoded(bomb, Coding("gzip", taken=True))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.TOO_LARGE
    assert peak_bytes < 2.5 * MAX_BODY_BYTES


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    assert isinstance(decoded(data, Coding("gzip", taken=True)), bytes | Refused)
    assert decoded(gzip.compress(data), Coding("gzip", taken=True)) == data


def test_a_gzip_of_very_many_members_is_refused() -> None:
    """Each would have what is behind it copied: a bomb of time instead of size."""
    empty = gzip.compress(b"")
    found = decoded(empty * 200_000 + gzip.compress(BODY), Coding("gzip", taken=True))

    assert isinstance(found, Refused)
    assert "members" in (found.detail or "")
    assert decoded(empty * 99 + gzip.compress(BODY), Coding("gzip", taken=True)) == BODY
