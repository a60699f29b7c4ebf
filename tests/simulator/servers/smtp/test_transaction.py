"""A mail transaction: addresses and parameters, mail data byte for byte, and the answer after the commit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.ledger import AttemptState, Sent
from simulator.provider.limits import Limits
from simulator.servers.smtp.mail_data import has_bare_line_ends
from tests.simulator.servers.smtp.bodies import BODIES
from tests.simulator.servers.smtp.house import (
    KINDS,
    RAW,
    house,
    raws,
    rule,
    run,
)


def test_addresses_that_are_not_ascii_need_smtputf8() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            utf8 = "jürgen@bücher.example".encode()
            assert (await client.ask(b"MAIL FROM:<" + utf8 + b">")).startswith(b"553 5.6.7 ")
            assert (await client.ask(b"MAIL FROM:<j\xfcrgen@x.example> SMTPUTF8")).startswith(b"501 5.1.7 ")
            assert (await client.ask(b"MAIL FROM:<a@x.example>")).startswith(b"250 ")
            assert (await client.ask(b"RCPT TO:<" + utf8 + b">")).startswith(b"553 5.6.7 ")
            await client.ask(b"RSET")
            assert (await client.ask(b"MAIL FROM:<" + utf8 + b"> SMTPUTF8")).startswith(b"250 ")
            assert (await client.ask(b"RCPT TO:<" + utf8 + b">")).startswith(b"250 ")
            await client.ask(b"DATA")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert home.booked()[0].sender == utf8.decode()

    run(story())


def test_a_refused_mail_command_is_an_attempt() -> None:
    """Every try of a sender is recorded, also one that fails at its first word."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:a@x.example")
            await client.ask(b"MAIL FROM:<a@x.example> SIZE=999999999999")
            answers = [(a.answer[:9], a.sent, a.state) for a in home.attempts()]
            assert answers == [
                ("501 5.1.7", Sent.COMPLETE, AttemptState.CLOSED),
                ("552 5.3.4", Sent.COMPLETE, AttemptState.CLOSED),
            ]

    run(story())


def test_the_null_sender_is_booked_as_an_empty_string_and_a_repeated_recipient_once() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:<> BODY=8BITMIME RET=FULL")
            for _ in range(2):
                assert (await client.ask(b"RCPT TO:<b@y.example> NOTIFY=NEVER")).startswith(b"250 2.1.5 ")
            await client.ask(b"DATA")
            await client.ask(RAW + b".")
            assert [(each.sender, each.recipients) for each in home.booked()] == [("", ("b@y.example",))]

    run(story())


def test_recipients_over_the_limit_are_put_off_and_the_others_get_the_mail() -> None:
    async def story() -> None:
        async with house(limits=Limits(max_recipients=2)) as home:
            client = await home.client()
            await client.hello()
            await client.ask(b"MAIL FROM:<>")
            codes = [(await client.ask(b"RCPT TO:<%d@y.example>" % n))[:9] for n in range(3)]
            assert codes == [b"250 2.1.5", b"250 2.1.5", b"452 4.5.3"]
            await client.ask(b"DATA")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert [each.recipients for each in home.booked()] == [("0@y.example", "1@y.example")]

    run(story())


@settings(max_examples=25, deadline=None)
@given(bodies=st.lists(BODIES, min_size=1, max_size=3))
def test_bodies_arrive_in_the_ledger_as_they_were_sent(bodies: list[bytes]) -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for body in bodies:
                assert (await client.send(body)).startswith(b"250 ")
            assert raws(home) == bodies

    run(story())


@pytest.mark.parametrize(
    "end",
    [
        b"\n.\n",
        b"\n.\r\n",
        b"\r\n.\n",
        b"\r.\r",
        b"\r.\r\n",
        b"\r\n.\r",
        b"\r\n\0.\r\n",
        b"\r\n.\0\r\n",
        b"\r\n..\r\n",
    ],
    ids=repr,
)
def test_nothing_but_the_final_dot_ends_a_mail(end: bytes) -> None:
    """Smuggling: what looks like an end is data, and a CR or LF of its own makes the whole mail refused."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            smuggled = b"MAIL FROM:<x@x.example>\r\nRCPT TO:<v@y.example>\r\nDATA\r\nSubject: smuggled\r\n"
            reply = await client.ask(b"Subject: x\r\n\r\nhello" + end + smuggled + b".")
            if has_bare_line_ends(end.replace(b"\r\n", b"") if end.count(b"\r\n") else end):
                assert reply.startswith(b"554 5.6.0 ")
                assert home.booked() == []
            else:
                assert reply.startswith(b"250 ")
                assert len(home.booked()) == 1
            assert (await client.ask(b"NOOP")).startswith(b"250 ")

    run(story())


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no header at all\r\n", id="no header"),
        pytest.param(b".\r\n..\r\n.leading\r\n", id="dots"),
        pytest.param(b"Subject: x\r\n\r\n" + b"l" * 200_000 + b"\r\n", id="a very long line"),
        pytest.param(b"Subject: \xcf\xf0\xe8\r\n\r\n\xff\0\r\n", id="8 bit and NUL"),
        pytest.param(b"\r\n", id="an empty header"),
    ],
)
def test_odd_mail_is_taken_as_it_is(raw: bytes) -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(raw)).startswith(b"250 ")
            assert raws(home) == [raw]

    run(story())


def test_a_mail_is_measured_without_its_transparent_dots() -> None:
    """Exactly the limit is taken, one octet more is refused, and the session goes on either way."""

    async def story() -> None:
        limit = 3_000
        async with house(limits=Limits(max_size_bytes=limit)) as home:
            client = await home.client()
            await client.hello()
            dots = b".\r\n" * (limit // 3)
            assert (await client.send(dots)).startswith(b"250 ")
            assert (await client.send(dots + b"\r\n")).startswith(b"552 5.3.4 ")
            assert (await client.send(b"x" * 100_000 + b"\r\n" + dots)).startswith(b"552 5.3.4 ")
            assert (await client.ask(b"MAIL FROM:<> SIZE=3001")).startswith(b"552 5.3.4 ")
            assert (await client.ask(b"MAIL FROM:<> SIZE=3000")).startswith(b"250 ")
            assert [each.size_bytes for each in home.booked()] == [limit]
            assert [a.answer[:9] for a in home.attempts()[1:4]] == ["552 5.3.4"] * 3

    run(story())


def test_without_a_limit_of_the_account_that_of_the_server_holds() -> None:
    async def story() -> None:
        async with house(limits=Limits(max_size_bytes=None), max_message_bytes=50) as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(b"x" * 60 + b"\r\n")).startswith(b"552 5.3.4 ")
            assert (await client.send(b"x" * 40 + b"\r\n")).startswith(b"250 ")

    run(story())


def test_the_commit_returns_before_the_answer_goes_out() -> None:
    async def story() -> None:
        committing, durable = asyncio.Event(), asyncio.Event()

        async def commit() -> None:
            committing.set()
            await durable.wait()

        async with house(commit=commit) as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(RAW + b".\r\n")
            await committing.wait()
            assert len(home.booked()) == 1
            assert client.is_in_silence()
            durable.set()
            assert (await client.reply()).startswith(b"250 2.0.0 ")

    run(story())


@pytest.mark.parametrize("name", ["hang_up", "reset", "truncate", "garble", "reply", "hold"])
def test_the_commit_returns_before_a_fault_after_booking_is_carried_out(name: str) -> None:
    """A reset that comes before the acceptance is durable would be a lie about what the ledger survives."""

    async def story() -> None:
        committing, durable = asyncio.Event(), asyncio.Event()

        async def commit() -> None:
            committing.set()
            await durable.wait()

        async with house(rule(KINDS[name], "reply"), commit=commit) as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(RAW + b".\r\n")
            await committing.wait()
            assert client.is_in_silence()
            assert home.attempts()[0].state is AttemptState.OPEN
            durable.set()
            if name == "hold":
                await home.moves.until(lambda: home.attempts()[0].state is AttemptState.HELD)
            else:
                await home.closed()

    run(story())


def test_nothing_refused_is_committed() -> None:
    async def story() -> None:
        async def commit() -> None:
            raise AssertionError("nothing was booked")

        async with house(
            rule(KINDS["reply"], "message"), limits=Limits(max_size_bytes=10), commit=commit
        ) as home:
            client = await home.client()
            await client.hello()
            assert (await client.send(RAW)).startswith(b"451 ")
            assert (await client.send(RAW)).startswith(b"552 5.3.4 ")
        async with house(limits=Limits(rate_per_s=0.5, burst=0), commit=commit) as home:
            client = await home.client()
            await client.hello()
            assert (await client.ask(b"MAIL FROM:<a@x.example>")).startswith(b"451 4.7.0 ")

    run(story())


def test_an_acceptance_that_cannot_be_kept_gets_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Neither yes nor no would be true; the line is closed and the trouble is logged."""

    async def story() -> None:
        async def commit() -> None:
            raise OSError("disk full")

        async with house(commit=commit) as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            await client.say(RAW + b".\r\n")
            assert await client.rest() == b""
            (attempt,) = await home.closed()
            assert attempt.sent is Sent.NOTHING

    run(story())
    assert "could not be kept" in caplog.text
