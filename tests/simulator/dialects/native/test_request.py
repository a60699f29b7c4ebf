"""Bodies become submissions, or one sentence."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.provider.answer import Reason, Refused
from simulator.provider.message import Submission, header
from tests.simulator.dialects.native.bodies import FIELDS, RAW, RAW_BODY, take, taken


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
        (FIELDS | {"headers": None, "cc": None, "bcc": None, "attachments": None}, None, None),
        (FIELDS | {"headers": []}, '"headers" is a list; it must be an object', Reason.INVALID),
        (FIELDS | {"headers": [1]}, '"headers" is a list; it must be an object', Reason.INVALID),
        (FIELDS | {"headers": {"X A": "b"}}, "\"headers\": 'X A' is no header name", Reason.INVALID),
        (FIELDS | {"headers": {"X-A": "b\nBcc: e@x"}}, "the value of X-A contains a line break", Reason.INVALID),
        (FIELDS | {"headers": {"X-A": 1}}, "the value of X-A is a number; it must be a text", Reason.INVALID),
        (FIELDS | {"headers": {"X-A": "\udce4"}}, "the value of X-A contains half of a surrogate", Reason.INVALID),
        (FIELDS | {"headers": {"Bcc": "e@x"}}, "Bcc has a field of its own", Reason.INVALID),
        (FIELDS | {"headers": {"Content-Type": "a/b"}}, "Content-Type has a field of its own", Reason.INVALID),
        (FIELDS | {"message_id": "mine"}, "\"message_id\" is 'mine'; it must look like", Reason.INVALID),
        (FIELDS | {"message_id": "<a@x>", "headers": {"Message-ID": "<b@x>"}}, "are both given", Reason.INVALID),
        (FIELDS | {"attachments": {}}, '"attachments" is an object; it must be a list', Reason.INVALID),
        (FIELDS | {"attachments": "a"}, '"attachments" is a text; it must be a list', Reason.INVALID),
        (FIELDS | {"attachments": ["a"]}, "attachment 1 is a text; it must be an object", Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a"}]}, 'attachment 1 needs "filename" and "content"', Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a", "content": "*"}]}, 'attachment 1: "content" is not base64', Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a\n", "content": ""}]}, 'attachment 1: "filename" contains a line break', Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a", "content": "", "content_type": "x"}]}, "it must look like", Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a", "content": "", "content_type": "multipart/mixed"}]}, "it must look like", Reason.INVALID),
        (FIELDS | {"attachments": [{"filename": "a", "content": "", "kind": "x"}]}, "attachment 1 has the unknown key 'kind'", Reason.INVALID),
        (FIELDS | {"message_id": f"<a@{'x' * 998}>"}, "it must look like", Reason.INVALID),
        (FIELDS | {"subject": "x" * 262_145}, "subject, names and headers have 262149 characters; 262144 are possible", Reason.TOO_LARGE),
        (FIELDS | {"headers": {"X-A": "x" * 262_144}}, "subject, names and headers have", Reason.TOO_LARGE),
        (FIELDS | {"from": "x" * 262_145 + " <a@x.example>"}, "subject, names and headers have", Reason.TOO_LARGE),
        (FIELDS | {"attachments": [{"filename": "a" * 65_537, "content": ""}]}, "file names and Content-IDs have 65537", Reason.TOO_LARGE),
        (FIELDS | {"attachments": [{"filename": "a", "content": ""}] * 1_001}, "there are 1001 attachments; 1000 are", Reason.TOO_LARGE),
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
