"""The timeline: what happened, in order and in words, and what is to come."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from reference_sender.life import State
from reference_sender.outbox.accesses import Access
from reference_sender.outbox.histories import History, Told, Tried
from reference_sender.timeline import Kind, timeline
from tests.reference_sender.samples import NOW


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def tried(ended_s: float, **changes: Any) -> Tried:
    return replace(
        Tried(
            token=1,
            started_at=at(ended_s - 1),
            ended_at=at(ended_s),
            phase="sent",
            code=None,
            enhanced=None,
            trouble=None,
            answer=None,
            provider=None,
            provider_id=None,
            decision="pending",
            reason="because",
            late=False,
        ),
        **changes,
    )


HISTORY = History(
    id=1,
    key="order-1",
    idempotency_key="order-1.v1.aa",
    message_id="<aa@example.org>",
    sender="shop@example.org",
    recipient="ann@example.com",
    template=None,
    mail_class="confirmation",
    priority=0,
    traceparent=None,
    state=State.ACCEPTED,
    attempts=1,
    may_repeat=False,
    provider_id=None,
    last_error=None,
    created_at=NOW,
    queued_at=NOW,
    next_attempt_at=None,
    lease_until=None,
    expires_at=None,
    accepted_at=None,
    erased_at=None,
    content_hash=None,
    tried=(),
    told=(),
    accesses=(),
)


def said(**changes: Any) -> list[tuple[Kind, str]]:
    return [(m.kind, m.what) for m in timeline(replace(HISTORY, **changes), now=at(100))]


@pytest.mark.parametrize(
    ("record", "kind", "what"),
    [
        (tried(2, code=503), Kind.ATTEMPT, "attempt 1: 503 → pending"),
        (tried(2, code=450, enhanced="4.2.1"), Kind.ATTEMPT, "attempt 1: 450 4.2.1 → pending"),
        (
            tried(2, trouble="TimeoutError", decision="unknown"),
            Kind.ATTEMPT,
            "attempt 1: no answer, came as far as sent (TimeoutError) → unknown",
        ),
        (
            tried(2, phase="connect"),
            Kind.ATTEMPT,
            "attempt 1: no answer, came as far as connect → pending",
        ),
        (
            tried(2, code=202, decision="accepted", late=True),
            Kind.LATE,
            "a late result: 202 kept as evidence",
        ),
        (
            tried(2, phase=None, started_at=None, decision="sending", reason="lease ran out"),
            Kind.LOST,
            "worker lost → claimed again",
        ),
        (
            tried(2, phase=None, started_at=None, decision="unknown", reason="the worker was lost"),
            Kind.LOST,
            "worker lost → unknown",
        ),
        (tried(2, phase=None, decision="expired"), Kind.ATTEMPT, "not tried → expired"),
        (
            tried(2, phase=None, started_at=None, decision="pending", reason="person: requeued by hand"),
            Kind.PERSON,
            "a person → pending",
        ),
        (
            tried(2, phase=None, started_at=None, decision="accepted", reason="reconciler: it knows it"),
            Kind.RECONCILED,
            "reconciler → accepted",
        ),
    ],
)
def test_each_record_has_its_words(record: Tried, kind: Kind, what: str) -> None:
    assert said(tried=(record,)) == [(Kind.ENQUEUED, "enqueued"), (kind, what)]


def test_attempts_are_numbered_and_late_ones_are_not_counted() -> None:
    records = (tried(2, code=503), tried(3, code=202, late=True), tried(4, code=202, decision="accepted"))
    assert [what.partition(":")[0] for _, what in said(tried=records)] == [
        "enqueued",
        "attempt 1",
        "a late result",
        "attempt 2",
    ]


def test_looks_and_erasure_take_their_place_in_time() -> None:
    look = Access(at=at(3), operator="anna", action="trace", email_id=1, detail=None)
    moments = said(tried=(tried(2), tried(9)), accesses=(look,), erased_at=at(5), content_hash="aa")
    assert [kind for kind, _ in moments] == [
        Kind.ENQUEUED,
        Kind.ATTEMPT,
        Kind.READ,
        Kind.ERASED,
        Kind.ATTEMPT,
    ]


@pytest.mark.parametrize(
    ("changes", "ahead"),
    [
        (
            {"state": State.PENDING, "next_attempt_at": at(130), "expires_at": at(120)},
            ["expires, if it has not been sent by then", "next attempt"],
        ),
        ({"state": State.PENDING, "next_attempt_at": at(50)}, ["next attempt (since then it is due)"]),
        ({"state": State.SENDING, "lease_until": at(160)}, ["the lease of its worker ends"]),
        ({"state": State.UNKNOWN, "next_attempt_at": at(160)}, ["the reconciler looks again"]),
        ({"state": State.ACCEPTED, "next_attempt_at": at(160)}, []),
    ],
)
def test_what_is_to_come_depends_on_the_state(changes: dict[str, Any], ahead: list[str]) -> None:
    assert [what for kind, what in said(**changes) if kind is Kind.AHEAD] == ahead


def test_what_the_provider_told_takes_its_place() -> None:
    bounced = Told(kind="bounced", happened_at=at(5), detail="550 no such user")
    moments = timeline(replace(HISTORY, tried=(tried(2), tried(9)), told=(bounced,)), now=at(100))
    assert [(m.kind, m.because) for m in moments][2] == (Kind.EVENT, "550 no such user")


def test_the_enqueue_says_what_kind_of_mail_it_is() -> None:
    history = replace(HISTORY, priority=5, template="order", mail_class="notice", traceparent="00-aa")
    (moment,) = timeline(history, now=NOW)
    assert moment.because == "class notice, priority 5, template order"
    assert moment.facts["traceparent"] == "00-aa"
