"""The dialogue: one command after the other, and nobody is served before everybody else."""

from __future__ import annotations

import asyncio

import pytest

from simulator.servers.smtp.session import SmtpSession
from tests.simulator.servers.smtp.house import house, run
from tests.simulator.servers.smtp.tap import Tap, parted


@pytest.mark.parametrize("short", [True, False])
def test_whoever_says_thousands_of_commands_at_once_is_not_served_before_everybody_else(short: bool) -> None:
    async def story() -> None:
        async with house(short=short) as home:
            sessions = [SmtpSession(home.server) for _ in range(2)]
            many, one = taps = [Tap() for _ in range(2)]
            for session, tap in zip(sessions, taps, strict=True):
                session.connection_made(tap)
            await asyncio.sleep(0)
            sessions[0].data_received(b"NOOP\r\n" * 5_000)
            sessions[1].data_received(b"NOOP\r\n")
            for _ in range(10):
                await asyncio.sleep(0)
            assert one.written.count(b"250 ") == 1
            assert 64 <= many.written.count(b"250 ") < 5_000
            for session in sessions:
                session.eof_received()
                await parted(session)
                session.connection_lost(None)
            assert many.written.count(b"250 ") == 5_000

    run(story())


@pytest.mark.parametrize("short", [True, False])
def test_white_space_before_the_end_of_a_command_is_nothing(short: bool) -> None:
    async def story() -> None:
        async with house(short=short) as home:
            client = await home.client()
            await client.hello()
            for command in (
                b"NOOP \t",
                b"MAIL FROM:<shop@example.org> \t ",
                b"RCPT TO:<ann@example.com>\t",
                b"DATA  ",
            ):
                assert (await client.ask(command))[:3] in (b"250", b"354"), command
            assert (await client.ask(b"Subject: x\r\n\r\nx\r\n.")).startswith(b"250 ")
            assert len(home.booked()) == 1
            # Within a command it stays what it is.
            assert (await client.ask(b"MAIL\tFROM:<shop@example.org>")).startswith(b"500 ")

    run(story())
