"""Bodies are read within bounds, decoded, or refused."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

from simulator.provider.answer import Refused
from simulator.servers.http.body import DRAIN_BYTES, MAX_BODY_BYTES, read_body
from tests.simulator.running import Running, Sender, ask, mail, raw_mail, request
from tests.simulator.servers.http.provider import SEND, is_yes


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
