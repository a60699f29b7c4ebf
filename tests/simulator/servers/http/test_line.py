"""The end of a line: its last answer is told whole, and whoever does not read is left."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from tests.simulator.running import PATIENCE_S, Running, ask, mail, request, running
from tests.simulator.servers.http.provider import SEND, the_attempt


def test_an_answer_behind_which_the_line_closes_was_told_whole(simulator: Running) -> None:
    """A sender that asks for `Connection: close` hears all of it; the attempt says so."""
    seen = ask(simulator, request(mail(), headers={"Connection": "close"}))

    assert seen.status == 200
    assert the_attempt(simulator)["sent"] == "complete"


# --- whoever does not read --------------------------------------------------------------------------

READ_ALOUD = request(method="GET", path="/_simulator/v1/openapi.json")
LOOK_UP = request(method="GET", path="/v1/emails?message_id=nobody")


@pytest.mark.parametrize(
    "said",
    [LOOK_UP, READ_ALOUD, SEND, request(mail())],
    ids=["look-ups", "long answers", "replays", "mails"],
)
def test_who_never_reads_an_answer_is_left(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may ask for ever and take nothing: what waits to go out has a bound, and so has its patience with us."""
    monkeypatch.setattr("simulator.servers.wire.UNREAD_S", 0.3)
    with running() as simulator, deaf(simulator) as line:

        def look() -> None:
            visitors = list(simulator.service._http._here)
            to_go_out = sum(visitor.transport.get_write_buffer_size() for visitor in visitors)
            assert to_go_out < 1024 * 1024, "what waits to go out is collected without end"
            assert sum(len(each.pipeline) for each in visitors) < 10_000, "requests are collected without end"

        with pytest.raises(ConnectionError):
            says_on(line, said * (1 + 16_384 // len(said)), look)


@pytest.mark.parametrize("said", [SEND, READ_ALOUD], ids=["mail", "long answer"])
def test_a_closed_connection_that_is_not_read_is_left(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer that closes it is as little waited for."""
    monkeypatch.setattr("simulator.servers.wire.UNREAD_S", 0.3)
    closing = said.replace(b"Host:", b"Connection: close\r\nHost:")
    with running() as simulator, deaf(simulator) as line:
        line.sendall(said * 500 + closing)
        with pytest.raises(ConnectionError):
            says_on(line, b"x" * 16_384)


def says_on(line: socket.socket, said: bytes, look: Callable[[], None] = lambda: None) -> None:
    """Say the same for ever, and read nothing."""
    while True:
        line.sendall(said)
        look()


def deaf(simulator: Running) -> socket.socket:
    """Return a connection on which hardly anything is under way that its sender does not read."""
    server = simulator.service._http._server
    assert server is not None
    # What is accepted there has as small a buffer.
    server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    line.settimeout(PATIENCE_S)
    line.connect(simulator.http)
    return line
