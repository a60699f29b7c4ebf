"""The mail: what is refused, what the bytes look like, and that names never change."""

from __future__ import annotations

import base64
import email
import re
from dataclasses import replace
from datetime import timedelta
from email import policy
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender.message import (
    MAX_LINE_OCTETS,
    Attachment,
    InvalidMail,
    Mail,
    Mailbox,
    check_event_key,
    check_name,
    idempotency_key_for,
    message_id_for,
    parse_mail,
    render,
    single,
)
from tests.reference_sender.samples import MAIL, NOW

ID = "<aa.v1@example.org>"
IMAGE = Attachment(
    filename="logo.png", content_type="image/png", content=b"\x89PNG\r\n\x00", content_id="logo"
)
INVOICE = Attachment(
    filename="Rechnung Nr. 5 – März.pdf", content_type="application/pdf", content=b"%PDF-1.4"
)


def read(mail: Mail) -> EmailMessage:
    return email.message_from_bytes(render(mail, ID, NOW), policy=policy.default)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"recipients": ()}, "no recipient"),
        ({"recipients": ("",)}, "not an address"),
        ({"recipients": ("ann",)}, "not an address"),
        ({"recipients": ("ann@",)}, "not an address"),
        ({"recipients": ("@example.com",)}, "not an address"),
        ({"recipients": ("ann smith@example.com",)}, "not an address"),
        ({"recipients": ("ann@exa mple.com",)}, "not an address"),
        ({"recipients": ("ann@example.com>, <eve@example.com",)}, "not an address"),
        ({"recipients": ("ann@example.com\r\nRCPT TO:<eve@example.com>",)}, "line break"),
        ({"recipients": ("änn@example.com",)}, "non-ASCII"),
        ({"recipients": ("a" * 65 + "@example.com",)}, "not an address"),
        ({"recipients": ("a@" + "x" * 256,)}, "not an address"),
        ({"recipients": ("ann@example..com",)}, "not an address"),
        ({"recipients": ("ann@ä..com",)}, "domain"),
        ({"sender": "nobody"}, "the sender"),
        ({"sender": "Shop\nBcc: eve@example.com <shop@example.org>"}, "line break"),
        ({"subject": "Hello\r\nBcc: eve@example.com"}, "line break"),
        ({"subject": "nul\x00"}, "NUL"),
        ({"subject": "half \ud800"}, "half character"),
        ({"text": "nul\x00"}, "NUL"),
        ({"text": "half \ud800"}, "half character"),
        ({"text": None}, "neither text nor html"),
        ({"headers": {"X-A": "b\nBcc: eve@example.com"}}, "line break"),
        ({"headers": {"X A": "b"}}, "not a header name"),
        ({"headers": {"X-A:": "b"}}, "not a header name"),
        ({"headers": {"": "b"}}, "not a header name"),
        ({"headers": {"bcc": "eve@example.com"}}, "written by the sender itself"),
        ({"headers": {"Message-ID": "<mine@example.com>"}}, "written by the sender itself"),
        ({"headers": {"Content-Type": "text/html"}}, "written by the sender itself"),
        ({"attachments": (IMAGE,)}, "no html"),
    ],
)
def test_a_mail_that_cannot_be_sent_is_refused_with_one_sentence(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidMail, match=word) as caught:
        replace(MAIL, **changes)
    assert "\n" not in str(caught.value).replace("\\n", "")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"filename": ""}, "file name"),
        ({"filename": "a\r\nb"}, "line break"),
        ({"content_type": "pdf"}, "content type"),
        ({"content_type": "message/rfc822"}, "content type"),
        ({"content_type": "text/plain\r\nX: y"}, "content type"),
        ({"content_id": "<logo"}, "content id"),
        ({"content_id": "lo go"}, "content id"),
    ],
)
def test_an_attachment_that_cannot_be_sent_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidMail, match=word):
        replace(INVOICE, **changes)


def test_the_same_mail_has_the_same_bytes() -> None:
    mail = replace(MAIL, html="<img src='cid:logo'>", attachments=(IMAGE, INVOICE))
    assert render(mail, ID, NOW) == render(mail, ID, NOW)


def test_every_line_ends_with_crlf_and_is_seven_bit() -> None:
    mail = replace(MAIL, subject="Bestätigung ✓", text="Grüße\nund\rmehr\r\n", html="<p>ä</p>")
    raw = render(mail, ID, NOW)
    assert re.search(rb"(?<!\r)\n|\r(?!\n)", raw) is None
    assert raw.isascii()


def test_subject_and_names_keep_their_letters() -> None:
    message = read(replace(MAIL, sender="Löwen Café <shop@example.org>", subject="Bestätigung für 東京 ✓"))
    assert message["Subject"] == "Bestätigung für 東京 ✓"
    assert message["From"].addresses[0].display_name == "Löwen Café"


def test_a_quoted_name_with_a_comma_is_one_name() -> None:
    message = read(replace(MAIL, recipients=('"Doe, Jane" <jane@example.com>',)))
    (address,) = message["To"].addresses
    assert (address.display_name, address.addr_spec) == ("Doe, Jane", "jane@example.com")


def test_a_domain_with_umlauts_goes_out_as_idna() -> None:
    assert Mailbox.parse("ann@bücher.example", "recipient").address == "ann@xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("written", "registered"),
    [
        # UTS #46 section 2.3: letters that the old IDNA made others of, and so other domains, which somebody else may have.
        ("straße.example", "xn--strae-oqa.example"),
        ("STRAẞE.Example", "xn--strae-oqa.example"),
        ("βόλος.example", "xn--nxasmm1c.example"),
        ("fußbücher。example", "xn--fubcher-1va6x.example"),
    ],
)
def test_a_domain_with_letters_of_its_own_is_not_that_of_others(written: str, registered: str) -> None:
    assert Mailbox.parse(f"ann@{written}", "recipient").address == f"ann@{registered}"


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
def test_a_domain_with_a_joiner_is_refused(joiner: str) -> None:
    """The old IDNA takes it away, and so finds another domain; the new one asks what stands beside it."""
    with pytest.raises(InvalidMail, match="xn--"):
        Mailbox.parse(f"ann@exam{joiner}ple.com", "recipient")


def test_dates_and_ids_are_as_given() -> None:
    message = read(MAIL)
    assert message["Message-ID"] == ID
    assert message["Date"].datetime == NOW


def test_text_html_image_and_file_are_nested_as_mail_programs_expect() -> None:
    message = read(replace(MAIL, html="<img src='cid:logo'>", attachments=(INVOICE, IMAGE)))
    shape = [part.get_content_type() for part in message.walk()]
    assert shape == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
        "application/pdf",
    ]
    parts = list(message.walk())
    assert parts[5]["Content-ID"] == "<logo>"
    assert parts[5].get_content_disposition() == "inline"
    assert parts[5].get_payload(decode=True) == IMAGE.content
    assert parts[6].get_filename() == INVOICE.filename
    assert parts[6].get_payload(decode=True) == INVOICE.content


def test_a_content_id_may_come_with_its_brackets() -> None:
    bracketed = replace(IMAGE, content_id="<logo>")
    plain, other = (replace(MAIL, html="x", attachments=(image,)) for image in (IMAGE, bracketed))
    assert render(plain, ID, NOW) == render(other, ID, NOW)


def test_html_alone_may_have_images_and_files() -> None:
    message = read(replace(MAIL, text=None, html="<img src='cid:logo'>", attachments=(INVOICE, IMAGE)))
    assert "image/png" in [part.get_content_type() for part in message.walk()]
    assert INVOICE.content in [part.get_payload(decode=True) for part in message.walk()]


def test_a_text_that_knows_the_boundary_cannot_break_out_of_its_part() -> None:
    mail = replace(MAIL, html="<p>x</p>")
    boundary = read(mail).get_boundary()
    sly = replace(mail, text=f"--{boundary}\nContent-Type: text/html\n\n<script>\n--{boundary}--\n")
    message = read(sly)
    assert message.get_boundary() != boundary
    assert [p.get_content_type() for p in message.walk()] == [
        "multipart/alternative",
        "text/plain",
        "text/html",
    ]


@pytest.mark.parametrize(
    "text", ["x" * 5_000, "ä" * 5_000, ".\n..\n.x\n", "a " * 3_000, "", "tail without end"]
)
def test_no_body_line_is_longer_than_the_standard_allows(text: str) -> None:
    raw = render(replace(MAIL, text=text), ID, NOW)
    assert max(map(len, raw.split(b"\r\n"))) <= MAX_LINE_OCTETS
    body = email.message_from_bytes(raw, policy=policy.default).get_content()
    assert text.splitlines() == body.splitlines() or body.strip() == text


def test_a_long_header_is_folded_and_read_back_whole() -> None:
    mail = replace(MAIL, subject="ä" * 1_500, headers={"X-Long": "x" * 2_000})
    assert max(map(len, render(mail, ID, NOW).split(b"\r\n"))) <= MAX_LINE_OCTETS
    assert read(mail)["Subject"] == "ä" * 1_500
    assert read(mail)["X-Long"] == "x" * 2_000


def test_ten_megabytes_go_along_unharmed() -> None:
    content = bytes(range(256)) * 40_960
    message = read(replace(MAIL, attachments=(replace(INVOICE, content=content),)))
    assert content == list(message.walk())[-1].get_payload(decode=True)


@given(st.text(max_size=200), st.text(max_size=60), st.binary(max_size=300))
def test_whatever_is_accepted_renders_to_a_mail_that_can_be_read(
    text: str, subject: str, data: bytes
) -> None:
    try:
        mail = replace(MAIL, subject=subject, text=text, attachments=(replace(INVOICE, content=data),))
        raw = render(mail, ID, NOW)
    except InvalidMail:
        return
    message = email.message_from_bytes(raw, policy=policy.default)
    assert data == list(message.walk())[-1].get_payload(decode=True)
    assert re.search(rb"(?<!\r)\n|\r(?!\n)", raw) is None
    assert message["Message-ID"] == ID


def test_a_key_is_the_same_for_ever() -> None:
    """This string is in databases and at providers: if this test fails, add a new scheme instead."""
    assert idempotency_key_for("order-1", "ann@example.com") == "order-1.v1.3c69602402840895fe4df92271c93b41"


def test_a_key_depends_on_event_and_recipient_but_not_on_the_case_of_the_domain() -> None:
    key = idempotency_key_for("order-1", "ann@example.com")
    assert key == idempotency_key_for("order-1", "ann@EXAMPLE.com")
    assert key != idempotency_key_for("order-1", "bob@example.com")
    assert key != idempotency_key_for("order-2", "ann@example.com")


@given(st.text(min_size=1, max_size=300).filter(lambda t: t.isprintable()))
def test_a_key_is_safe_in_any_header(event: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,160}", idempotency_key_for(event, "ann@example.com"))


def test_a_message_id_follows_from_the_key_and_names_the_senders_domain() -> None:
    assert re.fullmatch(r"<[0-9a-f]{32}\.v1@example\.org>", message_id_for("k", "Shop <shop@example.org>"))
    assert message_id_for("k", "shop@example.org") != message_id_for("l", "shop@example.org")


def test_nobody_sees_who_else_was_written_to() -> None:
    mail = replace(MAIL, recipients=("ann@example.com", "bob@example.com"))
    assert b"bob@" not in render(single(mail, "ann@example.com"), ID, NOW)


def test_another_date_changes_only_the_date() -> None:
    first, second = render(MAIL, ID, NOW), render(MAIL, ID, NOW + timedelta(hours=1))
    assert [a for a, b in zip(first.splitlines(), second.splitlines(), strict=True) if a != b] == [
        b"Date: Sun, 29 Nov 2026 12:00:00 +0000"
    ]


def test_the_json_form_is_read() -> None:
    mail = parse_mail(
        {
            "from": "Shop <shop@example.org>",
            "to": ["ann@example.com"],
            "subject": "Hi",
            "text": "x",
            "html": None,
            "attachments": [
                {
                    "filename": "a.txt",
                    "content_type": "text/plain",
                    "content": base64.b64encode(b"hi").decode(),
                }
            ],
            "headers": {"X-A": "b"},
        }
    )
    assert (mail.subject, mail.attachments[0].content, mail.headers) == ("Hi", b"hi", {"X-A": "b"})


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"to": None}, '"to"'),
        ({"to": [1]}, '"to"'),
        ({"from": 5}, '"from"'),
        ({"from": None}, "sender"),
        ({"subject": []}, '"subject"'),
        ({"headers": []}, "neither|header"),
        ({"headers": {"X": 1}}, '"headers"'),
        ({"attachments": {}}, "neither|list"),
        ({"attachments": "x"}, "list"),
        ({"attachments": ["x"]}, "object"),
        ({"attachments": [{"filename": "a", "content": "%%"}]}, "base64"),
        ({"attachments": [{"filename": "a", "content": None}]}, "base64"),
    ],
)
def test_a_wrong_json_form_is_refused(changes: dict[str, Any], word: str) -> None:
    document: dict[str, Any] = {"from": "a@example.org", "to": "b@example.com", "subject": "x"}
    with pytest.raises(InvalidMail, match=word):
        parse_mail(document | changes)


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x00b", "a\udcffb", "a\nb", "a\x1b[31mb", "a\x9bb"])
def test_what_cannot_name_an_event_is_refused(key: str) -> None:
    with pytest.raises(InvalidMail, match="the event key"):
        check_event_key(key)


def test_an_event_key_may_be_long_and_in_any_script() -> None:
    check_event_key("注文" * 127)
    check_event_key(" order 1 ")


def test_a_name_with_a_blank_at_its_end_is_refused() -> None:
    """MySQL and MariaDB take it for the same without it, and so one slot for another."""
    with pytest.raises(InvalidMail, match="the slot contains a blank at its end"):
        check_name("delivery ", "the slot")
