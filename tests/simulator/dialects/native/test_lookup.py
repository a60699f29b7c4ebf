"""Look-ups are asked in one way and shown in one form."""

from __future__ import annotations

import json

import pytest

from simulator.dialects.native.lookup import as_json, found, read_query
from simulator.provider.answer import Reason, Refused, RefusedRecipient
from simulator.provider.lookup import Query
from tests.simulator.provider.mails import acceptance

NOBODY = RefusedRecipient(recipient="c@y", code=550, enhanced="5.1.1", text="no")


@pytest.mark.parametrize(
    ("parameters", "query"),
    [([("idempotency_key", "k")], Query(key="k")), ([("message_id", "<a@x>")], Query(message_id="<a@x>"))],
)
def test_one_thing_is_asked_for(parameters: list[tuple[str, str]], query: Query) -> None:
    assert read_query(parameters) == query


@pytest.mark.parametrize(
    "parameters",
    [[], [("key", "k")], [("idempotency_key", "k"), ("message_id", "m")], [("message_id", "m")] * 2],
)
def test_anything_else_is_refused(parameters: list[tuple[str, str]]) -> None:
    refused = read_query(parameters)

    assert isinstance(refused, Refused)
    assert refused.reason is Reason.INVALID
    assert refused.detail == "ask with either ?idempotency_key= or ?message_id="


def test_a_look_up_by_id_shows_the_mail_or_404() -> None:
    mail = acceptance(7)

    assert json.loads(found(Query(id="msg_7"), [mail]).body or "") == as_json(mail)
    assert found(Query(id="msg_7"), []).code == 404


def test_any_other_shows_a_list() -> None:
    assert json.loads(found(Query(key="k"), [acceptance(7)]).body or "") == {"data": [as_json(acceptance(7))]}
    assert found(Query(key="k"), []).body == '{"data":[]}'


def test_a_look_up_shows_what_was_accepted() -> None:
    shown = as_json(acceptance(7, ["a@x", "b@x"], refused=(NOBODY,)))

    assert shown == {
        "id": "msg_7",
        "message_id": "<7@example.org>",
        "idempotency_key": "key-7",
        "status": "accepted",
        "to": ["a@x", "b@x"],
        "accepted": ["a@x", "b@x"],
        "rejected": [{"recipient": "c@y", "code": 550, "enhanced": "5.1.1", "message": "no"}],
        "created_at": "2030-01-01T00:00:00+00:00",
    }
