"""How HTTP says words: one piece, framed as HTTP/1.1 wants it, and the line goes on or ends as it says."""

from __future__ import annotations

import pytest

from tests.simulator.running import Running, Sender, ask, mail, request
from tests.simulator.servers.http.provider import SEND, is_yes, plan


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
