"""Connections as they should not be: they end with the right words, and nobody else suffers."""

from __future__ import annotations

import socket
import struct

import pytest

from tests.simulator.running import Running, Sender, ask, mail, request
from tests.simulator.servers.http.provider import SEND, accepted, is_yes, the_attempt


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


def test_an_answer_behind_which_the_line_closes_was_told_whole(simulator: Running) -> None:
    """A sender that asks for `Connection: close` hears all of it; the attempt says so."""
    seen = ask(simulator, request(mail(), headers={"Connection": "close"}))

    assert seen.status == 200
    assert the_attempt(simulator)["sent"] == "complete"
