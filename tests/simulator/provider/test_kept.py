"""What a key remembers is the same after it was written down and read again."""

from __future__ import annotations

import dataclasses

import pytest

from simulator.provider.answer import (
    Accepted,
    Reason,
    Refused,
    RefusedRecipient,
    Reply,
    Results,
    RetryAfter,
    RetryAfterKind,
    Words,
)
from simulator.provider.idempotency import Kept
from simulator.provider.kept import read, written
from tests.simulator.provider.mails import NOW

NOBODY = RefusedRecipient(recipient="ä@x", code=550, enhanced="5.1.1", text="nobody")
YES = Accepted(id="msg_1", message_id="<1@x>", recipients=("a@x", "b@x"), refused=(NOBODY,))
NO = Refused(
    reason=Reason.NO_RECIPIENTS,
    detail="nobody",
    refused=(NOBODY,),
    retry_after=RetryAfter(kind=RetryAfterKind.DATE, seconds=1.5),
    smtp=(451, "4.7.0"),
    code=409,
    index=1,
)
SAID = Reply(
    code=503,
    enhanced="4.0.0",
    text="later",
    body="<html>",
    headers=(("Location", "/elsewhere"),),
    retry_after=RetryAfter(kind=RetryAfterKind.ZERO),
)


@pytest.mark.parametrize(
    "words",
    [None, YES, NO, SAID, Reply(code=500), Results(items=(YES, NO, SAID)), Results(items=())],
    ids=str,
)
def test_it_is_the_same_again(words: Words | None) -> None:
    kept = Kept(fingerprint="f", at=NOW, attempt="att_1", words=words, failed=words is NO)

    assert read(written("käy", kept), "att_1") == ("käy", kept)


@pytest.mark.parametrize("words", [YES, NO, SAID])
def test_each_kind_of_words_is_tried_with_each_of_its_fields(words: Accepted | Refused | Reply) -> None:
    """A field that is added later must not be lost in silence: it has a value here that is not its usual one."""
    usual = {field.name for field in dataclasses.fields(words) if getattr(words, field.name) == field.default}

    assert usual <= {"replayed", "shows_id"}  # Decided when it is said again.
