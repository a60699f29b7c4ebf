"""An SMTP line keeps what it hears as it came, up to a bound, and knows how we are called."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reference_sender.transports.smtp_line import Line, own_name
from tests.reference_sender.transports.wires import serving


class Socket(asyncio.Transport):
    """A transport that only knows its own name."""

    def __init__(self, name: Any) -> None:
        super().__init__({"sockname": name})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (("192.0.2.7", 40_000), "[192.0.2.7]"),
        (("fe80::1%eth0", 40_000, 0, 2), "[IPv6:fe80::1]"),
        ("/run/smtp.sock", "[127.0.0.1]"),
        (None, "[127.0.0.1]"),
    ],
    ids=["IPv4", "IPv6 with a zone", "a path", "nothing"],
)
def test_we_call_ourselves_by_the_address_of_the_line(name: Any, says: str) -> None:
    """RFC 5321, section 4.1.3: an address literal."""

    async def run() -> str:
        line = Line()
        line.transport = Socket(name)
        return own_name(line)

    assert asyncio.run(run()) == says


def test_without_a_line_there_is_a_name_all_the_same() -> None:
    assert own_name(None) == "[127.0.0.1]"


def test_what_is_heard_is_kept_up_to_a_bound() -> None:
    """However much a server says without being asked."""

    async def talks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 " + b"x" * 100_000 + b"\r\n")
        await writer.drain()

    async def run() -> bytes:
        async with serving(talks) as port:
            lost = asyncio.Event()

            class Heard(Line):
                def connection_lost(self, exc: Exception | None) -> None:
                    super().connection_lost(exc)
                    lost.set()

            _, line = await asyncio.get_running_loop().create_connection(Heard, "127.0.0.1", port)
            await asyncio.wait_for(lost.wait(), 10)
            return bytes(line.heard)

    heard = asyncio.run(run())
    assert (len(heard), heard[:5]) == (65_536, b"220 x")


def test_whoever_waits_for_room_goes_on_when_the_server_answers_or_the_line_is_lost() -> None:
    async def run() -> list[str]:
        went_on: list[str] = []
        for how in ("room", "answer", "lost"):
            line, answer = Line(), asyncio.get_running_loop().create_future()
            line.pause_writing()
            waiting = asyncio.ensure_future(line.room_or(answer))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not waiting.done()
            match how:
                case "room":
                    line.resume_writing()
                case "answer":
                    answer.set_result(None)
                case _:
                    line.connection_lost(None)
            await asyncio.wait_for(waiting, 10)
            went_on.append(how)
        return went_on

    assert asyncio.run(run()) == ["room", "answer", "lost"]
