"""Enqueueing, as far as only SQL can ask; what it promises is in the contract."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session

from reference_sender.clock import SystemClock
from reference_sender.message import InvalidMail
from reference_sender.outbox.store import Store, enqueue
from tests.reference_sender.outbox.benches import SqlBench
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


@pytest.mark.parametrize("what", ["now", "expires_at", "not_before"])
def test_a_time_without_a_zone_is_refused_with_one_sentence(store: Store, what: str) -> None:
    """Nobody could say which moment it is, and an hour of each year comes twice."""
    naive: dict[str, Any] = {"now": NOW} | {what: NOW.replace(tzinfo=None)}
    with store.engine.begin() as connection, pytest.raises(InvalidMail, match=f"^{what} .* has no time zone"):
        enqueue(connection, MAIL, key="order-1", **naive)


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


def test_mail_is_due_by_the_clock_of_the_database(
    outbox: SqlBench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application's host may be minutes ahead of it; nobody should wait for that."""
    if store.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no clock of its own")
    ahead = SystemClock().now() + timedelta(minutes=10)
    monkeypatch.setattr(SystemClock, "now", lambda _: ahead)
    with store.engine.begin() as connection:
        (row_id,) = enqueue(connection, MAIL, key="order-1").ids
    due = outbox.row(row_id).next_attempt_at
    assert abs((due - store.time()).total_seconds()) < 60.0
    assert [p.id for p in store.claim(now=store.time(), limit=1, lease_s=60, dedupes=True)] == [row_id]


@pytest.mark.parametrize("minutes", [-60, 60])
@pytest.mark.parametrize("waits", [False, True])
def test_a_code_lives_as_long_as_its_class_has_it_whatever_the_clock_of_the_application_says(
    outbox: SqlBench, store: Store, monkeypatch: pytest.MonkeyPatch, minutes: int, waits: bool
) -> None:
    """Ten minutes behind, and it would be over before anybody could send it."""
    if store.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no clock of its own")
    wrong = SystemClock().now() + timedelta(minutes=minutes)
    monkeypatch.setattr(SystemClock, "now", lambda _: wrong)
    more = {"depends_on": "order-0"} if waits else {}
    with store.engine.begin() as connection:
        (row_id,) = enqueue(connection, MAIL, key="order-1", mail_class="code", **more).ids  # type: ignore[arg-type] # one of many
    row, now = outbox.row(row_id), store.time()
    assert abs((row.queued_at - now).total_seconds()) < 60.0
    assert abs((row.expires_at - now).total_seconds() - 600.0) < 60.0
    if waits:
        assert abs((row.hold_until - row.expires_at).total_seconds()) < 1.0


def test_a_late_commit_with_a_lower_number_is_sent(outbox: SqlBench, store: Store) -> None:
    """Numbers are given out before commits: nobody may look only above the last one he saw."""
    if store.engine.dialect.name == "sqlite":
        pytest.skip("SQLite lets one write at a time")
    # Keys that no test before has deleted: InnoDB locks the gaps beside a deleted one until it is purged.
    with store.engine.connect() as slow:
        early = enqueue(slow, MAIL, key="committed-late", now=NOW).ids[0]
        late = outbox.put("committed-early")[0]
        assert [p.id for p in outbox.claim()] == [late]
        slow.commit()
    assert early < late
    assert [p.id for p in outbox.claim()] == [early]
