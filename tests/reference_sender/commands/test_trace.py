"""`trace`: from any name that stands in a log to the whole life of the mail, and the look is logged first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text

from reference_sender.life import State
from reference_sender.message import idempotency_key_for
from tests.reference_sender.commands.outboxes import Outbox


@pytest.fixture
def traced(outbox: Outbox) -> Outbox:
    """A mail that met a busy service, then got through."""
    outbox.put("order-1", age_s=60)
    outbox.end(
        outbox.claim(age_s=59),
        State.PENDING,
        age_s=58,
        code=503,
        reason="busy",
        next_attempt_at=outbox.clock.now(),
        answer='{"error": "later"}',
    )
    outbox.end(outbox.claim(), State.ACCEPTED, code=202, reason="accepted", provider_id="msg_1")
    outbox.put("order-2", age_s=5)
    return outbox


def told(outbox: Outbox, word: str) -> list[dict[str, Any]]:
    done = outbox.call("trace", word, "--json")
    assert done.exit_code == 0, done.output
    mails: list[dict[str, Any]] = json.loads(done.stdout)["mails"]
    return mails


def test_every_name_of_a_mail_leads_to_it(traced: Outbox) -> None:
    (mail,) = told(traced, "order-1")
    words = ["msg_1", mail["message_id"], mail["message_id"].strip("<>"), "#1", "1"]
    words.append(idempotency_key_for("order-1", "ann@example.com"))
    for word in words:
        assert [found["id"] for found in told(traced, word)] == [1], word


def test_a_person_sees_the_life_of_the_mail_in_order(traced: Outbox) -> None:
    lines = traced.call("trace", "order-1").stdout.splitlines()
    assert lines[0].split() == ["order-1", "#1", "accepted"]
    for words in ("enqueued", "attempt 1: 503 → pending  busy", "attempt 2: 202 → accepted"):
        while words not in lines[0]:
            lines.pop(0)
    assert "later" not in "".join(lines)


def test_answers_are_shown_on_demand(traced: Outbox) -> None:
    assert '{"error": "later"}' in traced.call("trace", "order-1", "--answers").stdout


def test_programs_get_facts_and_moments(traced: Outbox) -> None:
    (mail,) = told(traced, "order-1")
    assert (mail["key"], mail["state"], mail["provider_id"]) == ("order-1", "accepted", "msg_1")
    kinds = [(moment["kind"], moment.get("code")) for moment in mail["timeline"]]
    assert kinds == [("enqueued", None), ("attempt", 503), ("attempt", 202)]


def test_a_look_is_seen_by_the_next_one(traced: Outbox) -> None:
    told(traced, "order-1")
    done = traced.call("trace", "order-1", OUTBOX_OPERATOR="bob")
    assert "anna: trace" in done.stdout
    assert "bob" not in done.stdout, "it shows what was before"
    assert [a.operator for a in traced.store.accesses(email_ids=[1])] == ["bob", "anna"]


def test_what_cannot_be_logged_cannot_be_seen(traced: Outbox) -> None:
    with traced.store.engine.begin() as connection:
        connection.execute(
            text(
                "CREATE TRIGGER full BEFORE INSERT ON operator_access BEGIN SELECT RAISE(ABORT, 'full'); END"
            )
        )
    done = traced.call("trace", "order-1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "the database cannot be used: full" in done.stderr


def test_a_name_that_nobody_has_is_one_sentence(traced: Outbox) -> None:
    done = traced.call("trace", "order-77")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("reference-sender: no mail is called 'order-77'; give an event key")
    assert traced.store.accesses() == []


def test_words_of_the_mail_are_not_shown(traced: Outbox) -> None:
    assert "Thank you" not in traced.call("trace", "order-1", "--answers").stdout
    assert "Thank you" not in json.dumps(told(traced, "order-1"))
