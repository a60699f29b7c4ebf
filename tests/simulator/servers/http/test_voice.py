"""How HTTP says words: one piece, framed as HTTP/1.1 wants it, and the line goes on or ends as it says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.running import Running, Sender, ask, mail, request
from tests.simulator.servers.http.provider import SEND, accepted, is_yes, plan


def test_an_answer_has_a_date_and_a_length(simulator: Running) -> None:
    seen = ask(simulator, SEND)

    assert seen.headers["date"].endswith(" GMT")
    assert int(seen.headers["content-length"]) == len(seen.body)
    assert "transfer-encoding" not in seen.headers
    assert "connection" not in seen.headers


def test_the_last_answer_of_a_connection_says_so(simulator: Running) -> None:
    with Sender(simulator.http) as sender:
        seen = sender.say(request(mail(), headers={"Connection": "close"})).see()

        assert seen.headers["connection"] == "close"
        assert sender.end() == "eof"


@pytest.mark.parametrize("path", ["/v1/emails/none", "/v1/emails?idempotency_key=k"])
def test_head_gets_the_head_that_get_would(simulator: Running, path: str) -> None:
    """RFC 9110, section 9.3.2; and the next request on the line is understood."""
    get = ask(simulator, request(method="GET", path=path))
    with Sender(simulator.http) as sender:
        sender.say(request(method="HEAD", path=path) + request(method="GET", path=path))
        received = b""
        while received.count(b"HTTP/1.1") < 2 or not received.endswith(get.body):
            received += sender.socket.recv(65_536)

    assert received.count(get.body) == 1
    assert (
        received.split(b"\r\n\r\n")[0].split(b"date")[0] == get.data.split(b"\r\n\r\n")[0].split(b"date")[0]
    )


def test_an_answer_before_the_request_was_read_is_the_last(simulator: Running) -> None:
    """What is left of the request would be taken for the next one (RFC 9110, section 10.1.1)."""
    plan(simulator, {"fault": "reply", "stage": "upload", "code": 503})
    head, _, body = SEND.partition(b"\r\n\r\n")

    with Sender(simulator.http) as sender:
        seen = sender.say(head + b"\r\n\r\n" + body[:3]).see()

        assert (seen.status, seen.headers["connection"]) == (503, "close")
        assert sender.say(body[3:]).end() == "eof"


def test_an_answer_at_the_head_of_a_request_that_is_here_is_not_the_last(simulator: Running) -> None:
    plan(simulator, {"fault": "reply", "stage": "upload", "code": 503, "times": 1})

    with Sender(simulator.http) as sender:
        assert sender.say(SEND).see().status == 503
        assert is_yes(sender.say(SEND).see())


# --- odd forms on the wire ----------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", ["unfinished", "bad_size"])
def test_chunks_that_break_off_end_the_line(simulator: Running, chunks: str) -> None:
    plan(simulator, {"fault": "chunked", "chunks": chunks})

    with Sender(simulator.http) as sender:
        seen = sender.say(SEND).see()
        assert (seen.status, seen.headers["transfer-encoding"]) == (200, "chunked")
        rest = sender.until(b"}" if chunks == "unfinished" else b"1z\r\n")
        assert rest.startswith(b"10\r\n")
        assert sender.end() == "eof"
    assert accepted(simulator) == 1
    with simulator.control() as control:
        (attempt,) = control.attempts()
    assert (attempt["sent"], attempt["answer"]) == ("partial", f"200, chunked ({chunks})")


@pytest.mark.parametrize(
    "form", [{"fault": "gzip"}, {"fault": "chunked"}, {"fault": "drip", "delay_s": 0}, {"fault": "interim"}]
)
def test_after_an_odd_but_whole_answer_the_line_goes_on(simulator: Running, form: dict[str, Any]) -> None:
    plan(simulator, form | {"times": 1})

    with Sender(simulator.http) as sender:
        sender.say(SEND + request(method="GET", path="/v1/emails?idempotency_key=order-1"))
        received = sender.until(b"}]}")

    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.endswith(b"}]}")


def test_a_dripped_answer_comes_byte_by_byte(simulator: Running) -> None:
    """No read waits longer than a pause, and the whole takes long."""
    plan(simulator, {"fault": "drip", "delay_s": 0.02, "size_bytes": 1})
    with Sender(simulator.http) as sender:
        sender.say(SEND)
        pieces = [sender.socket.recv(65_536) for _ in range(15)]

    assert b"".join(pieces) == b"HTTP/1.1 200 OK"[: len(b"".join(pieces))]
    assert {len(piece) for piece in pieces} == {1}


def test_a_dripped_answer_ends_with_its_reader(simulator: Running) -> None:
    plan(simulator, {"fault": "drip", "delay_s": 0.01})
    with Sender(simulator.http) as sender:
        sender.say(SEND).until(b"HTTP")

    with simulator.control() as control:
        (attempt,) = control.wait_for_attempts(state="closed")
    assert attempt["sent"] == "partial"


def test_a_sender_may_wait_for_100_in_vain(simulator: Running) -> None:
    """`no_continue`: silence after the head; the answer after the body, without a 100 before it."""
    plan(simulator, {"fault": "no_continue"})
    head, _, body = request(mail(), headers={"Expect": "100-continue"}).partition(b"\r\n\r\n")

    with Sender(simulator.http) as sender:
        assert sender.say(head + b"\r\n\r\n").see(silence_s=0.2).data == b""
        assert is_yes(sender.say(body).see())


@pytest.mark.parametrize("code", [417, 503, 413])
def test_a_sender_that_waits_for_100_may_get_its_answer_at_once(simulator: Running, code: int) -> None:
    """A final status instead of 100; the body is never asked for, and the line ends."""
    plan(simulator, {"fault": "reply", "stage": "upload", "code": code})
    head, _, _ = request(mail(), headers={"Expect": "100-continue"}).partition(b"\r\n\r\n")

    with Sender(simulator.http) as sender:
        seen = sender.say(head + b"\r\n\r\n").see()

        assert (seen.status, seen.headers["connection"]) == (code, "close")
        assert sender.end() == "eof"
    assert accepted(simulator) == 0


@pytest.mark.parametrize(("fault", "end"), [("hang_up", "eof"), ("reset", "reset")])
def test_a_line_may_break_in_the_middle_of_the_request(simulator: Running, fault: str, end: str) -> None:
    """Before the body was read: the sender is still writing."""
    plan(simulator, {"fault": fault, "stage": "upload"})

    with Sender(simulator.http) as sender:
        seen = sender.say(SEND[:-5]).see()

    assert (seen.data, seen.end) == (b"", end)
    assert accepted(simulator) == 0


@pytest.mark.parametrize("stage", ["upload", "reply"])
def test_a_kept_connection_may_close_with_zero_bytes(simulator: Running, stage: str) -> None:
    """On the second request of a connection, processed or not: the sender cannot tell which."""
    plan(simulator, {"fault": "hang_up", "stage": stage, "skip": 1, "per": "connection"})

    with Sender(simulator.http) as sender:
        assert is_yes(sender.say(SEND).see())
        seen = sender.say(request(mail(), key="order-2")).see()

    assert (seen.data, seen.end) == (b"", "eof")
    assert accepted(simulator) == (2 if stage == "reply" else 1)


def test_an_idle_connection_ends_when_the_account_says(simulator: Running) -> None:
    plan(simulator, http={"keep_alive_s": 0.05})

    with Sender(simulator.http) as sender:
        assert is_yes(sender.say(SEND).see())
        assert sender.end() == "eof"


@pytest.mark.parametrize(
    "form", [{"fault": "gzip"}, {"fault": "chunked"}, {"fault": "drip", "delay_s": 0, "size_bytes": 50}]
)
def test_the_answer_to_head_has_no_body_in_any_form(simulator: Running, form: dict[str, Any]) -> None:
    """RFC 9110, section 9.3.2: whatever came behind the head would be taken for the next answer."""
    plan(simulator, form | {"stage": "lookup", "times": 1})
    path = "/v1/emails?idempotency_key=k"

    with Sender(simulator.http) as sender:
        sender.say(request(method="HEAD", path=path)).until(b"\r\n\r\n")
        seen = sender.say(request(method="GET", path=path)).see()

    assert seen.json == {"data": []}
