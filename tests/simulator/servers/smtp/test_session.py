"""Whole sessions: the order of commands, their syntax, and senders that others wrote."""

from __future__ import annotations

import asyncio
import smtplib
from email.message import EmailMessage

import aiosmtplib
import pytest

from simulator.servers.smtp.dialogue import COMMAND_LIMIT_BYTES
from tests.simulator.servers.smtp.house import (
    DEADLINE_S,
    RAW,
    house,
    raws,
    run,
)


def test_a_pipelined_session_is_answered_in_order() -> None:
    """RFC 2920; all at once, half-closed, and still every reply comes."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            mail = b"MAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\nDATA\r\n" + RAW + b".\r\n"
            await client.say(b"EHLO c.example\r\n" + mail + mail + b"NOOP\r\nQUIT\r\n")
            client.half_close()
            codes = b"".join(line[:4] for line in (await client.rest()).splitlines())
            mail_codes = b"250 250 354 250 "
            assert codes == b"220 " + b"250-" * 9 + b"250 " + mail_codes * 2 + b"250 221 "
            assert raws(home) == [RAW, RAW]

    run(story())


@pytest.mark.parametrize(
    ("said", "replies"),
    [
        ([b"MAIL FROM:<a@x.example>"], [b"503 5.5.1 "]),
        ([b"HELO c", b"RCPT TO:<b@y.example>"], [b"250 mx.example\r\n", b"503 5.5.1 "]),
        ([b"HELO c", b"DATA"], [b"250 ", b"503 5.5.1 "]),
        (
            [b"HELO c", b"MAIL FROM:<>", b"MAIL FROM:<>", b"RSET"],
            [b"250 ", b"250 ", b"503 5.5.1 ", b"250 2.0.0 "],
        ),
        ([b"HELO c", b"MAIL FROM:<>", b"DATA"], [b"250 ", b"250 2.1.0 ", b"503 5.5.1 "]),
        ([b"HELO c", b"MAIL FROM:<> SIZE=1"], [b"250 ", b"555 5.5.4 "]),
        ([b"EHLO"], [b"501 syntax"]),
        ([b"HELO"], [b"501 syntax"]),
        ([b"EHLO a b"], [b"501 syntax"]),
        ([b"NOOP", b"NOOP ignored", b"RSET", b"RSET now"], [b"250 2.0.0 ", b"250 ", b"250 ", b"501 5.5.4 "]),
        ([b"VRFY a", b"VRFY", b"EXPN list"], [b"252 2.5.2 ", b"501 5.5.4 ", b"502 5.5.1 "]),
        ([b"HELP", b"HELP mail"], [b"214 2.0.0 ", b"214 2.0.0 syntax: MAIL"]),
        ([b"STARTTLS", b"STARTTLS now"], [b"502 5.5.1 ", b"501 5.5.4 "]),
        ([b"XYZ 10 LAST", b"", b"\xff\xfe", "MA\u0131L FROM:<>".encode()], [b"500 5.5.1 "] * 4),
        (
            [b"EHLO c", b"NOOP a\rb", b"NOOP a\0b", b"MAIL FROM:<a\r@x.example>"],
            [b"250-", *[b"500 5.5.2 "] * 3],
        ),
        ([b"EHLO c.example.", b"EHLO [192.0.2.1]", b"EHLO my_pc"], [b"250-"] * 3),
        ([b"EHLO <c>", b"EHLO a..b", b"EHLO " + b"a" * 256], [b"501 syntax"] * 3),
        ([b"NOOP " + b"x" * COMMAND_LIMIT_BYTES, b"NOOP"], [b"500 5.5.2 ", b"250 "]),
        ([b"NOOP " + b"x" * 3_000_000, b"NOOP"], [b"500 5.5.2 ", b"250 "]),
        ([b"QUIT now", b"quit"], [b"501 5.5.4 ", b"221 2.0.0 "]),
        ([b"GET / HTTP/1.1", *[b"Header: x"] * 20], [*[b"500 5.5.1 "] * 20, b"421 4.7.0 "]),
    ],
    ids=lambda value: repr(value[-1][:24]),
)
def test_commands(said: list[bytes], replies: list[bytes]) -> None:
    """The order of commands, their syntax, and the codes of RFC 5321 and RFC 3463."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.reply()
            for command, expected in zip(said, replies, strict=True):
                reply = await client.ask(command)
                assert reply.startswith(expected), (command[:40], reply)
            assert home.booked() == []

    run(story())


def test_a_line_that_ends_with_lf_is_refused_at_once() -> None:
    """Not obeyed (RFC 5321, section 2.3.8), and not waited for either."""

    async def story() -> None:
        async with house() as home:
            client = await home.client()
            await client.reply()
            await client.say(b"EHLO c.example\nNOOP\n")
            assert (await client.reply()).startswith(b"500 5.5.2 lines end with CRLF")
            assert (await client.reply()).startswith(b"500 5.5.2 lines end with CRLF")
            assert (await client.ask(b"MAIL FROM:<>")).startswith(b"503 ")

    run(story())


def _real_mail(size_bytes: int) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Jürgen <a@x.example>"
    mail["To"] = "b@y.example"
    mail["Subject"] = "Grüße"
    mail["Message-ID"] = "<one@x.example>"
    mail.set_content("Hello\n.a line with a dot\n..\n.\nend\n")
    mail.add_attachment(
        bytes(range(256)) * (size_bytes // 256), maintype="application", subtype="octet-stream"
    )
    # Else each rendering would get another one.
    mail.set_boundary("=frontier=")
    return mail


def test_smtplib_hands_over_ten_megabytes() -> None:
    async def story() -> None:
        mail = _real_mail(10 * 1024 * 1024)

        async with house(accounts=("shop",)) as home:

            def send() -> None:
                with smtplib.SMTP(
                    "127.0.0.1", home.port, local_hostname="c.example", timeout=DEADLINE_S
                ) as smtp:
                    smtp.login("shop", "secret")
                    assert smtp.send_message(mail) == {}

            await asyncio.to_thread(send)
            (raw,) = raws(home)
            expected = mail.as_bytes(policy=mail.policy.clone(linesep="\r\n"))
            assert raw == expected
            assert home.booked("shop")[0].message_id == "<one@x.example>"
            assert home.booked("shop")[0].subject == "Grüße"

    run(story())


def test_aiosmtplib_sends_two_mails_over_one_connection() -> None:
    async def story() -> None:
        async with house(accounts=("shop",)) as home:
            async with aiosmtplib.SMTP(
                hostname="127.0.0.1", port=home.port, username="shop", password="x", start_tls=False
            ) as smtp:
                for _ in range(2):
                    refused, reply = await smtp.send_message(_real_mail(1_000))
                    assert refused == {}
                    assert reply.startswith("2.0.0 OK")
            attempts = await home.closed("shop")
            assert len(home.booked("shop")) == 2
            assert len({a.connection for a in attempts}) == 1

    run(story())
