"""Connections that end or break at any byte, and idle ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.provider.ledger import Sent
from simulator.provider.smtp import SmtpRules
from tests.simulator.servers.smtp.house import (
    NOW,
    PLAIN,
    RAW,
    Client,
    house,
    run,
)

SESSION = (
    b"EHLO c.example\r\n" + PLAIN + b"\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\n"
    b"DATA\r\nSubject: x\r\n\r\n..dot\r\n.\r\nQUIT\r\n"
)


def test_a_session_may_end_at_any_byte(caplog: pytest.LogCaptureFixture) -> None:
    """FIN after n bytes: the mail is booked if its final dot was among them; no trace, and no attempt stays open."""
    dot = SESSION.index(b"\r\n.\r\n") + len(b"\r\n.\r\n")

    async def story() -> None:
        async with house() as home:
            for end in range(len(SESSION) + 1):
                before = len(home.booked())
                client = await Client.connect(home.port)
                await client.say(SESSION[:end])
                client.half_close()
                await client.rest()
                client.sock.close()
                assert len(home.booked()) - before == (1 if end >= dot else 0), end
            await home.closed()

    run(story())
    assert caplog.text == ""


def test_a_session_may_break_at_any_byte(caplog: pytest.LogCaptureFixture) -> None:
    """RST after n bytes: no trace, no attempt stays open, and the next sender is served."""

    async def story() -> None:
        async with house() as home:
            for end in range(len(SESSION) + 1):
                client = await Client.connect(home.port)
                await client.say(SESSION[:end])
                client.break_line()
            client = await home.client()
            await client.hello()
            assert (await client.send(RAW)).startswith(b"250 ")
            await client.ask(b"QUIT")
            await home.closed()

    run(story())
    assert caplog.text == ""


def test_a_line_broken_within_the_mail_books_nothing() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(b"Subject: x\r\n\r\n" + b"x" * 100_000)
            client.break_line()
            (attempt,) = await home.closed()
            assert home.booked() == []
            assert (attempt.sent, attempt.answer) == (Sent.NOTHING, "no answer: the connection ended")

    run(story())


@pytest.mark.parametrize("before_s", [300.0, None])
def test_a_new_limit_on_idleness_holds_for_who_is_there(before_s: float | None) -> None:
    """From its next command on, which itself is not late by it."""

    async def story() -> None:
        async with house(smtp=SmtpRules(idle_timeout_s=before_s, message_timeout_s=None)) as home:
            client = await home.client()
            await client.hello()
            home.clock.time_s += 10.0
            setup = home.provider.accounts["default"].setup
            smtp = replace(setup.smtp, idle_timeout_s=0.01)
            home.provider.set_up("default", replace(setup, smtp=smtp), NOW)
            assert (await client.ask(b"NOOP")).startswith(b"250 ")
            assert (await client.ask(b"NOOP")).startswith(b"250 ")
            home.clock.time_s += 1.0
            assert (await client.rest()).startswith(b"421 4.4.2 ")

    run(story())


def test_an_idle_sender_is_told_and_left() -> None:
    async def story() -> None:
        async with house(idle_timeout_s=0.0) as home:
            client = await home.client()
            assert [line[:4] for line in (await client.rest()).splitlines()] == [b"220 ", b"421 "]
            await home.closed()

    run(story())
