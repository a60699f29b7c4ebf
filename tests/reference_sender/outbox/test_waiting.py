"""Mail that waits and mail that must not go, on every database; and what only SQL can be asked."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import event, select, text

from reference_sender.message import InvalidMail
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import enqueue
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.manners_contract import MannersContract
from tests.reference_sender.samples import MAIL, NOW


class TestOnADatabase(MannersContract):
    """The contract."""


def test_mails_that_depend_on_each_other_are_refused(outbox: SqlBench) -> None:
    outbox.put("a", depends_on="c")
    outbox.put("b", depends_on="a")
    with pytest.raises(InvalidMail, match="'c' would depend on 'b', which depends on it"):
        outbox.put("c", depends_on="b")


def test_numbers_are_in_the_order_of_commits_under_one_key(outbox: SqlBench) -> None:
    """Whoever enqueues second waits for the first one's commit, and its row comes behind."""
    in_it, order = threading.Event(), []

    def second() -> None:
        in_it.wait(10)
        with outbox.store.engine.begin() as connection:
            enqueue(connection, MAIL, key="second", now=NOW, ordering_key="user-7")
        order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with outbox.store.engine.begin() as connection:
        enqueue(connection, MAIL, key="first", now=NOW, ordering_key="user-7")
        in_it.set()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    with outbox.store.engine.connect() as connection:
        rows = connection.execute(select(outgoing_email).order_by(outgoing_email.c.id)).all()
    assert [(row.dedupe_key, row.hold_until is None) for row in rows] == [("first", True), ("second", False)]


def test_a_plain_enqueue_is_one_insert_and_two_selects(outbox: SqlBench) -> None:
    said: list[str] = []
    with outbox.store.engine.begin() as connection:
        event.listen(connection, "before_cursor_execute", lambda _c, _k, words, *_: said.append(words))
        enqueue(connection, MAIL, key="order-1", now=NOW)
    assert sorted(words.split()[0] for words in said) == ["INSERT", "SELECT", "SELECT"]


def test_who_waits_is_found_by_an_index(outbox: SqlBench) -> None:
    if outbox.store.engine.dialect.name != "sqlite":
        pytest.skip("the plan of SQLite is the one that a test can read")
    with outbox.store.engine.connect() as connection:
        plan = connection.execute(
            text(
                "EXPLAIN QUERY PLAN SELECT id FROM outgoing_email WHERE state = 'pending' "
                "AND hold_until IS NOT NULL AND next_attempt_at IS NULL"
            )
        ).all()
    assert "outgoing_email_hold_until" in str(plan)
