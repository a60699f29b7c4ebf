"""Introductions: what EHLO offers."""

from __future__ import annotations

import pytest

from simulator.provider.limits import Limits
from simulator.provider.smtp import SmtpRules
from tests.simulator.servers.smtp.house import (
    PLAIN,
    RAW,
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
                b"250-CHUNKING",
                b"250-DSN",
                b"250-ENHANCEDSTATUSCODES",
                b"250-AUTH PLAIN LOGIN",
                b"250 HELP",
            ]

    run(story())


@pytest.mark.parametrize(
    ("keyword", "said", "code"),
    [
        ("SIZE", b"MAIL FROM:<> SIZE=1", b"555 5.5.4"),
        ("8BITMIME", b"MAIL FROM:<> BODY=8BITMIME", b"555 5.5.4"),
        ("SMTPUTF8", b"MAIL FROM:<> SMTPUTF8", b"555 5.5.4"),
        ("DSN", b"MAIL FROM:<> RET=FULL", b"555 5.5.4"),
        ("AUTH", b"MAIL FROM:<> AUTH=<>", b"555 5.5.4"),
        ("AUTH", PLAIN, b"500 5.5.1"),
        ("CHUNKING", b"BDAT 0 LAST", b"500 5.5.1"),
        ("HELP", b"HELP", b"214 2.0.0"),
        ("ENHANCEDSTATUSCODES", b"NOOP", b"250 OK"),
        ("ENHANCEDSTATUSCODES", b"DATA", b"503 say"),
    ],
)
def test_what_is_hidden_is_not_there(keyword: str, said: bytes, code: bytes) -> None:
    async def story() -> None:
        async with house(smtp=SmtpRules(hide=(keyword,))) as home:
            client = await home.client()
            await client.reply()
            offered = (await client.ask(b"EHLO c.example")).replace(b"250 ", b"250-").splitlines()
            assert not any(line.startswith(b"250-" + keyword.encode()) for line in offered)
            assert len(offered) == 9
            assert (await client.ask(said)).startswith(code)

    run(story())


def test_without_pipelining_commands_wait_for_replies() -> None:
    """The command that does not is refused; a chunk that comes with its command is none."""

    async def story() -> None:
        async with house(smtp=SmtpRules(hide=("PIPELINING",))) as home:
            client = await home.client()
            await client.hello()
            await client.say(b"MAIL FROM:<>\r\nRCPT TO:<b@y.example>\r\n")
            assert (await client.reply()).startswith(b"503 5.5.0 PIPELINING is not offered")
            assert (await client.reply()).startswith(b"503 5.5.1 say MAIL first")
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>"):
                assert (await client.ask(command)).startswith(b"250 ")
            await client.say(b"BDAT 1 LAST\r\nx")
            assert (await client.reply()).startswith(b"250 ")

    run(story())


def test_ehlo_can_be_shaped() -> None:
    async def story() -> None:
        rules = SmtpRules(
            banner="mail.big.example at your service",
            hide=("CHUNKING", "DSN", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES", "HELP"),
            offer=("XCLIENT NAME ADDR",),
            size=35_882_577,
            auth=("LOGIN",),
        )
        async with house(smtp=rules) as home:
            client = await home.client()
            assert await client.reply() == b"220 mail.big.example at your service\r\n"
            assert (await client.ask(b"EHLO c.example")).splitlines() == [
                b"250-mx.example",
                b"250-SIZE 35882577",
                b"250-PIPELINING",
                b"250-AUTH LOGIN",
                b"250 XCLIENT NAME ADDR",
            ]
            assert (await client.ask(PLAIN)).startswith(b"504 mechanism not known here: LOGIN")

    run(story())


def test_a_server_that_does_not_know_ehlo() -> None:
    async def story() -> None:
        async with house(smtp=SmtpRules(ehlo=False)) as home:
            client = await home.client()
            await client.reply()
            assert (await client.ask(b"EHLO c.example")).startswith(b"502 5.5.1 ")
            assert (await client.ask(b"HELO c.example")) == b"250 mx.example\r\n"
            assert (await client.send(RAW)).startswith(b"250 ")

    run(story())
