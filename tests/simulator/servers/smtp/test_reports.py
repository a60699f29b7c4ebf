"""What fake mail servers have been reported to get wrong, tried on ours: each case states what is right.

The ids name the project and the number of the report, so that it can be read there.
"""

from __future__ import annotations

import base64
import smtplib
import threading

import pytest

from simulator.provider.ledger import AttemptState
from tests.simulator.running import PATIENCE_S, running
from tests.simulator.servers.smtp.dialogues import (
    DATA,
    EHLO,
    GREETED,
    MAIL,
    MESSAGE,
    NOOP,
    QUIT,
    RCPT,
    TO_DATA,
    TO_RCPT,
    Case,
    case,
    heard,
)
from tests.simulator.servers.smtp.house import KINDS, PLAIN, RAW, house, rule, run

SHOP = base64.b64encode(b"shop") + b"\r\n"
LONG_LINE = b"Subject: x\r\n\r\n%b\r\n.\r\n"

CASES = [
    case(
        "aiosmtpd#9: one refusal of a mail over the limit, and in step",
        tables={"limits": {"max_size_bytes": 10}},
        says=[
            *TO_DATA,
            *[(b"a line\r\n", None)] * 4,
            (b".\r\n", b"552 5.3.4 "),
            (NOOP, b"250 "),
            (QUIT, b"221 "),
        ],
    ),
    case(
        "aiosmtpd#563: an address without brackets",
        says=[
            *GREETED,
            (b"MAIL FROM:alice@example.com\r\n", b"501 5.1.7"),
            (MAIL, b"250 "),
            (b"RCPT TO:bob@example.com\r\n", b"501 5.1.3"),
        ],
    ),
    *(
        case(
            f"aiosmtpd#285, #59: a line of {size}",
            says=[*TO_DATA, (LONG_LINE % (b"x" * size), b"250 ")],
            booked=1,
        )
        for size in (998, 1_000, 1_001, 200_000)
    ),
    case(
        "greenmail#28, inbucket#561: the null sender",
        says=[*GREETED, (b"MAIL FROM:<>\r\n", b"250 "), (RCPT, b"250 ")],
    ),
    case("mailpit#407: BODY", says=[*GREETED, (b"MAIL FROM:<a@e.org> BODY=8BITMIME\r\n", b"250 ")]),
    case(
        "inbucket#283, #284, #291: SIZE and AUTH",
        says=[
            *GREETED,
            (b"MAIL FROM:<a@e.org> SIZE=38677 AUTH=<>\r\n", b"250 "),
            (b"RSET\r\n", b"250 "),
            (PLAIN + b"\r\n", b"235 "),
            (b"MAIL FROM:<a@e.org> SIZE=38677 AUTH=<>\r\n", b"250 "),
        ],
    ),
    case(
        "mailpit#622: junk for a recipient",
        says=[
            *GREETED,
            (MAIL, b"250 "),
            *(
                (b"RCPT TO:" + junk + b"\r\n", b"501 5.1.3")
                for junk in (b"<@route.example user@example.com>", b"<user example.com>", b"<>", b"", b"x")
            ),
            (DATA, b"503 "),
        ],
    ),
    case(
        "mailpit#623, SMTPtool#2: MAIL within a transaction",
        says=[
            *GREETED,
            (MAIL, b"250 "),
            (MAIL, b"503 5.5.1"),
            (RCPT, b"250 "),
            (DATA, b"354 "),
            (MESSAGE, b"250 "),
        ],
        booked=1,
    ),
    case(
        "mailpit GHSA-54wq: a CR or a NUL in an address",
        says=[
            *GREETED,
            (b"MAIL FROM:<a\r@e.org>\r\n", b"500 5.5.2"),
            (b"MAIL FROM:<a\0@e.org>\r\n", b"500 5.5.2"),
            (b"MAIL FROM:<a\n@e.org>\r\n", b"500 5.5.2"),
            (b"", b"500 5.5.1"),
            (MAIL, b"250 "),
            (b"RCPT TO:<b\rBcc: c@e.org@e.org>\r\n", b"500 5.5.2"),
        ],
    ),
    case("smtp4dev#25: nothing at all", says=[*TO_DATA, (b".\r\n", b"250 ")], booked=1),
    case("smtp4dev#25: no header", says=[*TO_DATA, (b"just text\r\n.\r\n", b"250 ")], booked=1),
    case(
        "smtp4dev#1937: no To", says=[*TO_DATA, (b"Subject: a < b\r\n\r\na < b\r\n.\r\n", b"250 ")], booked=1
    ),
    case(
        "mailcatcher#201: raw 8-bit headers and text",
        says=[*TO_DATA, (b"Subject: \xcf\xf0\xe8\r\n\r\n\xff\xfe\r\n.\r\n", b"250 ")],
        booked=1,
    ),
    case(
        "MailHog#213: commands that end with LF are refused at once",
        says=[(b"", b"220 "), (b"EHLO x\n", b"500 5.5.2"), (b"NOOP\n", b"500 5.5.2"), (NOOP, b"250 ")],
    ),
    case(
        "inbucket#221, #141, #225: commands of eight letters, a late EHLO, an empty AUTH",
        says=[
            *TO_RCPT,
            (b"STARTTLS\r\n", b"502 5.5.1"),
            (EHLO, b"250-"),
            (RCPT, b"503 "),
            (b"AUTH\r\n", b"501 5.5.4"),
            (b"AUTH \r\n", b"501 5.5.4"),
            (b"ABCDEFGH\r\n", b"500 5.5.1"),
        ],
    ),
    case("interactsh#991: VRFY is not unknown", says=[*GREETED, (b"VRFY ann\r\n", b"252 2.5.2")]),
    case(
        "smtpd PR#44: 500, 501, 502, 503, 504, 555",
        says=[
            (b"", b"220 "),
            (b"MAIL FROM:<>\r\n", b"503 5.5.1"),
            (b"WHAT\r\n", b"500 5.5.1"),
            (b"EHLO\r\n", b"501 "),
            (EHLO, b"250-"),
            (b"MAIL\r\n", b"501 5.5.4"),
            (b"EXPN list\r\n", b"502 5.5.1"),
            (b"RCPT TO:<b@y.example>\r\n", b"503 5.5.1"),
            (b"DATA\r\n", b"503 5.5.1"),
            (b"AUTH CRAM-MD5\r\n", b"504 5.5.4"),
            (b"MAIL FROM:<> X=1\r\n", b"555 5.5.4"),
        ],
    ),
    case(
        "smtpd PR#44: 530 where AUTH is required",
        tables={"smtp": {"require_auth": True}},
        says=[
            *GREETED,
            (MAIL, b"530 5.7.0"),
            (PLAIN + b"\r\n", b"235 2.7.0"),
            (PLAIN + b"\r\n", b"503 5.5.1"),
        ],
    ),
    case(
        "mailpit#459: AUTH LOGIN",
        says=[*GREETED, (b"AUTH LOGIN\r\n", b"334 "), (SHOP, b"334 "), (SHOP, b"235 "), (MAIL, b"250 ")],
    ),
    case(
        "mailpit#300: dots come back as they were",
        says=[*TO_DATA, (b"..\r\n...\r\n..a\r\n.\r\n", b"250 ")],
        booked=1,
    ),
    case(
        "mailpit#496, #648: addresses beyond ASCII say so",
        says=[
            *GREETED,
            ("MAIL FROM:<jürgen@x.example>\r\n".encode(), b"553 5.6.7"),
            (b"MAIL FROM:<j\xfcrgen@x.example>\r\n", b"501 5.1.7"),
            ("MAIL FROM:<jürgen@x.example> SMTPUTF8\r\n".encode(), b"250 "),
        ],
    ),
    case(
        "SMTP-Smuggling-Tools PR#4: a message that ends with CR CR LF",
        says=[*TO_DATA, (b"Subject: x\r\n\r\nhello\r\r\n.\r\n", b"554 5.6.0 "), (NOOP, b"250 ")],
    ),
    case("smtp-server#49: a message that stops", says=[*TO_DATA, (b"Subject: x\r\n\r\nand th", None)]),
    case(
        "smtp-connection#22: a mail within a mail",
        says=[*TO_DATA, (MAIL + RCPT + DATA + MESSAGE, b"250 "), (NOOP, b"250 ")],
        booked=1,
    ),
]


@pytest.mark.parametrize("it", CASES, ids=lambda it: it.id)
def test_what_was_reported_elsewhere_is_right_here(it: Case) -> None:
    async def story() -> None:
        async with house(plan=it.tables) as home:
            client = await home.client()
            for said, expected in it.says:
                if said:
                    await client.say(said)
                if expected is not None:
                    await heard(client, home, expected)
            assert len(home.booked()) == it.booked
            client.half_close()
            await client.rest()
            await home.closed()

    run(story())


@pytest.mark.parametrize("end", ["FIN", "RST"])
def test_a_sender_that_leaves_while_its_command_is_waited_for(
    end: str, caplog: pytest.LogCaptureFixture
) -> None:
    """aiosmtpd#110, #162: everything at once, then gone, while RCPT is slow: no trace, and nothing half done."""

    async def story() -> None:
        async with house(rule(KINDS["slow"], "rcpt")) as home:
            client = await home.client()
            await client.say(EHLO + MAIL + RCPT + DATA + MESSAGE + QUIT)
            await home.clock.asleep.wait()
            if end == "FIN":
                client.half_close()
            else:
                client.break_line()
                # Whoever is served next is served after the server has seen that.
                await (await home.client()).hello()
            home.clock.wake.set()
            await home.moves.until(lambda: home.attempts()[0].state is AttemptState.CLOSED)
            assert len(home.booked()) == (1 if end == "FIN" else 0)

    run(story())
    assert caplog.text == ""


def test_whoever_waits_for_a_mail_and_stops_the_server_then_has_not_come_too_early() -> None:
    """greenmail#132: the sender hears its 250, although the server is stopped as soon as the mail is there."""
    heard_by_sender: list[object] = []

    def send() -> None:
        host, port = service.smtp
        with smtplib.SMTP(host, port, timeout=PATIENCE_S) as sender:
            heard_by_sender.append(sender.sendmail("a@x.example", ["b@y.example"], RAW.decode()))

    with running() as service:
        sending = threading.Thread(target=send)
        with service.control() as control:
            sending.start()
            control.wait_for_messages(to="b@y.example")
        service.stop()
        sending.join(PATIENCE_S)
    assert heard_by_sender == [{}]
