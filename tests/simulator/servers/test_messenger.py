"""Tests of one request to a receiver: what it says, and every way it can fail."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import trustme

from simulator.clock import SystemClock
from simulator.provider.webhooks import Reach
from simulator.servers.messenger import SHOWN_CHARS, Heard, Messenger
from tests.simulator.receiver import Answer, receiving

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class NoonClock(SystemClock):
    def now(self) -> datetime:
        return NOW


def post(
    url: str, *, reach: Reach = Reach.LOOPBACK, timeout_s: float = 10.0, verify_tls: bool = True
) -> Heard:
    async def scenario() -> Heard:
        messenger = Messenger(NoonClock(), reach)
        try:
            return await messenger.post(
                url, b'{"a":1}', {"webhook-id": "evt_1"}, timeout_s=timeout_s, verify_tls=verify_tls
            )
        finally:
            await messenger.close()

    return asyncio.run(scenario())


def test_a_request_is_a_post_with_the_bytes_and_headers_it_was_given() -> None:
    with receiving(Answer(status=202, body="schön".encode())) as receiver:
        heard = post(receiver.url)
        (got,) = receiver.wait(1)

    assert heard == Heard(status=202, answer="schön")
    assert (got.path, got.body, got.id) == ("/hooks", b'{"a":1}', "evt_1")
    assert got.headers["content-type"] == "application/json"
    assert got.headers["user-agent"].startswith("mailproof-simulator/")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with receiving(Answer(status=status, headers={"Location": "http://127.0.0.1:1/"})) as receiver:
        heard = post(receiver.url)

        assert len(receiver.wait(1)) == 1
    assert heard.status == status
    assert heard.error == f"a redirect ({status}) is not followed; give the URL it leads to"


def test_who_does_not_answer_in_time_is_given_up() -> None:
    enough = threading.Event()
    with receiving(Answer(before=enough.wait)) as receiver:
        heard = post(receiver.url, timeout_s=0.2)
        enough.set()

    assert heard == Heard(error="there was no answer within 0.2 s")


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("30", 30.0),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0.0),
        ("soon", None),
        ("-5", None),
        ("9" * 400, 999_999_999.0),
    ],
)
def test_the_wish_to_be_left_alone_is_read(retry_after: str, seconds: float | None) -> None:
    with receiving(Answer(status=429, headers={"Retry-After": retry_after})) as receiver:
        assert post(receiver.url).retry_after_s == seconds


def test_a_long_answer_is_cut() -> None:
    with receiving(Answer(body=b"x" * 1_000_000)) as receiver:
        assert post(receiver.url).answer == "x" * SHOWN_CHARS


@contextlib.contextmanager
def broken(*answer: bytes) -> Iterator[str]:
    """A server that says these bytes to one connection and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                for piece in answer:
                    connection.sendall(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join(10)


@pytest.mark.parametrize(
    "answer",
    [
        (),
        (b"SSH-2.0-OpenSSH\r\n",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf",),
        (b"\xff" * 9_000,),
    ],
    ids=["nothing", "no HTTP", "half an answer", "endless line"],
)
def test_a_broken_receiver_is_one_sentence(answer: tuple[bytes, ...]) -> None:
    with broken(*answer) as url:
        heard = post(url)

    assert heard.error is not None
    assert heard.error.startswith("the request failed: ")
    assert "\n" not in heard.error


def test_nobody_there_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    heard = post(f"http://127.0.0.1:{port}/")

    assert heard.status is None
    assert heard.error is not None
    assert "onnect" in heard.error


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file:///etc/passwd", "only http and https"),
        ("http://10.0.0.1/", "--webhook-hosts private"),
        ("http://u:p@127.0.0.1/", "user or a password"),
    ],
)
def test_a_forbidden_target_is_not_dialled(url: str, says: str) -> None:
    error = post(url).error
    assert error is not None
    assert says in error


def test_a_name_that_leads_further_than_allowed_is_not_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is where it leads when it is looked up, not what it is called."""

    async def elsewhere(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", elsewhere)
    heard = post("http://metadata.example/latest", reach=Reach.PRIVATE)

    assert heard.error is not None
    assert "169.254.169.254" in heard.error
    assert "--webhook-hosts any" in heard.error


def test_a_certificate_nobody_knows_is_refused_unless_it_may_be_anything() -> None:
    with receiving() as receiver:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        receiver.wrap(context)
        url = receiver.url.replace("http:", "https:")

        refused = post(url).error
        assert refused is not None
        assert "certificate" in refused.lower()
        assert post(url, verify_tls=False).status == 200
