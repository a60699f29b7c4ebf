"""Introductions: what EHLO offers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from simulator.provider.ledger import AttemptState
from simulator.provider.limits import Limits
from simulator.provider.smtp import SmtpRules
from simulator.servers.smtp import connection
from simulator.servers.tls import Tls
from tests.simulator.servers.smtp.house import (
    DEADLINE_S,
    KINDS,
    PLAIN,
    RAW,
    house,
    raws,
    rule,
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
        ("CHUNKING", b"BDAT 0 LAST", b"502 5.5.1"),
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


# --- TLS --------------------------------------------------------------------------------------------


def test_starttls_begins_everything_anew(tls: Tls) -> None:
    """RFC 3207, section 4.2: what was said before is forgotten, and STARTTLS is not offered again."""

    async def story() -> None:
        async with house(tls=tls, accounts=("shop",)) as home:
            client = await home.client()
            await client.reply()
            assert b"250-STARTTLS\r\n" in await client.ask(b"EHLO c.example")
            assert (await client.ask(PLAIN)).startswith(b"235 ")
            assert (await client.ask(b"MAIL FROM:<>")).startswith(b"250 ")
            assert await client.ask(b"STARTTLS") == b"220 2.0.0 go ahead\r\n"
            await client.secure(tls)
            assert (await client.ask(b"MAIL FROM:<>")).startswith(b"503 5.5.1 say EHLO first")
            assert b"STARTTLS" not in await client.ask(b"EHLO c.example")
            assert (await client.ask(b"STARTTLS")).startswith(b"503 5.5.1 ")
            assert (await client.send(RAW)).startswith(b"250 ")
            assert (await client.ask(b"QUIT")).startswith(b"221 ")
            assert await client.rest() == b""
            assert (len(home.booked()), len(home.booked("shop"))) == (1, 0)

    run(story())


def test_starttls_that_is_hidden_is_not_there(tls: Tls) -> None:
    """A sender that insists on it has to go; one that does not goes on in the clear."""

    async def story() -> None:
        async with house(tls=tls, smtp=SmtpRules(hide=("STARTTLS",))) as home:
            client = await home.client()
            await client.reply()
            assert b"STARTTLS" not in await client.ask(b"EHLO c.example")
            assert (await client.ask(b"STARTTLS")).startswith(b"502 5.5.1 ")
            assert (await client.send(RAW)).startswith(b"250 ")

    run(story())


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, "uvloop"], ids=["asyncio", "uvloop"])
def test_under_tls_from_the_first_byte_on(
    tls: Tls, factory: Callable[[], asyncio.AbstractEventLoop] | str
) -> None:
    """RFC 8314, section 3.3; whole sessions at once, large mails, on both kinds of loop."""
    if factory == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop
    assert callable(factory)

    async def story() -> None:
        async with house(tls=tls) as home:
            for raw in (RAW, b"x" * 500_000 + b"\r\n"):
                client = await home.client(tls=True)
                await client.secure(tls)
                assert await client.reply() == b"220 mx.example ESMTP ready\r\n"
                assert b"STARTTLS" not in await client.ask(b"EHLO c.example")
                await client.say(b"MAIL FROM:<>\r\nRCPT TO:<b@y.example>\r\nDATA\r\n")
                for code in (b"250", b"250", b"354"):
                    assert (await client.reply()).startswith(code)
                await client.say(raw + b".\r\nQUIT\r\n")
                assert [line[:4] for line in (await client.rest()).splitlines()] == [b"250 ", b"221 "]
            assert [len(each) for each in raws(home)] == [len(RAW), 500_002]

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(story(), DEADLINE_S))


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize(
    "last", [b"", b"NO", b"QUIT\r\n", b"MAIL FROM:<>\r\nRCPT TO:<b@y.example>\r\nDATA\r\nx"]
)
def test_a_sender_may_say_under_tls_that_it_goes(tls: Tls, last: bytes, short: bool) -> None:
    """close_notify is as good as FIN: nobody waits for it."""

    async def story() -> None:
        async with house(tls=tls, short=short) as home:
            client = await home.client(tls=True)
            await client.secure(tls)
            await client.hello()
            await client.say(last)
            await client.say_goodbye()
            await client.rest()
            await home.closed()

    run(story())


def test_what_was_put_in_before_the_handshake_is_thrown_away(tls: Tls) -> None:
    """CVE-2011-0411: commands of somebody in the middle would count as said under TLS."""

    async def story() -> None:
        async with house(tls=tls) as home:
            client = await home.client()
            await client.hello()
            await client.say(b"STARTTLS\r\nEHLO evil.example\r\nMAIL FROM:<evil@x.example>\r\n")
            assert (await client.reply()).startswith(b"220 ")
            await client.secure(tls)
            assert (await client.ask(b"RCPT TO:<b@y.example>")).startswith(b"503 5.5.1 say EHLO first")

    run(story())


@pytest.mark.parametrize("implicit", [False, True])
def test_a_handshake_that_is_none_ends_the_connection_and_nothing_else(
    tls: Tls, implicit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with house(tls=tls) as home:
            for said in (b"EHLO c.example\r\n", b"\x16\x03\x01\x00\x05hello", b""):
                client = await home.client(tls=implicit)
                if not implicit:
                    await client.hello()
                    assert (await client.ask(b"STARTTLS")).startswith(b"220 ")
                await client.say(said)
                client.half_close()
                with contextlib.suppress(ConnectionResetError):
                    # An alert may come; no word of SMTP does.
                    assert not (await client.rest())[:1].isdigit()
            other = await home.client()
            await other.hello()
            assert (await other.send(RAW)).startswith(b"250 ")
            await other.ask(b"QUIT")
            await home.closed()

    run(story())
    assert [each for each in caplog.records if each.levelname not in ("INFO", "DEBUG")] == []


@pytest.mark.parametrize("implicit", [False, True], ids=["STARTTLS", "TLS first"])
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half a word"])
def test_who_is_too_slow_with_his_handshake_is_left(
    said: bytes, implicit: bool, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here no limit on idleness holds; the others are served meanwhile."""
    monkeypatch.setattr(connection, "HANDSHAKE_S", 0.05)

    async def story() -> None:
        async with house(tls=tls) as home:
            client, other = await home.client(tls=implicit), await home.client()
            if not implicit:
                await client.hello()
                assert (await client.ask(b"STARTTLS")).startswith(b"220 ")
            await client.say(said)
            await other.hello()
            assert (await other.send(RAW)).startswith(b"250 ")
            assert await client.rest() == b""

    run(story())


def test_where_tls_is_required_nothing_else_comes_first(tls: Tls) -> None:
    async def story() -> None:
        async with house(tls=tls, smtp=SmtpRules(require_tls=True)) as home:
            client = await home.client()
            await client.reply()
            offered = await client.ask(b"EHLO c.example")
            assert b"STARTTLS" in offered
            assert b"AUTH" not in offered
            for command in (b"MAIL FROM:<>", PLAIN, b"VRFY a", b"DATA"):
                assert await client.ask(command) == b"530 5.7.0 say STARTTLS first\r\n"
            for command, code in ((b"NOOP", b"250"), (b"STARTTLS", b"220")):
                assert (await client.ask(command)).startswith(code)
            await client.secure(tls)
            assert b"AUTH PLAIN LOGIN" in await client.ask(b"EHLO c.example")
            assert (await client.ask(PLAIN)).startswith(b"235 ")
            assert (await client.send(RAW)).startswith(b"250 ")

    run(story())


@pytest.mark.parametrize("name", ["hang", "hang_up", "reset", "truncate", "hold"])
def test_faults_under_tls_are_what_they_are_without(name: str, tls: Tls) -> None:
    async def story() -> None:
        async with house(rule(KINDS[name], "reply"), tls=tls) as home:
            client = await home.client(tls=True)
            await client.secure(tls)
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(RAW + b".\r\n")
            await home.moves.until(lambda: home.attempts()[0].rules != ())
            match name:
                case "hang":
                    client.sock.close()
                case "hold":
                    home.holds.release("default")
                    assert (await client.reply()).startswith(b"250 ")
                    await client.ask(b"QUIT")
                case "reset":
                    with pytest.raises(ConnectionResetError):
                        await client.rest()
                case _:
                    assert await client.rest() == (b"25" if name == "truncate" else b"")
                    client.sock.close()
            await home.closed()
            assert raws(home) == [RAW]

    run(story())


@pytest.mark.parametrize("name", ["reply", "hang", "hang_up", "reset", "slow", "hold"])
def test_faults_before_a_handshake(name: str, tls: Tls) -> None:
    """On the port where TLS comes first, the stage `starttls` is the connection itself."""

    async def story() -> None:
        async with house(rule(KINDS[name], "starttls"), tls=tls) as home:
            client = await home.client(tls=True)
            match name:
                case "reply":
                    assert await client.rest() == b"451 4.3.0 not now\r\n"
                case "hang":
                    await home.moves.until(lambda: any(each.rules for each in home.attempts()))
                    assert client.is_in_silence()
                    client.sock.close()
                case "hang_up":
                    assert await client.rest() == b""
                case "reset":
                    with pytest.raises(ConnectionResetError):
                        await client.rest()
                case "slow" | "hold":
                    if name == "slow":
                        await home.clock.asleep.wait()
                        home.clock.wake.set()
                    else:
                        await home.moves.until(
                            lambda: any(a.state is AttemptState.HELD for a in home.attempts())
                        )
                        home.holds.release("default")
                    await client.secure(tls)
                    await client.hello()
                    await client.ask(b"QUIT")
            await home.closed()

    run(story())
