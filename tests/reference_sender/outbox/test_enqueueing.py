"""Enqueueing, as far as only SQL can ask; what it promises is in the contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

from reference_sender.outbox.store import Store, enqueue
from tests.reference_sender.samples import MAIL, NOW


def test_each_recipient_gets_a_row_of_its_own_from_one_insert(store: Store) -> None:
    statements: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement.split()[0])

    mail = replace(MAIL, recipients=("ann@example.com", "Bob <bob@example.com>", "ann@EXAMPLE.com"))
    with store.engine.begin() as connection:
        done = enqueue(connection, mail, key="order-1", now=NOW)
    assert (statements.count("INSERT"), statements.count("SELECT")) == (1, 2)
    assert len(set(done.idempotency_keys)) == len(set(done.message_ids)) == len(set(done.ids)) == 2


def test_an_orm_session_will_do(store: Store) -> None:
    with Session(store.engine) as session, session.begin():
        assert enqueue(session, MAIL, key="order-1", now=NOW).created
    with Session(store.engine) as session:
        enqueue(session, MAIL, key="order-2", now=NOW)
        session.rollback()
    assert [s.key for s in store.standings()] == ["order-1"]


def test_the_same_event_under_another_spelling_of_the_domain_is_another_mail_and_says_so(
    store: Store,
) -> None:
    with store.engine.begin() as connection:
        enqueue(connection, replace(MAIL, recipients=("ann@EXAMPLE.com",)), key="order-1", now=NOW)
        done = enqueue(connection, MAIL, key="order-1", now=NOW)
    assert (done.created, done.differs) == (False, True)
