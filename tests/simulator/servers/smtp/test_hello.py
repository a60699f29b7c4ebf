"""Introductions: what EHLO offers."""

from __future__ import annotations

from simulator.provider.limits import Limits
from tests.simulator.servers.smtp.house import (
    house,
    run,
)


def test_ehlo_announces_what_is_there() -> None:
    async def story() -> None:
        async with house(limits=Limits(max_size_bytes=12_345)) as home:
            client = await home.client()
            assert await client.reply() == b"220 mx.example ESMTP ready\r\n"
            assert (await client.ask(b"EHLO c.example")).splitlines() == [
                b"250-mx.example",
                b"250-SIZE 12345",
                b"250-PIPELINING",
                b"250-8BITMIME",
                b"250-SMTPUTF8",
                b"250-ENHANCEDSTATUSCODES",
                b"250-AUTH PLAIN LOGIN",
                b"250 HELP",
            ]

    run(story())
