"""The listener: counting and stopping."""

from __future__ import annotations

import asyncio

import pytest

from simulator.provider.faults import (
    HangThere,
    HoldTheAnswer,
)
from simulator.provider.ledger import AttemptState
from simulator.servers.smtp.server import SmtpServer
from tests.simulator.servers.smtp.house import (
    DEADLINE_S,
    RAW,
    house,
    no_commit,
    rule,
    run,
)


def test_neither_a_hang_nor_a_held_answer_keeps_the_server_from_stopping() -> None:
    async def story() -> None:
        for fault in (HangThere(), HoldTheAnswer()):
            async with house(rule(fault, "message")) as home:
                client = await home.client()
                await client.hello()
                for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                    await client.ask(command)
                await client.say(RAW + b".\r\n")
                await home.moves.until(lambda home=home: home.attempts()[0].rules != ())  # type: ignore[misc]
                # Far beyond the deadline of this test: only a stop that does not wait comes back.
                await home.server.stop(DEADLINE_S * 10)
                assert home.server.connections == 0
                assert home.booked() == []
                (attempt,) = home.attempts()
                assert attempt.state is AttemptState.CLOSED
                assert attempt.answer == (
                    "hang" if fault.name == "hang" else "no answer: the connection ended"
                )

    run(story())


def test_stopping_lets_a_mail_under_way_have_its_answer() -> None:
    async def story() -> None:
        committing, durable = asyncio.Event(), asyncio.Event()

        async def commit() -> None:
            committing.set()
            await durable.wait()

        async with house(commit=commit) as home:
            idle, busy = await home.client(), await home.client()
            await idle.hello()
            await busy.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await busy.ask(command)
            await busy.say(RAW + b".\r\n")
            await committing.wait()
            stopping = asyncio.ensure_future(home.server.stop(DEADLINE_S))
            assert (await idle.rest()).startswith(b"421 4.3.2 ")
            durable.set()
            assert [line[:9] for line in (await busy.rest()).splitlines()] == [b"250 2.0.0", b"421 4.3.2"]
            await stopping

    run(story())


def test_connections_are_counted() -> None:
    async def story() -> None:
        async with house() as home:
            clients = [await home.client() for _ in range(3)]
            for client in clients:
                await client.hello()
            assert home.server.connections == 3
            for client in clients:
                await client.ask(b"QUIT")
                assert await client.rest() == b""
            assert home.server.connections_ever == 3

    run(story())


def test_a_port_in_use_is_an_error_of_the_caller() -> None:
    async def story() -> None:
        async with house() as home:
            other = SmtpServer(
                home.provider, home.server.wire, no_commit, home.moves, home.clock, hostname="mx.example"
            )
            with pytest.raises(OSError, match="address already in use"):
                await other.start("127.0.0.1", home.port)
            await other.stop(0.0)

    run(story())
