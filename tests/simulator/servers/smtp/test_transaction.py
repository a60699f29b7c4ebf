"""A mail transaction: addresses and parameters, mail data byte for byte, and the answer after the commit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.faults import HangUpOnThem, ReplyWith
from simulator.provider.ledger import AttemptState, Sent
from simulator.provider.limits import Limits
from simulator.provider.message import Dsn, DsnRecipient
from simulator.provider.rule import Pattern, Who
from simulator.provider.smtp import SmtpRules
from tests.simulator.servers.smtp.bodies import BODIES
from tests.simulator.servers.smtp.house import (
    KINDS,
    PLAIN,
    RAW,
    Client,
    House,
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
        b"\r\r\n",
        b"\r\r\n.\r\r\n",
        b"\n\r\n.\n\r\n",
        b"\r\n..\r\n",
        b"\r\n. \r\n",
    ],
    ids=repr,
)
def test_nothing_but_the_final_dot_ends_a_mail(end: bytes) -> None:
    """Smuggling: what looks like an end is data, and a CR or LF of its own (or a NUL) makes the whole mail refused."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            for command in (b"MAIL FROM:<>", b"RCPT TO:<b@y.example>", b"DATA"):
                await client.ask(command)
            smuggled = b"MAIL FROM:<x@x.example>\r\nRCPT TO:<v@y.example>\r\nDATA\r\nSubject: smuggled\r\n"
            reply = await client.ask(b"Subject: x\r\n\r\nhello" + end + smuggled + b".")
            if end not in (b"\r\n..\r\n", b"\r\n. \r\n"):
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
        pytest.param(b"Subject: \xcf\xf0\xe8\r\n\r\n\xff\r\n", id="8 bit"),
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

        # On the short way whoever commits has no way to raise.
        async with house(commit=commit, short=False) as home:
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


# --- chunks (RFC 3030) ------------------------------------------------------------------------------


async def begun(home: House) -> Client:
    """Return a client with a transaction that waits for its mail."""
    client = await home.client()
    await client.hello()
    assert (await client.ask(b"MAIL FROM:<a@x.example>")).startswith(b"250 ")
    assert (await client.ask(b"RCPT TO:<b@y.example>")).startswith(b"250 ")
    return client


def bdat(chunk: bytes, *, last: bool = False) -> bytes:
    return b"BDAT %d%s\r\n" % (len(chunk), b" LAST" if last else b"") + chunk


@settings(max_examples=25, deadline=None)
@given(
    body=BODIES,
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 60), max_size=9),
)
def test_chunks_are_put_together_as_they_are(body: bytes, sizes: list[int], cuts: list[int]) -> None:
    """Dots stay dots; how the bytes come in does not matter, and what follows is a command again."""

    async def story() -> None:
        async with house() as home:
            client = await begun(home)
            chunks, rest = [], body
            for size in sizes:
                chunks.append(rest[:size])
                rest = rest[size:]
            said = b"".join(map(bdat, chunks)) + bdat(rest, last=True) + b"NOOP\r\n"
            for cut in cuts:
                await client.say(said[:cut])
                said = said[cut:]
            await client.say(said)
            replies = [await client.reply() for _ in range(len(chunks) + 2)]
            assert replies[:-2] == [b"250 2.0.0 %d octets taken\r\n" % len(each) for each in chunks]
            assert replies[-2].startswith(b"250 2.0.0 OK: queued as ")
            assert replies[-1] == b"250 2.0.0 OK\r\n"
            assert raws(home) == [body]

    run(story())


@pytest.mark.parametrize("behind", [b"DATA\r\n", bdat(b"body\r\n", last=True)], ids=["DATA", "BDAT"])
@pytest.mark.parametrize("in_one", [True, False], ids=["pipelined", "one by one"])
@pytest.mark.parametrize("code", [550, 451])
def test_that_nobody_is_left_is_not_the_answer_about_a_mail_whose_recipients_were_refused(
    code: int, in_one: bool, behind: bytes
) -> None:
    """Who pipelines has said DATA before it heard of the refusal, which is what became of its mail."""

    async def story() -> None:
        async with house(rule(ReplyWith(code=code), "rcpt")) as home:
            client = await home.client()
            await client.reply()
            await client.ask(b"EHLO c")
            commands = [b"MAIL FROM:<a@x.example>\r\n", b"RCPT TO:<b@x.example>\r\n", behind]
            if in_one:
                await client.say(b"".join(commands))
                replies = [await client.reply() for _ in commands]
            else:
                replies = []
                for each in commands:
                    await client.say(each)
                    replies.append(await client.reply())
            assert [each[:3] for each in replies] == [b"250", b"%d" % code, b"503"]
            assert (await client.ask(b"RSET")).startswith(b"250")
            (attempt,) = await home.closed()
            assert attempt.answer.startswith(f"{code} ")
            assert attempt.sent is Sent.COMPLETE

    run(story())


def test_that_nobody_was_named_is_the_answer() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.reply()
            for command in (b"EHLO c", b"MAIL FROM:<a@x.example>"):
                await client.ask(command)
            assert (await client.ask(b"DATA")).startswith(b"503")
            assert [each.answer for each in home.attempts()] == [
                "503 5.5.1 no valid recipients: say RCPT first"
            ]

    run(story())


@pytest.mark.parametrize(
    ("before", "code"),
    [
        pytest.param([], b"503 5.5.1 say EHLO first", id="no EHLO"),
        pytest.param([b"HELO c"], b"503 5.5.1 say EHLO first", id="HELO only"),
        pytest.param([b"EHLO c"], b"503 5.5.1 say MAIL first", id="no MAIL"),
        pytest.param([b"EHLO c", b"MAIL FROM:<>"], b"503 5.5.1 no valid recipients", id="no RCPT"),
    ],
)
def test_a_chunk_out_of_order_is_read_before_it_is_refused(before: list[bytes], code: bytes) -> None:
    """Its bytes are never taken for commands."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.reply()
            for command in before:
                assert (await client.ask(command)).startswith(b"250")
            await client.say(bdat(b"MAIL FROM:<x@x.example>\r\n", last=True))
            assert (await client.reply()).startswith(code)
            assert (await client.ask(b"NOOP")) == b"250 2.0.0 OK\r\n"
            assert home.booked() == []

    run(story())


@pytest.mark.parametrize("why", ["turned away", "TLS required"])
def test_a_chunk_that_may_not_come_at_all_is_read_too(why: str) -> None:
    async def story() -> None:
        rules = (rule(ReplyWith(code=554), "connect"),) if why == "turned away" else ()
        async with house(*rules, smtp=SmtpRules(require_tls=why != "turned away")) as home:
            client = await home.client()
            await client.reply()
            await client.say(bdat(b"NOOP\r\nNOOP\r\n", last=True) + b"QUIT\r\n")
            said = [line[:9] for line in (await client.rest()).splitlines()]
            assert said == [b"503 5.5.1" if why == "turned away" else b"530 5.7.0", b"221 2.0.0"]

    run(story())


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("short", [True, False])
def test_a_chunk_is_no_command_where_chunking_is_hidden(short: bool, last: bool) -> None:
    """A sender that does not mind what EHLO says must not have its mail's octets obeyed: that is smuggling."""

    async def story() -> None:
        async with house(smtp=SmtpRules(hide=("CHUNKING",)), short=short) as home:
            client = await begun(home)
            smuggled = b"RSET\r\nMAIL FROM:<evil@x.example>\r\nRCPT TO:<b@y.example>\r\nDATA\r\nSubject: x\r\n\r\n.\r\n"
            await client.say(bdat(smuggled, last=last) + b"NOOP\r\n")
            assert (await client.reply()).startswith(b"502 5.5.1 CHUNKING is not offered")
            assert (await client.reply()).startswith(b"250 ")
            assert (await client.ask(b"DATA")).startswith(b"354 ")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert [(each.sender, each.recipients) for each in home.booked()] == [
                ("a@x.example", ("b@y.example",))
            ]

    run(story())


@pytest.mark.parametrize(
    "said",
    [
        b"BDAT 6\n",
        b"BDAT 6\r LAST\r\n",
        b"bdat 6\0\r\n",
        b"BDAT 6" + b" " * 3_000 + b"\r\n",
        b"BDAT 6" + b" " * 300_000 + b"\r\n",
    ],
    ids=["LF only", "a CR within", "NUL", "too long", "much too long"],
)
def test_a_chunk_behind_a_broken_line_ends_the_connection(said: bytes) -> None:
    """The line is not obeyed, so nobody knows how much of what follows is the chunk."""

    async def story() -> None:
        async with house() as home:
            client = await begun(home)
            await client.say(said + b"RSET\r\n")
            assert (await client.rest()).startswith(b"421 4.5.4 a broken BDAT line")

    run(story())


def test_data_rcpt_and_mail_have_no_place_among_chunks_and_rset_ends_them() -> None:
    async def story() -> None:
        async with house() as home:
            client = await begun(home)
            await client.say(bdat(b"Subject: one\r\n"))
            assert (await client.reply()).startswith(b"250 2.0.0 14 octets")
            for command in (b"DATA", b"RCPT TO:<c@y.example>", b"MAIL FROM:<>"):
                assert (await client.ask(command)).startswith(b"503 5.5.1 ")
            assert (await client.ask(b"RSET")).startswith(b"250 ")
            await client.say(bdat(b"x", last=True))
            assert (await client.reply()).startswith(b"503 5.5.1 say MAIL first")
            assert (await client.send(RAW)).startswith(b"250 ")
            assert raws(home) == [RAW]

    run(story())


def test_chunks_beyond_the_limit_are_thrown_away_and_refused() -> None:
    async def story() -> None:
        async with house(limits=Limits(max_size_bytes=1_000)) as home:
            client = await begun(home)
            await client.say(bdat(b"x" * 600) + bdat(b"x" * 600) + bdat(b"MAIL FROM:<>\r\n", last=True))
            codes = [(await client.reply())[:9] for _ in range(3)]
            assert codes == [b"250 2.0.0", b"552 5.3.4", b"503 5.5.1"]
            for size, code in ((998, b"250 2.0.0"), (999, b"552 5.3.4")):
                client = await begun(home)
                await client.say(bdat(b"x" * size + b"\r\n", last=True))
                assert (await client.reply()).startswith(code)
            assert len(home.booked()) == 1

    run(story())


@pytest.mark.parametrize(
    "said", [b"BDAT", b"BDAT x", b"BDAT -1", b"BDAT 1 LATS", b"BDAT 10LAST", b"BDAT " + b"9" * 30]
)
def test_a_chunk_of_unknown_size_ends_the_connection(said: bytes) -> None:
    """Whatever follows could be anything, a command last of all."""

    async def story() -> None:
        async with house() as home:
            client = await begun(home)
            await client.say(said + b"\r\nRSET\r\n")
            assert (await client.rest()).startswith(b"421 4.5.4 ")
            assert home.booked() == []

    run(story())


def test_a_chunk_that_a_rule_refuses_is_read_first_and_the_others_wait_for_rset() -> None:
    async def story() -> None:
        async with house(rule(ReplyWith(code=451), "data")) as home:
            client = await begun(home)
            await client.say(b"BDAT 20 LAST\r\nSubject: ")
            assert (await client.ask(b"NOOP\r\nRSE")).startswith(b"451 4.3.0 ")
            await client.say(bdat(b"x", last=True))
            assert (await client.reply()).startswith(b"503 5.5.1 a chunk of this mail was refused")
            assert (await client.ask(b"RSET")).startswith(b"250 ")
            assert home.booked() == []

    run(story())


def test_a_yes_of_a_rule_to_a_chunk_is_the_answer_to_that_chunk_only() -> None:
    async def story() -> None:
        async with house(rule(ReplyWith(code=250, text="go on"), "data")) as home:
            client = await begun(home)
            await client.say(bdat(RAW[:20]) + bdat(RAW[20:], last=True))
            assert await client.reply() == b"250 go on\r\n"
            assert (await client.reply()).startswith(b"250 2.0.0 OK: queued")
            assert raws(home) == [RAW]

    run(story())


def test_faults_meet_chunks_as_they_meet_data() -> None:
    """Headers are known as soon as they are there; bare line ends are refused; a lost answer is a lost answer."""

    async def story() -> None:
        who = Who(headers=(("X-Kind", Pattern("bulk")),))
        rules = (rule(HangUpOnThem(), "body", who=who), rule(HangUpOnThem(), "reply"))
        async with house(*rules) as home:
            client = await begun(home)
            await client.say(bdat(b"X-Kind: bulk\r\n\r\n") + b"BDAT 99 LAST\r\nthe rest never comes")
            assert await client.rest() == b"250 2.0.0 16 octets taken\r\n"
            assert home.booked() == []
            client = await begun(home)
            await client.say(bdat(b"Subject: x\n\nbare", last=True))
            assert (await client.reply()).startswith(b"554 5.6.0 ")
            client = await begun(home)
            await client.say(bdat(RAW, last=True))
            assert await client.rest() == b""
            assert raws(home) == [RAW]

    run(story())


# --- notifications (RFC 3461) -----------------------------------------------------------------------


def test_what_the_sender_wants_to_be_told_is_kept_with_the_acceptance() -> None:
    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            assert (await client.ask(b"MAIL FROM:<a@x.example> RET=hdrs ENVID=order+2B7")).startswith(b"250 ")
            for to in (
                b"RCPT TO:<b@y.example> NOTIFY=SUCCESS,delay ORCPT=rfc822;b+2Bold@y.example",
                b"RCPT TO:<c@y.example> NOTIFY=NEVER",
                b"RCPT TO:<d@y.example>",
            ):
                assert (await client.ask(to)).startswith(b"250 ")
            await client.ask(b"DATA")
            assert (await client.ask(RAW + b".")).startswith(b"250 ")
            assert (await client.send(RAW)).startswith(b"250 ")
            first = DsnRecipient(
                recipient="b@y.example", notify=("SUCCESS", "DELAY"), orcpt="rfc822;b+old@y.example"
            )
            never = DsnRecipient(recipient="c@y.example", notify=("NEVER",))
            assert [each.dsn for each in home.booked()] == [
                Dsn(ret="HDRS", envid="order+7", recipients=(first, never)),
                None,
            ]

    run(story())


@pytest.mark.parametrize(
    ("mail", "orcpt", "code"),
    [
        ("", "utf-8;zo\xeb@y.example", b"501 5.5.4 ORCPT beyond ASCII needs SMTPUTF8"),
        ("", r"utf-8;zo\x{EB}@y.example", b"250 "),
        (" SMTPUTF8", "utf-8;zo\xeb@y.example", b"250 "),
        (" SMTPUTF8", r"utf-8;zo\x{EB}@y.example", b"250 "),
    ],
)
def test_an_original_recipient_beyond_ascii_needs_smtputf8(mail: str, orcpt: str, code: bytes) -> None:
    """RFC 6533, section 3: `utf-8-addr-unitext` where SMTPUTF8 is spoken, `utf-8-addr-xtext` everywhere."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.hello()
            assert (await client.ask(f"MAIL FROM:<a@x.example>{mail}".encode())).startswith(b"250 ")
            said = await client.ask(f"RCPT TO:<b@y.example> ORCPT={orcpt}".encode())
            assert said.startswith(code)
            assert (b"RFC 6533" in said) is code.startswith(b"501")

    run(story())


# --- settings ---------------------------------------------------------------------------------------


def test_no_mail_before_authentication_where_that_is_required() -> None:
    async def story() -> None:
        async with house(smtp=SmtpRules(require_auth=True)) as home:
            client = await home.client()
            await client.hello()
            assert await client.ask(b"MAIL FROM:<>") == b"530 5.7.0 authentication required\r\n"
            assert (await client.ask(PLAIN)).startswith(b"235 ")
            assert (await client.send(RAW)).startswith(b"250 ")
            assert [a.answer[:9] for a in home.attempts()] == ["530 5.7.0", "250 2.0.0"]

    run(story())


def test_so_many_mails_and_no_more_on_one_connection() -> None:
    async def story() -> None:
        async with house(smtp=SmtpRules(max_messages=2)) as home:
            client = await home.client()
            await client.hello()
            for _ in range(2):
                assert (await client.send(RAW)).startswith(b"250 ")
            await client.say(b"MAIL FROM:<>\r\nRCPT TO:<b@y.example>\r\n")
            assert (await client.rest()).startswith(b"421 4.7.0 2 mails are enough")
            assert len(home.booked()) == 2

    run(story())


def test_lines_of_a_message_have_the_length_that_is_allowed() -> None:
    async def story() -> None:
        async with house(smtp=SmtpRules(max_line_bytes=998)) as home:
            client = await home.client()
            await client.hello()
            for size, code in ((998, b"250 2.0.0"), (999, b"554 5.6.0"), (5_000, b"554 5.6.0")):
                assert (await client.send(b"a\r\n" * 9 + b"x" * size + b"\r\nb\r\n")).startswith(code)
            assert len(home.booked()) == 1

    run(story())


def test_a_local_part_may_be_allowed_to_be_longer() -> None:
    async def story() -> None:
        long = b"b" * 65 + b"@y.example"
        for rules, code in ((SmtpRules(), b"501 5.1.3"), (SmtpRules(max_local_part_bytes=65), b"250 2.1.5")):
            async with house(smtp=rules) as home:
                client = await home.client()
                await client.hello()
                await client.ask(b"MAIL FROM:<>")
                assert (await client.ask(b"RCPT TO:<" + long + b">")).startswith(code)

    run(story())
