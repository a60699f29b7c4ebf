"""Tests of the world: the unmodified programs live in it, in virtual time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from scenarios.simulation.world import BEGIN, HTTP_PORT, PROVIDER_HOST, SMTP_PORT, World, WorldClock
from simulator.config import read_plan
from simulator.provider.provider import DEFAULT_ACCOUNT


async def _say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: bytes) -> bytes:
    writer.write(line + b"\r\n")
    answer = await reader.readline()
    while answer[3:4] == b"-":
        answer = await reader.readline()
    return answer


def test_the_simulator_answers_in_the_world() -> None:
    """aiosmtpd and uvicorn serve over the in-memory network, and no real time passes for a slow answer."""
    setup = read_plan({"rule": [{"fault": "slow", "stage": "message", "delay_s": 3600}]}, "test")
    with World(setup=setup) as world:

        async def story() -> bytes:
            await world.start_provider()
            reader, writer = await asyncio.open_connection("provider", SMTP_PORT)
            assert (await reader.readline()).startswith(b"220 ")
            for line in (b"EHLO world", b"MAIL FROM:<a@example.org>", b"RCPT TO:<b@example.com>", b"DATA"):
                await _say(reader, writer, line)
            answer = await _say(reader, writer, b"Subject: x\r\n\r\nhello\r\n.")
            writer.close()
            return answer

        answer = world.run(story)
        assert world.service is not None
        acceptances = world.service.provider.account(DEFAULT_ACCOUNT, BEGIN).ledger.acceptances

    assert answer.startswith(b"250 ")
    assert [each.recipients for each in acceptances] == [("b@example.com",)]
    assert acceptances[0].accepted_at == BEGIN + timedelta(hours=1)


def test_a_ledger_outlives_the_process_of_the_provider() -> None:
    """What was accepted before a kill is there after the restart, as on a real disk."""
    with World() as world:

        async def send(number: int) -> None:
            reader, writer = await asyncio.open_connection(PROVIDER_HOST, HTTP_PORT)
            body = b'{"from": "a@example.org", "to": ["b@example.com"], "text": "%d"}' % number
            writer.write(
                b"POST /v1/emails HTTP/1.1\r\nHost: p\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()

        async def story() -> None:
            first = await world.start_provider()
            await send(1)
            first.kill()
            with pytest.raises(ConnectionRefusedError):
                await send(2)
            await world.start_provider()
            await send(3)

        world.run(story)
        assert world.service is not None
        ledger = world.service.provider.account(DEFAULT_ACCOUNT, BEGIN).ledger
        assert world.complaints == []

    assert len(ledger.acceptances) == 2
    assert next(name for _, name, _ in world.deaths) == "provider"


def test_clocks_may_be_wrong() -> None:
    """A skewed process lives earlier or later than the others."""
    with World() as world:
        clock = WorldClock(world.loop, skew_s=-90)

        assert clock.now() == BEGIN - timedelta(seconds=90)
        assert datetime(2026, 1, 1, tzinfo=UTC) == BEGIN
        assert clock.monotonic() == 0.0


def test_an_httpx_client_works_in_it_too() -> None:
    """Any client on asyncio can live here, as long as it brings its own connection to the loop."""
    with World() as world:

        async def story() -> int:
            await world.start_provider()
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.get(f"http://{PROVIDER_HOST}:{HTTP_PORT}/v1/emails?message_id=x")
            return answer.status_code

        assert world.run(story) == 200


def test_until_gives_up_after_its_virtual_time() -> None:
    """A condition that never holds costs no real time."""
    with World() as world:
        assert world.run(lambda: world.until(lambda: False, within_s=86_400, step_s=60)) is False
        assert world.loop.time() == pytest.approx(86_400)
