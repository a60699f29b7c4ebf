"""A batch is an array of mails: each is read on its own, and the array as a whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.dialects.native.batch import Batch, read_batch
from simulator.provider.answer import Reason, Refused
from simulator.provider.message import Submission
from tests.simulator.dialects.native.bodies import FIELDS
from tests.simulator.provider.mails import NOW


def take(data: object, *, key: str | None = None, max_mails: int = 3) -> Batch | Refused:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return read_batch(body, key=key, max_mails=max_mails, now=NOW, host="mail.example")


def mails(*data: dict[str, Any], key: str | None = None) -> tuple[Submission | Refused, ...]:
    batch = take(list(data), key=key)
    assert isinstance(batch, Batch)
    return batch.mails


def test_each_mail_is_read_in_its_order() -> None:
    first, second = mails(FIELDS, FIELDS | {"to": ["ann@example.org"]})

    assert isinstance(first, Submission)
    assert isinstance(second, Submission)
    assert (first.recipients, second.recipients) == (("bob@example.org",), ("ann@example.org",))


def test_a_mail_that_is_wrong_is_wrong_alone() -> None:
    good, bad, none = mails(FIELDS, FIELDS | {"to": ["x"]}, 7)  # type: ignore[arg-type]

    assert isinstance(good, Submission)
    assert isinstance(bad, Refused)
    assert isinstance(none, Refused)
    assert (bad.reason, bad.index) == (Reason.NO_RECIPIENTS, 1)
    assert (none.detail, none.index) == ("the mail is a number; it must be a JSON object", 2)


def test_a_mail_may_have_a_key_of_its_own() -> None:
    own, none = mails(FIELDS | {"idempotency_key": "k1"}, FIELDS, key="batch")

    assert isinstance(own, Submission)
    assert isinstance(none, Submission)
    assert (own.key, none.key) == ("k1", None)


def test_mails_that_are_alike_are_two_mails() -> None:
    """With a key of the batch each place has its own Message-ID, and the same one when it is sent again."""
    one, two = mails(FIELDS, FIELDS, key="batch")
    again, _ = mails(FIELDS, FIELDS, key="batch")

    assert isinstance(one, Submission)
    assert isinstance(two, Submission)
    assert isinstance(again, Submission)
    assert one.message_id != two.message_id
    assert one.message_id == again.message_id


def test_the_fingerprint_is_of_the_whole() -> None:
    same, turned = take([FIELDS, {}]), take([{}, FIELDS])

    assert isinstance(same, Batch)
    assert isinstance(turned, Batch)
    assert same.fingerprint != turned.fingerprint


@pytest.mark.parametrize(
    ("data", "says", "reason"),
    [
        ({}, "the body is an object; it must be a JSON array of mails", Reason.INVALID),
        ([], "the array is empty; give at least one mail", Reason.INVALID),
        ([FIELDS] * 4, "the array has 4 mails, 3 are allowed", Reason.TOO_MANY_MAILS),
        (b"[", "the body is not JSON", Reason.INVALID),
        (b'[{"a": 1, "a": 2}]', "the body has the member 'a' twice", Reason.INVALID),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_batch_is_refused_whole(data: object, says: str, reason: Reason) -> None:
    refused = take(data)

    assert isinstance(refused, Refused)
    assert says in refused.detail
    assert (refused.reason, refused.index) == (reason, None)
