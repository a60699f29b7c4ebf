"""Fields become a message that says what they say, and nothing else."""

from __future__ import annotations

from email import message_from_bytes
from email.policy import default

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.dialects.native.letter import Letter, fields_of, message_id_of, write
from simulator.provider.message import Form, Submission, header
from tests.simulator.dialects.native.bodies import FIELDS, encoded, parsed, take, taken, written
from tests.simulator.provider.mails import NOW


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
    assert "eve" not in written(submission).decode()
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
    assert "To: jösé@example.org" in written(submission).decode()
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


# --- written later ----------------------------------------------------------------------------------


def test_a_letter_is_kept_as_its_fields() -> None:
    """What nobody asks for is not written; the same fields in another order are the same bytes."""
    one, other = taken(FIELDS, key="k"), taken(dict(reversed(FIELDS.items())), key="k", at_s=60)

    assert (one.form, one.raw) == (Form.FIELDS, other.raw)
    assert written(one) == written(other)
    assert one.headers == (
        ("From", "Shop <shop@example.org>"),
        ("To", "bob@example.org"),
        ("Subject", "Order"),
        ("Message-ID", one.message_id),
    )


ADDRESSES = st.from_regex(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,60}(\.[a-z]{1,9})?@[A-Za-z0-9-]{1,60}(\.[a-z-]{1,9})?", fullmatch=True
)
TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Zl", "Zp"], exclude_characters="\r\n\0\v\f\x1c\x1d\x1e\x85")
)
MAILBOXES = st.tuples(TEXTS.map(str.strip), ADDRESSES)
LETTERS = st.builds(
    Letter,
    from_=MAILBOXES,
    to=st.lists(MAILBOXES, min_size=1, max_size=3).map(tuple),
    cc=st.lists(MAILBOXES, max_size=2).map(tuple),
    subject=TEXTS,
    text=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    html=st.text(st.characters(exclude_categories=["Cs"])),
    headers=st.lists(st.tuples(st.from_regex(r"X-[!-9;-~]{1,30}", fullmatch=True), TEXTS), max_size=3).map(
        tuple
    ),
    message_id=st.none() | ADDRESSES.map(lambda address: f"<{address}>"),
)


@settings(deadline=None)
@given(LETTERS)
def test_every_letter_can_be_written_and_says_what_was_told(letter: Letter) -> None:
    """Writing is left for later: it must never turn out then that it cannot be done.

    What rules and searches saw of the mail is what a reader of the message sees.
    """
    message_id = message_id_of(letter, key="k", fingerprint="f", host="mail.example")
    message = message_from_bytes(
        write(letter, message_id=message_id, fingerprint="f", now=NOW), policy=default
    )
    told = fields_of(letter, message_id)

    assert [name for name, _ in told] == [
        name for name, _ in message.items() if name not in ("Date", "MIME-Version") and "Content-" not in name
    ]
    seen = [message[name] for name in ("From", "To", "Cc")]
    addresses = [each.addr_spec for field in seen if field is not None for each in field.addresses]
    assert addresses == [address for _, address in (letter.from_, *letter.to, *letter.cc)]
    assert message["Subject"] == letter.subject
    assert message["Message-ID"] == message_id
    assert [value for name, value in message.items() if name.startswith("X-")] == [
        value for _, value in letter.headers
    ]
