"""What never becomes a request is refused for what is wrong with it."""

from __future__ import annotations

import httptools
import pytest

from simulator.servers.http.refusal import Refusal, unreadable


def refused(data: bytes) -> Refusal:
    """The parser's own word on it, as a connection would hear it."""
    parser = httptools.HttpRequestParser(object())
    stopped: BaseException | None = None
    try:
        parser.feed_data(data)
    except httptools.HttpParserError as problem:
        stopped = problem
    assert stopped is not None, "the parser has read it"
    return unreadable(stopped, data)


@pytest.mark.parametrize(
    "data",
    [
        b"FROB / HTTP/1.1\r\n\r\n",
        b"get /v1/emails HTTP/1.1\r\n\r\n",
        b"GETX / HTTP/1.0\r\n\r\n",
        b"\r\nM-SEARCHES * HTTP/1.1\r\n\r\n",
        b"!#$%&'*+-.^_`|~ / HTTP/1.1\r\n\r\n",
        b"DESCRIBE / HTTP/1.1\r\n\r\n",
    ],
    ids=repr,
)
def test_a_method_that_is_not_known_gets_501(data: bytes) -> None:
    """RFC 9110, section 15.6.2; also what the parser knows of another protocol."""
    assert refused(data)[:2] == (501, "not_implemented")


@pytest.mark.parametrize(
    "data",
    [
        b"F@ / HTTP/1.1\r\n\r\n",
        b"(GET) / HTTP/1.1\r\n\r\n",
        b"EHLO here\r\n\r\n",
        b"FROB / RTSP/1.0\r\n\r\n",
        b"FROB  HTTP/1.1\r\n\r\n",
        b"FROB",
        b"GET / HTTP/1.1\r\n : b\r\n\r\n",
    ],
    ids=repr,
)
def test_what_is_no_request_line_gets_400(data: bytes) -> None:
    """A token is not enough: other protocols begin with one, too."""
    assert refused(data)[:2] == (400, "invalid_request")


def test_the_version_comes_before_the_method() -> None:
    assert refused(b"FROB / HTTP/2.0\r\n\r\n")[:2] == (505, "version_not_supported")


def test_a_long_method_is_shown_in_part() -> None:
    refusal = refused(b"A" * 10_000 + b" / HTTP/1.1\r\n\r\n")

    assert refusal.status == 501
    assert len(refusal.detail) < 100
