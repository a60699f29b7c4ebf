"""Histories: every name of a mail leads to it, with its attempts and without its words."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import create_engine, or_, select, text

from reference_sender.life import State
from reference_sender.outbox.histories import _COLUMNS
from reference_sender.outbox.schema import metadata, outgoing_email
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision
from reference_sender.policy.evidence import Evidence, Phase, Wire
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import MAIL, NOW


def test_every_name_leads_to_the_mail_and_its_attempts(outbox: SqlBench, store: Store) -> None:
    with outbox.begin() as connection:
        done = outbox.enqueue(connection, MAIL, key="order-1", now=NOW)
        outbox.enqueue(connection, MAIL, key="order-2", now=NOW + timedelta(hours=1))
    (parcel,) = store.claim(now=NOW, limit=5, lease_s=60, dedupes=True)
    evidence = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=202, answer="ok")
    decision = Decision(state=State.ACCEPTED, reason="accepted", provider_id="m1")
    assert store.settle(parcel, decision, now=NOW, evidence=evidence, started_at=NOW)
    store.note_access("anna", "trace", now=NOW, email_ids=[parcel.id])
    names = ["order-1", "m1", f"#{parcel.id}", *done.message_ids, *done.idempotency_keys]
    for word in [*names, done.message_ids[0].strip("<>")]:
        (found,) = store.histories(word)
        assert (found.id, found.state, found.recipient) == (parcel.id, State.ACCEPTED, "ann@example.com")
        assert [(t.phase, t.code, t.decision) for t in found.tried] == [("sent", 202, "accepted")]
        assert [a.operator for a in found.accesses] == ["anna"]


@pytest.mark.parametrize("word", ["order-9", "", "#", "99999999999999999999", "%", "' OR 1=1 --"])
def test_what_nobody_is_called_finds_nothing(outbox: SqlBench, store: Store, word: str) -> None:
    with outbox.begin() as connection:
        outbox.enqueue(connection, MAIL, key="order-1", now=NOW)
    assert store.histories(word) == []


def test_each_name_has_its_index() -> None:
    """The plan of SQLite tells it."""
    engine = create_engine("sqlite://")
    row = outgoing_email.c
    query = select(row.id).where(
        or_(row.dedupe_key == "a", row.idempotency_key == "a", row.provider_id == "a", row.message_id == "a")
    )
    with engine.begin() as connection:
        metadata.create_all(connection)
        said = str(query.compile(engine, compile_kwargs={"literal_binds": True}))
        plan = [row.detail for row in connection.execute(text(f"EXPLAIN QUERY PLAN {said}"))]
    engine.dispose()
    assert not [step for step in plan if step.startswith("SCAN")]


def test_the_words_of_a_mail_are_not_even_read() -> None:
    assert not {"raw", "parameters"} & {column.name for column in _COLUMNS}
