"""What is one whole request, and what is not."""

from __future__ import annotations

import pytest

from simulator.servers.http.glance import Glance

WHOLE = b"POST /v1/emails HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    "data",
    [
        WHOLE[:-1],
        WHOLE[:20],
        WHOLE + WHOLE,
        WHOLE + b"P",
        WHOLE.replace(b"1.1", b"1.0"),
        WHOLE.replace(b"Content-Length: 2", b"Content-Length: x"),
        WHOLE.replace(b"Host: x", b"Host : x"),
        WHOLE.replace(b"Host: x", b"Connection: upgrade\r\nUpgrade: websocket"),
        b"GARBAGE\r\n\r\n",
    ],
)
def test_whatever_else_comes_is_none_and_does_no_harm(data: bytes) -> None:
    glance = Glance()
    assert not glance.at(data)
    assert glance.at(WHOLE)


def test_a_whole_request_is_read() -> None:
    glance = Glance()
    for _ in range(2):
        assert glance.at(WHOLE)
        assert (glance.url, glance.body) == (b"/v1/emails", b"{}")
        assert glance.headers == [(b"host", b"x"), (b"idempotency-key", b"k"), (b"content-length", b"2")]
