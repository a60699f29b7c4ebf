"""Connections: how many there are, which one is taken, and how one is made."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme

from reference_sender.policy.evidence import Phase
from reference_sender.transports import http_lines
from reference_sender.transports.http_line import Answer, Broken, Progress
from reference_sender.transports.http_lines import LineOptions, Lines, field
from tests.reference_sender.transports.test_http import answer, read_request
from tests.reference_sender.transports.wires import free_port, serving

OK = answer(200, b"{}")


class Door:
    """A server that answers when it is told to, and remembers."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.connections = 0
        self.heads: list[str] = []
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()
        self.news = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            self.heads.append((await read_request(reader))[0])
            self.news.set()
            await self.gate.wait()
            writer.write(OK)

    async def asked(self, count: int) -> None:
        while len(self.heads) < count:
            self.news.clear()
            await self.news.wait()


def lines_to(port: int, host: str = "127.0.0.1", **more: Any) -> Lines:
    return Lines(LineOptions(**({"url": f"http://{host}:{port}"} | more)))


async def ask(lines: Lines, progress: Progress | None = None) -> Answer:
    head = lines.head("POST", "/x") + b"Content-Length: 2\r\n\r\n"
    return await lines.ask(head, b"{}", progress or Progress())


def with_door(
    act: Callable[[Door, Lines], Coroutine[Any, Any, None]], *, is_open: bool = True, **more: Any
) -> Door:
    async def run() -> Door:
        door = Door(is_open=is_open)
        async with serving(door) as port:
            lines = lines_to(port, **more)
            try:
                await act(door, lines)
            finally:
                await lines.close()
        return door

    return asyncio.run(asyncio.wait_for(run(), 20))


def test_one_connection_serves_one_after_the_other() -> None:
    async def act(_door: Door, lines: Lines) -> None:
        for _ in range(5):
            assert (await ask(lines)).status == 200

    assert with_door(act).connections == 1


def test_where_nothing_is_kept_every_question_has_its_own_and_says_so() -> None:
    async def act(_door: Door, lines: Lines) -> None:
        for _ in range(3):
            await ask(lines)

    door = with_door(act, keep_alive=False)
    assert door.connections == 3
    assert all("Connection: close\r\n" in head for head in door.heads)


def test_there_are_no_more_than_allowed_and_the_others_wait() -> None:
    async def act(door: Door, lines: Lines) -> None:
        asking = [asyncio.create_task(ask(lines)) for _ in range(6)]
        await door.asked(2)
        assert door.connections == 2
        door.gate.set()
        assert [each.status for each in await asyncio.gather(*asking)] == [200] * 6

    assert with_door(act, is_open=False, connections=2).connections == 2


@pytest.mark.parametrize("keep_alive", [True, False])
def test_who_is_called_off_leaves_his_turn_and_his_connection_to_the_next(keep_alive: bool) -> None:
    async def act(door: Door, lines: Lines) -> None:
        first, second, third = (asyncio.create_task(ask(lines)) for _ in range(3))
        await door.asked(1)
        second.cancel()
        first.cancel()
        await asyncio.wait([first, second])
        await door.asked(2)
        door.gate.set()
        assert (await third).status == 200

    with_door(act, is_open=False, connections=1, keep_alive=keep_alive)


def test_waiting_for_a_connection_is_part_of_the_time_there_is() -> None:
    async def act(door: Door, lines: Lines) -> None:
        first = asyncio.create_task(ask(lines))
        await door.asked(1)
        progress = Progress()
        with pytest.raises(TimeoutError):
            await ask(lines, progress)
        assert progress.phase is Phase.CONNECT
        await asyncio.wait([first])

    with_door(act, is_open=False, connections=1, total_timeout_s=0.2)


def test_what_nobody_used_for_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(_: Door, lines: Lines) -> None:
        await ask(lines)
        monkeypatch.setattr(http_lines, "KEPT_S", -1.0)
        await ask(lines)
        monkeypatch.setattr(http_lines, "KEPT_S", 15.0)
        (line,) = lines._idle
        loop = asyncio.get_running_loop()
        lines._tidy(loop)
        assert line.is_good
        line.idle_since_s -= 15.1
        lines._tidy(loop)
        assert (list(lines._idle), lines._count, lines._tidying) == ([], 0, None)
        await ask(lines)

    assert with_door(act).connections == 3


def test_a_withdrawn_question_leaves_no_byte() -> None:
    async def withdraw() -> bool:
        return False

    async def act(door: Door, lines: Lines) -> None:
        progress = Progress()
        with pytest.raises(Broken) as told:
            await lines.ask(lines.head("POST", "/x"), b"{}", progress, withdraw)
        assert (told.value.trouble, progress.withdrawn, progress.phase) == ("withdrawn", True, Phase.BODY)
        assert lines._count == 0

    assert with_door(act).heads == []


# --- names and addresses ---------------------------------------------------------------------------------


def test_a_name_is_asked_for_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    async def act(door: Door, lines: Lines) -> None:
        loop = asyncio.get_running_loop()
        port = lines._target.port

        async def look(host: str, *_: Any, **__: Any) -> list[Any]:
            looked.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(loop, "getaddrinfo", look)
        by_name = lines_to(port, "mail.example", keep_alive=False)
        await asyncio.gather(*(ask(by_name) for _ in range(4)))
        by_name._named_at_s -= 11.0
        await ask(by_name)

    door = with_door(act)
    assert looked == ["mail.example", "mail.example"]
    assert f"Host: mail.example:{door.heads[0].split('mail.example:')[1].split()[0]}\r\n" in door.heads[0]


def test_a_name_that_nobody_has_and_a_port_where_nobody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[str]:
        async def nobody(*_: Any, **__: Any) -> list[Any]:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", nobody)
        found = []
        for lines in (lines_to(80, "nobody.example"), lines_to(free_port())):
            with pytest.raises(Broken) as told:
                await ask(lines)
            found.append(told.value.trouble)
            assert lines._count == 0
        return found

    assert asyncio.run(run()) == ["name not found", "no connection"]


@pytest.mark.parametrize(
    ("url", "host", "named", "path", "port"),
    [
        ("http://api.example", "api.example", "api.example", "/v1", 80),
        ("https://api.example:8443/base/", "api.example", "api.example:8443", "/base/v1", 8443),
        ("https://[::1]", "::1", "[::1]", "/v1", 443),
        ("http://bücher.example", "xn--bcher-kva.example", "xn--bcher-kva.example", "/v1", 80),
        ("http://api.example/ä b", "api.example", "api.example", "/%C3%A4%20b/v1", 80),
    ],
)
def test_a_url_says_where_to_go(url: str, host: str, named: str, path: str, port: int) -> None:
    lines = Lines(LineOptions(url=url))
    assert (lines._target.host, lines._target.port) == (host, port)
    assert lines.head("POST", "/v1").startswith(f"POST {path} HTTP/1.1\r\nHost: {named}\r\n".encode())


@pytest.mark.parametrize("url", ["ftp://x", "http://", "api.example"])
def test_a_url_that_says_nothing_of_the_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="begins with http"):
        Lines(LineOptions(url=url))


def test_a_login_in_the_url_is_a_basic_one() -> None:
    lines = Lines(LineOptions(url="http://an%20n:pass@api.example"))
    assert b"Authorization: Basic YW4gbjpwYXNz\r\n" in lines.head("GET", "/")


@pytest.mark.parametrize("value", ["a\r\nEvil: 1", "a\nb", "a\0b"])
def test_no_value_ends_its_field(value: str) -> None:
    with pytest.raises(ValueError, match="X-Key cannot hold a line break"):
        field("X-Key", value)


# --- TLS -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_a_certificate_must_be_of_somebody_we_know(
    known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    if known:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    async def run() -> int:
        door = Door()
        server = await asyncio.start_server(door, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        lines = Lines(LineOptions(url=f"https://127.0.0.1:{port}"))
        try:
            return (await ask(lines)).status
        finally:
            await lines.close()
            server.close()

    if known:
        assert asyncio.run(run()) == 200
    else:
        with pytest.raises(Broken) as told:
            asyncio.run(run())
        assert told.value.trouble == "tls"
