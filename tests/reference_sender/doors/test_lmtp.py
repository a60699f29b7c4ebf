"""The door for reports by LMTP and SMTP, as a mail server knocks."""

from __future__ import annotations

import asyncio
import smtplib

import pytest

from reference_sender.doors.lmtp import ReportDoor
from reference_sender.doors.reports import Letterbox
from tests.reference_sender.doors.knocks import Shelf
from tests.reference_sender.events.test_reports import POSTFIX
from tests.reference_sender.samples import ManualClock

#: With a line that is longer than RFC 5321 allows, as the mail that came back had it.
REPORT = POSTFIX.replace(b"Subject: Your order", b"Subject: Your order\nX-Long: " + b"x" * 2_000).replace(
    b"\n", b"\r\n"
)


def hand_over(kind: type[smtplib.SMTP], host: str, port: int) -> dict[str, tuple[int, bytes]]:
    """As a mail server does it: from the null sender, to several recipients."""
    server = kind(host, port)
    try:
        refused = server.sendmail("", ["shop@example.org", "abuse@example.org"], REPORT)
        if kind is smtplib.LMTP:
            # The standard library reads one reply; RFC 2033 section 4.2 has one for each recipient.
            assert server.getreply()[0] == 250
    except smtplib.SMTPDataError as error:
        return {"all": (error.smtp_code, b"")}
    finally:
        server.close()
    return refused


def run(protocol: str, shelf: Shelf) -> dict[str, tuple[int, bytes]]:
    kind = smtplib.LMTP if protocol == "lmtp" else smtplib.SMTP

    async def story() -> dict[str, tuple[int, bytes]]:
        door = ReportDoor(Letterbox(keeper=shelf, clock=ManualClock()), protocol=protocol)
        host, port = await door.open("127.0.0.1", 0)
        try:
            return await asyncio.to_thread(hand_over, kind, host, port)
        finally:
            await door.close()

    return asyncio.run(story())


@pytest.mark.parametrize("protocol", ["lmtp", "smtp"])
def test_a_report_is_taken_and_kept(protocol: str) -> None:
    shelf = Shelf()
    assert run(protocol, shelf) == {}
    assert len(shelf.kept) == 2


@pytest.mark.parametrize("protocol", ["lmtp", "smtp"])
def test_what_cannot_be_kept_is_to_be_handed_over_again(protocol: str) -> None:
    refused = run(protocol, Shelf(away=ConnectionError("away")))
    assert {code for code, _ in refused.values()} == {451}
