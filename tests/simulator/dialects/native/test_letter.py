"""Fields become a message that says what they say, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.message import Submission, header
from tests.simulator.dialects.native.bodies import FIELDS, encoded, parsed, take, taken


def test_fields_become_a_message() -> None:
    submission = taken(
        FIELDS
        | {
            "from": "Zoë <shop@example.org>",
            "to": ["Bob <bob@example.org>"],
            "cc": ["ann@example.org", "BOB@example.org"],
            "bcc": ["eve@example.org"],
            "subject": "Grüße",
            "html": "<p>Dänke</p>",
            "headers": {"X-Obligation": "o1", "Reply-To": "help@example.org"},
            "message_id": "<mine@example.org>",
        }
    )
    message = parsed(submission)

    assert submission.sender == "shop@example.org"
    assert submission.recipients == ("bob@example.org", "ann@example.org", "eve@example.org")
    assert submission.subject == "Grüße"
    assert submission.message_id == "<mine@example.org>"
    assert header(submission.headers, "x-obligation") == "o1"
    assert message["From"] == "Zoë <shop@example.org>"
    assert message["Cc"] == "ann@example.org, BOB@example.org"
    assert "eve" not in submission.raw.decode()
    assert message["Date"] == "Tue, 01 Jan 2030 00:00:00 +0000"
    assert message.get_content_type() == "multipart/alternative"
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    assert plain is not None
    assert html is not None
    assert plain.get_content() == "Thanks\r\n"
    assert html.get_content().strip() == "<p>Dänke</p>"


def test_html_alone_is_enough() -> None:
    message = parsed(taken({"from": "a@x", "to": ["b@x"], "html": "<p>"}))

    assert message.get_content_type() == "text/html"


def test_attachments_arrive_as_they_were() -> None:
    picture, file = bytes(range(256)), b"\r\n.\r\n" * 50
    message = parsed(
        taken(
            FIELDS
            | {
                "html": '<img src="cid:pic">',
                "attachments": [
                    {"filename": "bild ä.png", "content_type": "image/png", "content": encoded(picture), "content_id": "pic"},
                    {"filename": "a.bin", "content": encoded(file)},
                ],
            }
        )
    )  # fmt: skip
    parts = {part.get_filename(): part for part in message.walk() if part.get_filename()}

    assert parts["bild ä.png"].get_content() == picture
    assert parts["bild ä.png"]["Content-ID"] == "<pic>"
    assert parts["bild ä.png"].get_content_disposition() == "inline"
    assert parts["a.bin"].get_content() == file


@pytest.mark.parametrize("plain", [True, False])
def test_inline_parts_stand_beside_the_html_in_their_order(plain: bool) -> None:
    """All in one multipart/related, however many there are; what is attached is outside of it."""
    files = [
        {"filename": "a.bin", "content": "YQ=="},
        {"filename": "1.png", "content": "MQ==", "content_id": "one"},
        {"filename": "2.png", "content": "Mg==", "content_id": "two"},
    ]
    body = {"from": "a@x", "to": ["b@x"], "html": "<p>", "attachments": files}
    message = parsed(taken(body | ({"text": "x"} if plain else {})))
    kinds = [part.get_content_type() for part in message.walk()]

    start = ["multipart/mixed", *(["multipart/alternative", "text/plain"] if plain else [])]
    assert kinds == [
        *start, "multipart/related", "text/html", "application/octet-stream", "application/octet-stream",
        "application/octet-stream",
    ]  # fmt: skip
    assert [part.get_filename() for part in message.walk() if part.get_filename()] == [
        "1.png",
        "2.png",
        "a.bin",
    ]


def test_an_address_beyond_ascii_is_written_in_utf8() -> None:
    submission = taken(FIELDS | {"to": ["jösé@example.org"], "subject": "Grüße"})

    assert submission.recipients == ("jösé@example.org",)
    assert "To: jösé@example.org" in submission.raw.decode()
    assert submission.subject == "Grüße"


@settings(deadline=None)
@given(
    st.dictionaries(st.from_regex(r"X-[A-Za-z]{1,8}", fullmatch=True), st.text(max_size=60), max_size=3),
    st.text(max_size=80),
    st.text(max_size=30),
)
def test_no_text_smuggles_a_header(headers: dict[str, str], subject: str, name: str) -> None:
    found = take(FIELDS | {"headers": headers, "subject": subject, "from": f"{name} <a@x>"})

    if isinstance(found, Submission):
        names = {each.lower() for each, _ in found.headers}
        assert names <= {each.lower() for each in headers} | {
            "from", "to", "subject", "message-id", "date", "mime-version", "content-type",
            "content-transfer-encoding",
        }  # fmt: skip
