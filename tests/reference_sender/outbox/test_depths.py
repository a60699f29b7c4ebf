"""Depths: how many mails are in each queue and how old the oldest is; finished ones are not even looked at."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import create_engine, delete, insert, update

from reference_sender.life import State
from reference_sender.outbox.depths import _DEPTHS, DEEP, EventDepth
from reference_sender.outbox.schema import metadata, outgoing_email, webhook_event
from reference_sender.outbox.store import Store, rows_of
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import MAIL, NOW


def put(
    outbox: SqlBench,
    key: str,
    state: State,
    *,
    age_s: float = 0,
    due_in_s: float | None = 0,
    mail_class: str = "confirmation",
) -> None:
    born = NOW - timedelta(seconds=age_s)
    (row,) = rows_of(MAIL, key=key, now=born)
    row |= {"state": state, "next_attempt_at": None, "mail_class": mail_class}
    if due_in_s is not None:
        row["next_attempt_at"] = NOW + timedelta(seconds=due_in_s)
    with outbox.begin() as connection:
        connection.execute(insert(outgoing_email).values(row))


def test_an_empty_outbox_has_no_queues(store: Store) -> None:
    assert store.depths(now=NOW) == []


def test_each_state_that_wants_somebody_is_counted(outbox: SqlBench, store: Store) -> None:
    put(outbox, "waits", State.PENDING, age_s=50, due_in_s=-20)
    put(outbox, "later", State.PENDING, age_s=10, due_in_s=300)
    put(outbox, "under-way", State.SENDING, age_s=5, due_in_s=None)
    put(outbox, "dead", State.DEAD, age_s=900, due_in_s=None)
    put(outbox, "done", State.ACCEPTED, age_s=900, due_in_s=None)
    put(outbox, "login", State.PENDING, age_s=3, mail_class="code")
    found = [(d.state, d.mail_class, d.count, d.oldest_s, d.overdue_s) for d in store.depths(now=NOW)]
    assert found == [
        (State.PENDING, "code", 1, 3.0, 0.0),
        (State.PENDING, "confirmation", 2, 50.0, 20.0),
        (State.SENDING, "confirmation", 1, 5.0, 0.0),
        (State.DEAD, "confirmation", 1, 900.0, 0.0),
    ]


def test_what_mails_say_of_why_they_are_in_a_state_is_counted(outbox: SqlBench, store: Store) -> None:
    for key, why in (("a", "too old"), ("b", "spent"), ("c", "too old"), ("d", None)):
        put(outbox, key, State.DEAD, due_in_s=None)
        with outbox.begin() as connection:
            connection.execute(
                update(outgoing_email).where(outgoing_email.c.dedupe_key == key).values(last_error=why)
            )
    put(outbox, "waits", State.PENDING)
    assert store.sentences(State.DEAD) == {"too old": 2, "spent": 1, None: 1}


def test_the_last_that_came_into_a_state_is_told(outbox: SqlBench, store: Store) -> None:
    """However long each was in the outbox before."""
    put(outbox, "old", State.FAILED, age_s=900, due_in_s=None)
    put(outbox, "new", State.FAILED, age_s=60, due_in_s=None)
    with outbox.begin() as connection:
        connection.execute(
            outgoing_email.update()
            .where(outgoing_email.c.dedupe_key == "old")
            .values(updated_at=NOW - timedelta(seconds=20))
        )
    (depth,) = store.depths(now=NOW)
    assert (depth.count, depth.oldest_s, depth.last_s) == (2, 900.0, 20.0)
    assert [each.key for each in store.newest(State.FAILED, limit=5)] == ["old", "new"]
    assert [each.key for each in store.newest(State.FAILED, limit=1)] == ["old"]


def test_a_mail_that_is_due_later_is_not_overdue(outbox: SqlBench, store: Store) -> None:
    put(outbox, "later", State.PENDING, due_in_s=60)
    put(outbox, "much-later", State.PENDING, due_in_s=600)
    (depth,) = store.depths(now=NOW)
    assert (depth.due, depth.overdue_s, depth.next_in_s) == (0, 0.0, 60.0)
    put(outbox, "due", State.PENDING, age_s=9, due_in_s=-9)
    (depth,) = store.depths(now=NOW)
    assert (depth.due, depth.overdue_s, depth.next_in_s) == (1, 9.0, None)


def test_a_mail_without_a_time_is_neither_due_nor_planned(outbox: SqlBench, store: Store) -> None:
    put(outbox, "paused", State.PENDING, due_in_s=None)
    (depth,) = store.depths(now=NOW)
    assert (depth.due, depth.overdue_s, depth.next_in_s) == (0, 0.0, None)


@pytest.mark.parametrize("state", DEEP)
def test_history_is_not_read(state: State) -> None:
    """The plan of SQLite tells it; the other two have the same indexes."""
    engine = create_engine("sqlite://")
    query = str(_DEPTHS[state].compile(engine))
    with engine.begin() as connection:
        metadata.create_all(connection)
        moments = ("2026",) * query.count("?")
        plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", moments).all())
    engine.dispose()
    assert "USING INDEX outgoing_email_" in plan


def test_events_that_wait_are_counted_and_the_newest_tells_whether_any_come(
    outbox: SqlBench, store: Store
) -> None:
    with outbox.begin() as connection:
        connection.execute(delete(webhook_event))
    assert store.event_depth(now=NOW) == EventDepth(waiting=0, oldest_s=0.0, last_s=None)
    assert store.receive([("e1", b"{}")], source="webhook", now=NOW - timedelta(seconds=60)) == 1
    assert store.receive([("e2", b"{}")], source="webhook", now=NOW - timedelta(seconds=20)) == 1
    with outbox.begin() as connection:
        done = webhook_event.update().where(webhook_event.c.event_id == "e2")
        connection.execute(done.values(next_look_at=None, settled_at=NOW))
    assert store.event_depth(now=NOW) == EventDepth(waiting=1, oldest_s=60.0, last_s=20.0)


def test_finished_states_are_not_looked_at() -> None:
    assert not {State.ACCEPTED, State.EXPIRED, State.SUPPRESSED} & set(DEEP)
