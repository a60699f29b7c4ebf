"""The native API: bodies become mails, answers become status, headers and JSON."""

from __future__ import annotations

import base64
import hashlib
import json
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.dialects.native import STATUS, answer, as_json, garbled, part_of, problem, read, read_key
from simulator.provider.answer import (
    Accepted,
    Reason,
    Refused,
    RefusedRecipient,
    Reply,
    RetryAfter,
    RetryAfterKind,
)
from simulator.provider.message import Submission, header
from tests.simulator.provider.mails import NOW, acceptance, after

FIELDS: dict[str, Any] = {
    "from": "Shop <shop@example.org>",
    "to": ["bob@example.org"],
    "subject": "Order",
    "text": "Thanks",
}
RAW = b"Subject: Hi\r\nMessage-ID: <1@x>\r\n\r\n.dots\r\n"
RAW_BODY: dict[str, Any] = {
    "from": "shop@example.org",
    "to": ["bob@example.org"],
    "raw": base64.b64encode(RAW).decode(),
}


def take(data: object, key: str | None = None, at_s: float = 0) -> Submission | Refused:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return read(body, key=key, now=after(at_s), host="mail.example")


def taken(data: object, key: str | None = None, at_s: float = 0) -> Submission:
    submission = take(data, key, at_s)
    assert isinstance(submission, Submission), submission
    return submission


def parsed(submission: Submission) -> EmailMessage:
    message = message_from_bytes(submission.raw, policy=default)
    assert isinstance(message, EmailMessage)
    return message


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


# --- what comes in ----------------------------------------------------------------------------------


def test_a_raw_message_goes_on_unchanged() -> None:
    submission = taken(RAW_BODY, key="k")

    assert submission.raw == RAW
    assert submission.sender == "shop@example.org"
    assert submission.recipients == ("bob@example.org",)
    assert (submission.key, submission.message_id, submission.subject) == ("k", "<1@x>", "Hi")


def test_a_raw_message_may_have_the_null_sender() -> None:
    assert taken(RAW_BODY | {"from": ""}).sender == ""


def test_base64_may_have_line_breaks() -> None:
    assert taken(RAW_BODY | {"raw": base64.encodebytes(RAW * 9).decode()}).raw == RAW * 9


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


def test_an_address_beyond_ascii_is_written_in_utf8() -> None:
    submission = taken(FIELDS | {"to": ["jösé@example.org"], "subject": "Grüße"})

    assert submission.recipients == ("jösé@example.org",)
    assert "To: jösé@example.org" in submission.raw.decode()
    assert submission.subject == "Grüße"


def test_the_same_request_is_the_same_message() -> None:
    body = FIELDS | {"html": "<p>", "attachments": [{"filename": "a", "content": "YQ=="}]}

    assert taken(body, "k") == taken(body, "k")


def test_a_missing_message_id_follows_from_the_key() -> None:
    """Sent again with the same key it is the same mail, even later; with another key it is another."""
    first, later, other = taken(FIELDS, "k"), taken(FIELDS, "k", 99), taken(FIELDS, "l")

    assert first.message_id is not None
    assert first.message_id.endswith("@mail.example>")
    assert first.message_id == later.message_id != other.message_id


def test_without_a_key_it_follows_from_the_content() -> None:
    assert taken(FIELDS).message_id == taken(FIELDS).message_id
    assert taken(FIELDS).message_id != taken(FIELDS | {"text": "Other"}).message_id


def test_a_message_id_may_come_among_the_headers() -> None:
    assert taken(FIELDS | {"headers": {"message-id": "<h@x>"}}).message_id == "<h@x>"


def test_the_fingerprint_is_of_the_meaning_not_of_the_spaces() -> None:
    turned = json.dumps(dict(reversed(FIELDS.items())), indent=3).encode()
    canonical = json.dumps(FIELDS, sort_keys=True, separators=(",", ":")).encode()

    assert taken(turned).fingerprint == taken(FIELDS).fingerprint == hashlib.sha256(canonical).hexdigest()
    assert taken(FIELDS | {"subject": "X"}).fingerprint != taken(FIELDS).fingerprint


def without(field: str) -> dict[str, Any]:
    return {key: value for key, value in FIELDS.items() if key != field}


@pytest.mark.parametrize(
    ("data", "says", "reason"),
    [
        (b"", "the body is not JSON: Expecting value at line 1, column 1", Reason.INVALID),
        (b'{"a": }', "the body is not JSON: Expecting value at line 1, column 7", Reason.INVALID),
        (b"\xff{}", "the body is not UTF-8 at byte 0", Reason.INVALID),
        (b"[" * 100_000, "the body is JSON beyond what this service reads", Reason.INVALID),
        (b"1" * 10_000, "the body is JSON beyond what this service reads", Reason.INVALID),
        ([], "the body is a list; it must be a JSON object", Reason.INVALID),
        ("x", "the body is a text; it must be a JSON object", Reason.INVALID),
        (None, "the body is null; it must be a JSON object", Reason.INVALID),
        (without("from"), '"from" is missing', Reason.INVALID),
        (without("to"), '"to" is missing; give a list of addresses', Reason.INVALID),
        (without("text"), 'there is no content; give "text", "html" or both', Reason.INVALID),
        (FIELDS | {"subjet": "x"}, "the body has the unknown key 'subjet'; known are attachments,", Reason.INVALID),
        (FIELDS | {"from": 1}, '"from" is a number; it must be a text', Reason.INVALID),
        (FIELDS | {"from": "nobody"}, "\"from\" is 'nobody'; an address looks like", Reason.INVALID),
        (FIELDS | {"to": "bob@example.org"}, '"to" is a text; it must be a list of addresses', Reason.INVALID),
        (FIELDS | {"to": []}, '"to" is empty; give at least one address', Reason.NO_RECIPIENTS),
        (FIELDS | {"to": [1]}, '"to", address 1 is a number; it must be a text', Reason.INVALID),
        (FIELDS | {"to": ["a@x", "b"]}, "\"to\", address 2 is 'b'; an address looks like", Reason.NO_RECIPIENTS),
        (FIELDS | {"to": ["a@b@c"]}, "an address looks like", Reason.NO_RECIPIENTS),
        (FIELDS | {"to": ["a b@c"]}, "an address looks like", Reason.NO_RECIPIENTS),
        (FIELDS | {"to": ["@c"]}, "an address looks like", Reason.NO_RECIPIENTS),
        (FIELDS | {"to": ["<a@x> <b@x>"]}, "an address looks like", Reason.NO_RECIPIENTS),
        (FIELDS | {"to": [" " * 100_000]}, "an address looks like", Reason.NO_RECIPIENTS),
        (FIELDS | {"to": ["a@x\r\nBcc: e@x"]}, '"to", address 1 contains a line break or NUL', Reason.INVALID),
        (FIELDS | {"from": "A\nB <a@x>"}, '"from" contains a line break or NUL', Reason.INVALID),
        (FIELDS | {"subject": "a\r\nBcc: e@x"}, '"subject" contains a line break or NUL', Reason.INVALID),
        (FIELDS | {"subject": "\ud800"}, '"subject" contains half of a surrogate pair', Reason.INVALID),
        (FIELDS | {"headers": []}, None, None),
        (FIELDS | {"headers": [1]}, '"headers" is a list; it must be an object', Reason.INVALID),
        (FIELDS | {"headers": {"X A": "b"}}, "\"headers\": 'X A' is no header name", Reason.INVALID),
        (FIELDS | {"headers": {"X-A": "b\nBcc: e@x"}}, "the value of X-A contains a line break", Reason.INVALID),
        (FIELDS | {"headers": {"X-A": 1}}, "the value of X-A is a number; it must be a text", Reason.INVALID),
        (FIELDS | {"headers": {"Bcc": "e@x"}}, "Bcc has a field of its own", Reason.INVALID),
        (FIELDS | {"headers": {"Content-Type": "a/b"}}, "Content-Type has a field of its own", Reason.INVALID),
        (FIELDS | {"message_id": "mine"}, "\"message_id\" is 'mine'; it must look like", Reason.INVALID),
        (FIELDS | {"message_id": "<a@x>", "headers": {"Message-ID": "<b@x>"}}, "are both given", Reason.INVALID),
        (FIELDS | {"attachments": {}}, None, None),
        (FIELDS | {"attachments": "a"}, '"attachments" is a text; it must be a list', Reason.INVALID),
        (FIELDS | {"attachments": ["a"]}, "attachment 1 is a text; it must be an object", Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a"}]}, 'attachment 1 needs "filename" and "content"', Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a", "content": "*"}]}, 'attachment 1: "content" is not base64', Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a\n", "content": ""}]}, 'attachment 1: "filename" contains a line break', Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a", "content": "", "content_type": "x"}]}, "it must look like", Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a", "content": "", "content_type": "multipart/mixed"}]}, "it must look like", Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a", "content": "", "kind": "x"}]}, "attachment 1 has the unknown key 'kind'", Reason.INVALID),
        (RAW_BODY | {"subject": "x"}, "a body with \"raw\" has the unknown key 'subject'", Reason.INVALID),
        (RAW_BODY | {"raw": "***"}, '"raw" is not base64', Reason.INVALID),
        (RAW_BODY | {"raw": "ä"}, '"raw" is not base64', Reason.INVALID),
        (RAW_BODY | {"raw": ""}, '"raw" is empty', Reason.INVALID),
        (RAW_BODY | {"raw": 1}, '"raw" is a number; it must be a text', Reason.INVALID),
        ({"to": ["a@x"], "raw": "YQ=="}, '"from" is missing; give the envelope sender', Reason.INVALID),
        (RAW_BODY | {"to": ["x"]}, '"to", address 1', Reason.NO_RECIPIENTS),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_a_malformed_body_is_refused_in_one_sentence(
    data: object, says: str | None, reason: Reason | None
) -> None:
    found = take(data)

    if says is None:
        assert isinstance(found, Submission)
        return
    assert isinstance(found, Refused), found
    assert says in found.detail
    assert "\n" not in found.detail
    assert found.reason is reason


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from(["a@x", "A <a@x>", "YQ=="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*FIELDS, "cc", "html", "headers", "message_id", "attachments", "raw"]), JSON_VALUES
    )
)
def test_whatever_is_sent_is_read_or_refused(changes: dict[str, Any]) -> None:
    """No body leads to an exception, and what is read has the headers it says and no others."""
    found = take(FIELDS | changes)

    if isinstance(found, Submission) and "raw" not in changes:
        assert not header(found.headers, "Bcc")
        assert found.recipients


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


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (None, None),
        ("order-1", "order-1"),
        (" order-1 ", "order-1"),
        ('"order-1"', "order-1"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
    ],
)
def test_a_key_is_plain_or_quoted(value: str | None, key: str | None) -> None:
    assert read_key(value) == key


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "is empty"),
        ('""', "is empty"),
        ('"open', "begins with a double quote but is no quoted string"),
        (r'"a\n"', "begins with a double quote"),
        ("schlüssel", "1 to 255 printable ASCII characters"),
        ("x" * 256, "1 to 255 printable ASCII characters"),
    ],
    ids=lambda value: value[:10],
)
def test_a_key_that_is_none_is_refused(value: str, says: str) -> None:
    found = read_key(value)

    assert isinstance(found, Refused)
    assert found.reason is Reason.INVALID
    assert says in found.detail


# --- what goes out ----------------------------------------------------------------------------------

YES = Accepted(
    id="msg_1",
    message_id="<1@x>",
    recipients=("b@y",),
    refused=(RefusedRecipient(recipient="c@y", code=550, enhanced="5.1.1", text="no"),),
)
YES_BODY = {
    "id": "msg_1",
    "message_id": "<1@x>",
    "status": "accepted",
    "accepted": ["b@y"],
    "rejected": [{"recipient": "c@y", "code": 550, "enhanced": "5.1.1", "message": "no"}],
}


def test_a_yes_names_the_mail_and_who_was_refused() -> None:
    words = answer(YES, NOW)

    assert words.status == 200
    assert dict(words.headers) == {"Content-Type": "application/json"}
    assert json.loads(words.body) == YES_BODY


def test_a_replay_is_the_same_body_and_says_so() -> None:
    words = answer(Accepted(id="m", message_id=None, recipients=(), replayed=True), NOW)

    assert words.body == answer(Accepted(id="m", message_id=None, recipients=()), NOW).body
    assert dict(words.headers)["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("reason", Reason)
def test_a_refusal_is_a_problem_document(reason: Reason) -> None:
    words = answer(Refused(reason=reason, detail="why"), NOW)
    document = json.loads(words.body)

    assert dict(words.headers)["Content-Type"] == "application/problem+json"
    assert words.status == document["status"] == STATUS[reason]
    assert (document["code"], document["detail"], document["type"]) == (reason.value, "why", "about:blank")


def test_a_refusal_of_all_recipients_lists_them() -> None:
    words = answer(Refused(reason=Reason.NO_RECIPIENTS, detail="", refused=YES.refused), NOW)

    assert words.status == 422
    assert json.loads(words.body)["rejected"] == YES_BODY["rejected"]


@pytest.mark.parametrize(
    ("retry", "told"),
    [
        (RetryAfter(kind=RetryAfterKind.SECONDS, seconds=30), "30"),
        (RetryAfter(kind=RetryAfterKind.DATE, seconds=30), "Tue, 01 Jan 2030 00:00:30 GMT"),
        (RetryAfter(kind=RetryAfterKind.ZERO), "0"),
        (RetryAfter(kind=RetryAfterKind.GARBAGE), "soon, perhaps"),
        (None, None),
    ],
    ids=str,
)
def test_retry_after_is_a_header(retry: RetryAfter | None, told: str | None) -> None:
    for words in (
        answer(Reply(code=503, retry_after=retry), NOW),
        answer(Refused(reason=Reason.RATE_LIMITED, detail="", retry_after=retry), NOW),
    ):
        assert dict(words.headers).get("Retry-After") == told


@pytest.mark.parametrize(
    ("code", "name"), [(400, "invalid_request"), (404, "not_found"), (418, "error"), (429, "rate_limited"), (503, "unavailable"), (599, "unavailable")]
)  # fmt: skip
def test_a_rules_reply_is_a_problem_document(code: int, name: str) -> None:
    words = answer(Reply(code=code, text="because"), NOW)
    document = json.loads(words.body)

    assert (words.status, document["code"], document["detail"]) == (code, name, "because")
    assert document["title"]


def test_a_rules_yes_names_no_mail() -> None:
    """The provider took nothing, so there is no id; a sender that believes in status 200 alone is caught."""
    document = json.loads(answer(Reply(code=202), NOW).body)

    assert document == {"status": "accepted", "message": "Accepted"}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"error": 1}', "application/json; charset=utf-8"),
        ("<html>Bad gateway</html>", "text/html; charset=utf-8"),
        ("upstream error", "text/plain; charset=utf-8"),
        ("", "text/plain; charset=utf-8"),
    ],
)
def test_a_rules_body_goes_out_as_it_is(body: str, kind: str) -> None:
    words = answer(Reply(code=502, body=body), NOW)

    assert (words.status, words.body) == (502, body.encode())
    assert dict(words.headers)["Content-Type"] == kind


@pytest.mark.parametrize("code", [204, 304])
def test_a_status_without_content_has_none(code: int) -> None:
    assert answer(Reply(code=code, body="x"), NOW).body == b""


def test_an_error_of_the_servers_own_is_a_problem_too() -> None:
    words = problem(401, "unauthorized", "no key", [("WWW-Authenticate", "Bearer")])

    assert dict(words.headers)["WWW-Authenticate"] == "Bearer"
    assert json.loads(words.body)["title"] == "Unauthorized"


def test_a_garbled_body_is_no_json() -> None:
    words = garbled(202)

    assert words.status == 202
    with pytest.raises(ValueError, match="utf-8"):
        json.loads(words.body)


def test_a_part_of_a_body_is_no_json() -> None:
    body = answer(YES, NOW).body

    assert body.startswith(part_of(body))
    with pytest.raises(json.JSONDecodeError):
        json.loads(part_of(body))
    assert part_of(b"") == b""


def test_a_look_up_shows_what_was_accepted() -> None:
    shown = as_json(acceptance(7, ["a@x", "b@x"], refused=YES.refused))

    assert shown == {
        "id": "msg_7",
        "message_id": "<7@example.org>",
        "idempotency_key": "key-7",
        "status": "accepted",
        "to": ["a@x", "b@x"],
        "accepted": ["a@x", "b@x"],
        "rejected": YES_BODY["rejected"],
        "created_at": "2030-01-01T00:00:00+00:00",
    }
