"""Mails: what is given, and the comparison with what arrived."""

from __future__ import annotations

import random

import pytest

from scenarios.mail import Mail, bare, differences, large_mail, real_mail
from scenarios.senders.tiny import render

TO = "zoe@example.com"


def arrived(mail: Mail) -> bytes:
    return render(mail.as_json())


def test_a_real_mail_survives_the_trip() -> None:
    """Everything odd in it comes back as it was given."""
    mail = real_mail("order-1", TO, random.Random(1))

    assert differences(mail, arrived(mail)) == []


def test_a_large_mail_survives_the_trip() -> None:
    """The size is the one asked for."""
    mail = large_mail("order-1", TO, random.Random(1), size_bytes=200_000)

    assert differences(mail, arrived(mail)) == []
    assert len(mail.attachments[0].content) == 200_000


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"Subject: ", b"Subject: Re: ", "subject"),
        (b"zoe@example.com", b"eve@example.com", "To became"),
        (b"shop@example.org", b"spam@example.org", "From became"),
        (b"Content-ID: <logo>", b"Content-ID: <logos>", "content id"),
        (b"text/html", b"text/plaid", "html part is missing"),
    ],
)
def test_a_difference_is_found(old: bytes, new: bytes, says: str) -> None:
    """A changed mail is not taken for the same."""
    mail = real_mail("order-1", TO, random.Random(1))
    raw = arrived(mail)
    assert old in raw

    assert any(says in each for each in differences(mail, raw.replace(old, new)))


def test_changed_content_is_found() -> None:
    """In the text and in an attachment."""
    mail = Mail(key="a", to=(TO,), subject="s", text="one\n.two")

    assert differences(mail, arrived(Mail(key="a", to=(TO,), subject="s", text="one\n..two"))) == [
        "the text part changed"
    ]
    large = large_mail("a", TO, random.Random(1), size_bytes=100)
    other = large_mail("a", TO, random.Random(2), size_bytes=100)
    assert differences(large, arrived(other)) == ["attachment 'catalogue.bin' changed"]


def test_another_event_with_the_same_content_keeps_the_promise_of_the_first() -> None:
    """Only the key tells them apart."""
    first = Mail(key="a", to=(TO,), subject="s", text="t")
    second = first.again("b")

    assert (second.key, second.obligation) == ("b", "a")
    assert second.as_json() | {"key": "a"} == first.as_json()


@pytest.mark.parametrize(
    ("address", "expected"), [("a@x.example", "a@x.example"), ("A, B <a@x.example>", "a@x.example")]
)
def test_an_address_without_its_name(address: str, expected: str) -> None:
    """Ledgers know bare addresses."""
    assert bare(address) == expected
