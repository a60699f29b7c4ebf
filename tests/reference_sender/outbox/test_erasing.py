"""Erasing: afterwards the address and the words are nowhere in the database, and the proof still is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from reference_sender.life import State
from reference_sender.message import Mail
from reference_sender.outbox.purging import hash_of
from reference_sender.outbox.schema import (
    delivery_fact,
    email_attachment,
    email_attachment_use,
    email_attempt,
    metadata,
    outgoing_email,
    suppression,
    webhook_event,
)
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.retention import erase
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW

ANN = "ann@example.com"
SECRETS = (b"ann@", b"Dear Ann", b"a-parameter")


def mail(to: str = ANN) -> Mail:
    return Mail(
        sender="shop@example.org",
        recipients=(to,),
        subject="Dear Ann",
        text="Dear Ann",
    )


@pytest.fixture(autouse=True)
def _clean(outbox: SqlBench) -> None:
    with outbox.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table.name != "outbox_schema":
                connection.execute(delete(table))


def put(outbox: SqlBench, key: str, to: str = ANN, *, now: datetime = NOW, **more: Any) -> int:
    with outbox.begin() as connection:
        made = outbox.enqueue(
            connection,
            mail(to),
            key=key,
            now=now,
            template="order",
            parameters={"name": "a-parameter"},
            **more,
        )
    return made.ids[0]


def send(store: Store, state: State = State.ACCEPTED, **more: Any) -> None:
    (parcel,) = store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
    evidence = Evidence(wire=Wire.SMTP, phase=Phase.SENT, code=250, answer=f"2.1.5 <{ANN}> accepted")
    decision = Decision(state=state, reason="because", **more)
    assert store.settle(parcel, decision, now=NOW, evidence=evidence, started_at=NOW)


def told(outbox: SqlBench, email_id: int) -> None:
    """What the provider told afterwards, and the list that it led to."""
    with outbox.begin() as connection:
        for event_id, raw, of_mail, settled in (
            ("e1", f'{{"to": "{ANN.upper()}"}}'.encode(), None, NOW),
            ("e2", b'{"id": "m1"}', email_id, NOW),
            ("e3", b'{"to": "bob@example.com"}', None, NOW),
        ):
            connection.execute(
                insert(webhook_event).values(
                    source="webhook",
                    event_id=event_id,
                    raw=raw,
                    received_at=NOW,
                    state="applied",
                    looks=1,
                    email_id=of_mail,
                    settled_at=settled,
                )
            )
        connection.execute(
            insert(delivery_fact).values(
                email_id=email_id,
                kind="bounced",
                happened_at=NOW,
                detail=f"550 <{ANN}> unknown",
                recorded_at=NOW,
            )
        )
        for address in (ANN, "bob@example.com"):
            connection.execute(
                insert(suppression).values(
                    address=address, kind="all", reason="bounced", source="e1", since=NOW
                )
            )


def everything(outbox: SqlBench) -> bytes:
    """All that is in all tables."""
    pieces = []
    with outbox.begin() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)):
                for value in row:
                    pieces.append(
                        bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
                    )
    return b"\n".join(pieces)


def test_afterwards_the_person_is_nowhere_and_the_proof_is_there(outbox: SqlBench, store: Store) -> None:
    number = put(outbox, "order-1")
    send(store, provider_id="m1")
    told(outbox, number)
    before = outbox.row(number)
    assert all(secret.lower() in everything(outbox).lower() for secret in SECRETS[:2])
    done = erase(store, ANN, now=NOW + timedelta(days=1), keep_suppression=False)
    assert (done.mails, done.events, done.suppressions, done.open) == (1, 2, 1, ())
    left = everything(outbox).lower()
    assert [secret for secret in SECRETS if secret.lower() in left] == []
    row = outbox.row(number)
    assert (row.dedupe_key, row.message_id, row.provider_id, row.state, row.accepted_at) == (
        "order-1",
        before.message_id,
        "m1",
        State.ACCEPTED,
        before.accepted_at,
    )
    assert (row.erased_at, row.content_hash) == (NOW + timedelta(days=1), hash_of(before.raw))
    assert b"bob@example.com" in left, "others are not touched"
    assert erase(store, ANN, now=NOW, keep_suppression=False).mails == 0


def test_content_that_somebody_else_got_too_stays_for_him(outbox: SqlBench, store: Store) -> None:
    first = put(outbox, "order-1")
    send(store, provider_id="m1")
    second = put(outbox, "order-2", "bob@example.com")
    with outbox.begin() as connection:
        for digest, mails in (("ours", (first, second)), ("hers", (first,))):
            connection.execute(
                insert(email_attachment).values(digest=digest, content=b"Dear Ann", octets=8, used_at=NOW)
            )
            for number in mails:
                connection.execute(insert(email_attachment_use).values(email_id=number, digest=digest))
    erase(store, ANN, now=NOW, keep_suppression=False)
    with outbox.begin() as connection:
        assert connection.execute(select(email_attachment.c.digest)).scalars().all() == ["ours"]
        connection.execute(
            update(outgoing_email)
            .where(outgoing_email.c.dedupe_key == "order-2")
            .values(state=State.ACCEPTED)
        )
    erase(store, "bob@example.com", now=NOW, keep_suppression=False)
    with outbox.begin() as connection:
        assert connection.execute(select(email_attachment.c.digest)).all() == []


def test_what_waits_is_withheld_and_never_sent(outbox: SqlBench, store: Store) -> None:
    number = put(outbox, "order-1")
    done = erase(store, ANN, now=NOW, keep_suppression=True)
    assert (done.mails, done.withheld, done.open) == (1, 1, ())
    assert outbox.row(number).state is State.SUPPRESSED
    assert store.claim(now=NOW + timedelta(days=1), limit=1, lease_s=60, dedupes=True) == []
    assert [attempt.reason for attempt in outbox.attempts()] == [
        "person: withheld: the recipient is being erased"
    ]


def test_what_is_under_way_or_in_doubt_is_left_whole_and_told(outbox: SqlBench, store: Store) -> None:
    unknown = put(outbox, "order-1")
    send(store, State.UNKNOWN, next_attempt_at=NOW + timedelta(days=1))
    sending = put(outbox, "order-2")
    store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
    before = [outbox.row(unknown), outbox.row(sending)]
    done = erase(store, ANN, now=NOW, keep_suppression=False)
    assert (done.mails, done.open) == (0, (unknown, sending))
    assert [outbox.row(unknown), outbox.row(sending)] == before


def test_names_that_were_made_from_the_address_lose_it(outbox: SqlBench, store: Store) -> None:
    number = put(outbox, f"welcome-{ANN}", ordering_key=f"user-{ANN}", slot=f"login {ANN}")
    send(store, provider_id="m1")
    erase(store, ANN, now=NOW, keep_suppression=False)
    row = outbox.row(number)
    assert row.dedupe_key.startswith("erased-")
    assert len({row.dedupe_key, row.idempotency_key, row.ordering_key, row.slot}) == 4
    assert b"ann" not in everything(outbox).lower()
    assert erase(store, ANN, now=NOW, keep_suppression=False).mails == 0


def test_capital_letters_are_the_same_person(outbox: SqlBench, store: Store) -> None:
    put(outbox, "order-1", "Ann@Example.COM")
    send(store, provider_id="m1")
    assert erase(store, ANN, now=NOW, keep_suppression=False).mails == 1


def test_an_attempt_of_somebody_else_keeps_its_answer(outbox: SqlBench, store: Store) -> None:
    put(outbox, "order-2", "bob@example.com")
    send(store, provider_id="m2")
    put(outbox, "order-1")
    send(store, provider_id="m1")
    erase(store, ANN, now=NOW, keep_suppression=False)
    with outbox.begin() as connection:
        answers = list(
            connection.execute(select(email_attempt.c.answer).order_by(email_attempt.c.id)).scalars()
        )
    assert [answer is None for answer in answers] == [False, True]
