"""Answers become status, headers and JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.dialects.http import whole
from simulator.dialects.native.answers import STATUS, Style, answer, garbled, problem, whole_yes
from simulator.provider.answer import (
    Accepted,
    Reason,
    Refused,
    RefusedRecipient,
    Reply,
    RetryAfter,
    RetryAfterKind,
)
from tests.simulator.provider.mails import NOW

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


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("words", [YES, dataclasses.replace(YES, refused=(), shows_id=False)])
def test_a_yes_written_at_once_is_the_same_yes(words: Accepted, closes: bool) -> None:
    fields = [b"date: Tue, 01 Jan 2030 00:00:00 GMT"]

    assert whole_yes(words, fields, closes=closes) == whole(answer(words, NOW), fields, closes=closes)


def test_a_yes_names_the_mail_and_who_was_refused() -> None:
    words = answer(YES, NOW)

    assert words.status == 200
    assert dict(words.headers) == {"Content-Type": "application/json"}
    assert json.loads(words.body) == YES_BODY


def test_a_replay_is_the_same_body_and_says_so() -> None:
    words = answer(Accepted(id="m", message_id=None, recipients=(), replayed=True), NOW)

    assert words.body == answer(Accepted(id="m", message_id=None, recipients=()), NOW).body
    assert dict(words.headers)["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("words", [YES, Refused(reason=Reason.KEY_DONE, detail=""), Reply(code=503)], ids=str)
def test_a_replay_is_marked_as_the_account_wants_it(
    words: Accepted | Refused | Reply,
) -> None:
    again = dataclasses.replace(words, replayed=True)

    assert ("X-Again", "true") in answer(again, NOW, Style(replay_header="X-Again")).headers
    assert answer(again, NOW, Style(replay_header="")).headers == answer(words, NOW).headers


def test_a_success_may_keep_its_id_to_itself() -> None:
    document = json.loads(answer(dataclasses.replace(YES, shows_id=False), NOW).body)

    assert document == {key: value for key, value in YES_BODY.items() if key not in ("id", "message_id")}


def test_a_setting_may_choose_another_status_for_a_reason() -> None:
    words = answer(Refused(reason=Reason.KEY_REUSED, detail="", code=409), NOW)

    assert words.status == json.loads(words.body)["status"] == 409
    assert json.loads(words.body)["code"] == "key_reused"


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
        ('{"error": 1}', "application/json"),
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


@settings(deadline=None)
@given(text=st.text(st.characters(codec=None, exclude_categories=[])))
def test_documents_are_written_as_json_writes_them(text: str) -> None:
    """Byte for byte, whoever writes them, halves of surrogate pairs too."""
    out = problem(400, "invalid_request", text)
    known = json.loads(out.body)
    known["detail"] = text
    assert out.body == json.dumps(known, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
