"""Attachments by reference: what was cut out is put in again, byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_sender import attachments
from reference_sender.attachments import MissingAttachment, Slot, digest_of, put_in, take_out
from reference_sender.message import Attachment, Mail, render
from tests.reference_sender.samples import MAIL, NOW

PDF = Attachment(
    filename="invoice.pdf", content_type="application/pdf", content=b"%PDF" + b"\x00\xff" * 4_000
)
CSV = Attachment(filename="items.csv", content_type="text/csv", content=b"a;b\r\n" * 2_000)
LOGO = Attachment(
    filename="logo.png", content_type="image/png", content=b"\x89PNG" * 2_000, content_id="logo@example.org"
)


def rendered(mail: Mail) -> bytes:
    return render(mail, "<m@example.org>", NOW)


def test_a_frame_is_small_and_the_mail_comes_back_whole() -> None:
    mail = replace(MAIL, html="<img src='cid:logo@example.org'>", attachments=(PDF, CSV, LOGO))
    raw = rendered(mail)
    frame = take_out(raw, mail.attachments)
    assert len(frame.raw) < 3_000 < len(raw)
    assert set(frame.contents.values()) == {PDF.content, CSV.content, LOGO.content}
    assert put_in(frame.raw, frame.slots, frame.contents) == raw


def test_the_same_file_twice_is_one_content_in_two_places() -> None:
    mail = replace(MAIL, attachments=(PDF, replace(PDF, filename="copy.pdf")))
    frame = take_out(rendered(mail), mail.attachments)
    assert [slot.digest for slot in frame.slots] == [digest_of(PDF.content)] * 2
    assert len(frame.contents) == 1
    assert put_in(frame.raw, frame.slots, frame.contents) == rendered(mail)


def test_a_small_attachment_stays_in_the_mail() -> None:
    mail = replace(MAIL, attachments=(replace(PDF, content=b"small"),))
    frame = take_out(rendered(mail), mail.attachments)
    assert (frame.raw, frame.slots, frame.contents) == (rendered(mail), (), {})


def test_a_text_that_holds_the_same_letters_does_no_harm() -> None:
    """Cutting out any place with these bytes, and putting them there again, is the same mail."""
    import base64

    encoded = base64.b64encode(b"x" * 12).decode()
    mail = replace(MAIL, text=f"{encoded}\n", attachments=(replace(PDF, content=b"x" * 12),))
    frame = take_out(rendered(mail), mail.attachments, least_octets=1)
    assert put_in(frame.raw, frame.slots, frame.contents) == rendered(mail)


@given(st.lists(st.binary(max_size=300), max_size=4), st.text("abXY=+/ \n", max_size=60))
def test_any_mail_comes_back_whole(contents: list[bytes], text: str) -> None:
    files = tuple(replace(PDF, content=content) for content in contents)
    raw = rendered(replace(MAIL, text=text, attachments=files))
    frame = take_out(raw, files, least_octets=1)
    assert len(frame.slots) == len([each for each in contents if each])
    kept = attachments.read(attachments.written(frame.slots))
    assert put_in(frame.raw, kept, frame.contents) == raw


def test_a_content_that_is_gone_is_named() -> None:
    with pytest.raises(MissingAttachment, match="abc"):
        put_in(b"x", [Slot(at=0, digest="abc")], {})


def test_a_mail_without_slots_has_nothing_written_beside_it() -> None:
    assert attachments.written(()) is None
    assert attachments.read(None) == ()
