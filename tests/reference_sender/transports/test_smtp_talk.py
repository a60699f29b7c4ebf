"""An SMTP talk with servers that misbehave, step by step: the evidence names the step."""

from __future__ import annotations

import asyncio
import base64

import pytest

from reference_sender.policy.evidence import Phase
from reference_sender.transports.smtp_options import Tls
from tests.reference_sender.samples import parcel
from tests.reference_sender.transports.smtp_servers import GOOD, STEPS, Behaviour, Server, attempt
from tests.reference_sender.transports.wires import for_ever, withdraw


def test_lines_beginning_with_dots_are_stuffed() -> None:
    server = Server()
    attempt(server, parcel(raw=b".a\r\n..\r\n.\r\nb.\r\n"))
    assert server.mails == [b"..a\r\n...\r\n..\r\nb.\r\n.\r\n"]


def test_a_mail_without_a_last_line_end_gets_one() -> None:
    server = Server()
    attempt(server, parcel(raw=b"a"))
    assert server.mails == [b"a\r\n.\r\n"]


def test_a_large_mail_goes_out_whole() -> None:
    server = Server()
    mail = parcel(raw=b".abcdefgh\r\n" * 500_000)
    assert attempt(server, mail).code == 250
    assert server.mails == [b"..abcdefgh\r\n" * 500_000 + b".\r\n"]


@pytest.mark.parametrize(("step", "noticed"), [("RCPT", Phase.DATA), ("DATA", Phase.BODY)])
def test_a_reply_too_many_ends_the_attempt_before_anything_can_be_mistaken(step: str, noticed: Phase) -> None:
    """Each later reply would be read as that of the command before it."""
    usual = GOOD[step]
    assert isinstance(usual, bytes)
    server = Server(**{step: usual + b"250 ok again\r\n"})
    evidence = attempt(server)

    assert (evidence.phase, evidence.code, evidence.trouble) == (noticed, None, "garbled")
    assert [each for each in server.mails if each.strip(b".\r\n")] == []


@pytest.mark.parametrize("step", [s for s in STEPS if s != "AUTH"])
@pytest.mark.parametrize("code", [421, 451, 550])
def test_a_refusal_is_reported_with_its_step(step: str, code: int) -> None:
    evidence = attempt(Server(**{step: f"{code} 4.3.0 no\r\n".encode(), "HELO": f"{code} no\r\n".encode()}))
    phase = Phase.SENT if step == "mail" else Phase(step.lower())
    assert (phase, code) == (evidence.phase, evidence.code)


@pytest.mark.parametrize("step", [s for s in STEPS if s != "AUTH"])
@pytest.mark.parametrize(
    ("behaviour", "troubles"),
    [
        ("fin", {"eof", "reset"}),
        ("rst", {"reset", "eof"}),
        ("hang", {"timeout"}),
        ("half:25", {"eof", "reset", "garbled"}),
        (b"rubbish\r\n", {"garbled"}),
        (b"25\r\n", {"garbled"}),
        (b"2500 ok\r\n", {"garbled"}),
        (b"250ok\r\n", {"garbled"}),
        (b"999 ok\r\n", {"garbled"}),
        (b"250-a\r\n550 b\r\n", {"garbled"}),
        (b"\x00\xff\r\n", {"garbled"}),
    ],
    ids=[
        "fin",
        "rst",
        "hang",
        "half",
        "rubbish",
        "two digits",
        "four digits",
        "no space",
        "999",
        "mixed",
        "binary",
    ],
)
def test_without_a_complete_reply_there_is_no_code(
    step: str, behaviour: Behaviour, troubles: set[str]
) -> None:
    evidence = attempt(Server(**{step: behaviour}), read_timeout_s=0.2)
    phase = Phase.SENT if step == "mail" else Phase(step.lower())
    assert (phase, None) == (evidence.phase, evidence.code)
    assert evidence.trouble in troubles


def test_a_reset_after_the_dot_is_named_a_reset() -> None:
    assert attempt(Server(mail="rst")).trouble == "reset"


def test_a_withdrawn_attempt_sends_no_byte_of_the_mail() -> None:
    server = Server()
    evidence = attempt(server, point_of_no_return=withdraw)
    assert (evidence.phase, evidence.trouble) == (Phase.DATA, "withdrawn")
    assert (server.heard[-1], server.mails) == ("DATA", [])


def test_the_point_of_no_return_lies_between_354_and_the_first_byte() -> None:
    server = Server()
    seen: list[tuple[str, int]] = []

    async def mark() -> bool:
        seen.append((server.heard[-1], len(server.mails)))
        return True

    attempt(server, point_of_no_return=mark)
    assert seen == [("DATA", 0)]


def test_without_an_accepted_recipient_the_mail_is_not_begun() -> None:
    server = Server(RCPT=b"550 5.1.1 no such user\r\n")
    attempt(server)
    assert "DATA" not in server.heard


def test_a_server_that_stops_reading_leaves_the_mail_incomplete() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        for reply in (b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
            await reader.readline()
            writer.write(reply)
        writer.transport.pause_reading()  # type: ignore[attr-defined] # a read transport
        await for_ever()

    evidence = attempt(script, parcel(raw=b"x" * 70 + b"\r\n" + b"y" * 30_000_000), total_timeout_s=0.5)
    assert (evidence.phase, evidence.trouble) == (Phase.BODY, "timeout")


def test_a_refusal_in_the_middle_of_the_mail_is_heard() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        for reply in (b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
            await reader.readline()
            writer.write(reply)
        await reader.readexactly(100_000)
        writer.transport.pause_reading()  # type: ignore[attr-defined] # a read transport
        writer.write(b"552 5.3.4 too big\r\n")
        await for_ever()

    evidence = attempt(script, parcel(raw=b"y" * 30_000_000))
    assert (evidence.phase, evidence.code) == (Phase.BODY, 552)


def test_an_old_server_without_ehlo_is_greeted_with_helo() -> None:
    server = Server(EHLO=b"502 what?\r\n")
    assert attempt(server).code == 250
    assert server.heard[:3] == ["EHLO [127.0.0.1]", "HELO [127.0.0.1]", "MAIL FROM:<shop@example.org>"]


def test_login_is_plain_where_it_is_offered() -> None:
    server = Server()
    assert attempt(server, user="shop", password="geheim ä").code == 250
    word = base64.b64encode("\0shop\0geheim ä".encode()).decode()
    assert f"AUTH PLAIN {word}" == server.heard[1]


def test_login_is_login_where_only_that_is_offered() -> None:
    class Login(Server):
        async def _behave(self, step: str, writer: asyncio.StreamWriter) -> bool:
            if step == "AUTH":
                done = self.heard[-1] == base64.b64encode(b"secret").decode()
                self.table["AUTH"] = b"235 in\r\n" if done else b"334 VXNlcm5hbWU6\r\n"
            return await super()._behave(step, writer)

    server = Login(EHLO=b"250-hi\r\n250 AUTH LOGIN\r\n")
    assert attempt(server, user="shop", password="secret").code == 250
    assert server.heard[1:4] == ["AUTH LOGIN", "c2hvcA==", "c2VjcmV0"]


@pytest.mark.parametrize("code", [454, 535])
def test_a_refused_login_is_reported(code: int) -> None:
    evidence = attempt(Server(AUTH=f"{code} no\r\n".encode()), user="shop", password="x")
    assert (Phase.AUTH, code) == (evidence.phase, evidence.code)


def test_a_server_without_login_is_not_written_to() -> None:
    server = Server(EHLO=b"250 hi\r\n")
    evidence = attempt(server, user="shop", password="x")
    assert (evidence.phase, evidence.trouble) == (Phase.AUTH, "not offered")
    assert len(server.heard) == 1


def test_a_server_without_starttls_is_not_written_to() -> None:
    server = Server()
    evidence = attempt(server, tls=Tls.STARTTLS)
    assert (evidence.phase, evidence.trouble) == (Phase.STARTTLS, "not offered")


def test_a_refused_starttls_is_reported() -> None:
    server = Server(EHLO=b"250-hi\r\n250 STARTTLS\r\n", STARTTLS=b"454 4.7.0 not now\r\n")
    evidence = attempt(server, tls=Tls.STARTTLS)
    assert (evidence.phase, evidence.code) == (Phase.STARTTLS, 454)


def test_a_refused_starttls_in_another_charset_can_be_written_down() -> None:
    """Or no attempt could be settled, and every mail would spend its attempts that way."""
    server = Server(EHLO=b"250-hi\r\n250 STARTTLS\r\n", STARTTLS=b"454 4.7.0 nicht verf\xfcgbar\x00\r\n")
    evidence = attempt(server, tls=Tls.STARTTLS)
    assert evidence.answer == "4.7.0 nicht verf\N{REPLACEMENT CHARACTER}gbar"
