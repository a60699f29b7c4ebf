"""Requests that ask for another protocol: they are served, and their bodies are bodies."""

from __future__ import annotations

import pytest

from tests.simulator.running import Running, Sender, mail, request
from tests.simulator.servers.http.provider import SEND, accepted, is_yes
from tests.simulator.servers.http.test_connection import CHUNKED, CHUNKS, until_read

UPGRADE = SEND.replace(
    b"\r\n", b"\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\nUpgrade: h2c\r\n", 1
)
HEAD_BYTES = UPGRADE.index(b"\r\n\r\n") + 4


@pytest.mark.parametrize("cut", [0, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 5, len(UPGRADE) - 1])
def test_a_sender_that_would_rather_speak_http_2_is_served(simulator: Running, cut: int) -> None:
    """RFC 9110, section 7.8: its wish may be ignored, its body may not. curl and Java ask so by themselves."""
    with Sender(simulator.http) as sender:
        for _ in range(2):
            sender.say(UPGRADE[:cut])
            until_read(simulator)
            assert is_yes(sender.say(UPGRADE[cut:]).see())
        assert is_yes(sender.say(SEND).see())
    with Sender(simulator.http) as sender:
        sender.say(UPGRADE + SEND + UPGRADE)
        assert [is_yes(sender.see()) for _ in range(3)] == [True] * 3


def test_the_body_of_a_request_that_asks_for_another_protocol_is_no_request(simulator: Running) -> None:
    """What is smuggled in there is a body that is not JSON."""
    smuggled = request(SEND, headers={"Connection": "upgrade", "Upgrade": "websocket"})
    at = smuggled.index(b"\r\n\r\n") + 4
    with Sender(simulator.http) as sender:
        sender.say(smuggled[:at])
        until_read(simulator)
        assert sender.say(smuggled[at:]).see().status == 400
        assert is_yes(sender.say(request(mail(), key="next")).see())
    assert accepted(simulator) == 1


def test_a_body_in_chunks_is_read_where_another_protocol_is_asked_for(simulator: Running) -> None:
    head = CHUNKED.replace(b"Host", b"Connection: upgrade\r\nUpgrade: h2c\r\nHost")
    with Sender(simulator.http) as sender:
        assert is_yes(sender.say(head + CHUNKS + b"\r\n").see())
        seen = sender.say(head + b"no chunk\r\n").see()
        assert (seen.status, seen.headers["connection"]) == (400, "close")


def test_thousands_of_wishes_for_another_protocol_at_once_harm_nobody(simulator: Running) -> None:
    wish = b"GET /v1/emails/x HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    with Sender(simulator.http) as sender:
        sender.say(wish * 1_200)
        assert [sender.see().status for _ in range(1_200)] == [404] * 1_200
