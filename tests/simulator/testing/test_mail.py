"""A mail as a test looks at it."""

from __future__ import annotations

from datetime import UTC, datetime

from simulator.testing.mail import Mail
from tests.simulator.testing.test_words import MAIL

RAW = (
    b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nMIME-Version: 1.0\r\n"
    b'Content-Type: multipart/alternative; boundary="b"\r\n\r\n'
    b"--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nHallo\r\n"
    b"--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>Hallo</p>\r\n--b--\r\n"
)


def test_a_mail_shows_what_was_accepted() -> None:
    """In Python's own types."""
    mail = Mail.of(MAIL, lambda: RAW)

    assert (mail.id, mail.recipients, mail.subject, mail.dialect) == (
        "msg_1",
        ("ada@example.com",),
        "Your order",
        "smtp",
    )
    assert mail.accepted_at == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def test_the_bytes_are_fetched_when_they_are_asked_for_and_once() -> None:
    """Looking at a list of mails costs one request."""
    fetched = []

    def raw() -> bytes:
        fetched.append(1)
        return RAW

    mail = Mail.of(MAIL, raw)
    assert fetched == []
    assert (mail.raw, mail.text, mail.html) == (RAW, "Hallo", "<p>Hallo</p>")
    assert mail.message["Subject"] == "Grüße"
    assert fetched == [1]


def test_a_mail_without_a_text_has_none() -> None:
    """Nor without anything at all."""
    assert Mail.of(MAIL, lambda: b"Content-Type: image/png\r\n\r\nx").text is None
    assert Mail.of(MAIL, lambda: b"").html is None
