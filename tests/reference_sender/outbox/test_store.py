"""What the outbox must do on every database: the contract, and what only SQL can ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, event, func, select, text, update
from sqlalchemy.orm import Session

from reference_sender.message import Mail
from reference_sender.outbox.engine import StoreTrouble, open_engine
from reference_sender.outbox.migrations import BroughtUp
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.store import Enqueued, Store, enqueue
from tests.reference_sender.outbox.contract import ACCEPTED, Bench, Contract
from tests.reference_sender.outbox.databases import KINDS, database
from tests.reference_sender.samples import MAIL, NOW


class SqlBench(Bench):
    """A store on a database."""

    def begin(self) -> AbstractContextManager[Any]:
        return self.store.engine.begin()

    def enqueue(self, transaction: Any, mail: Mail, **more: Any) -> Enqueued:
        return enqueue(transaction, mail, **more)

    def row(self, row_id: int = 1) -> Row[Any]:
        with self.store.engine.connect() as connection:
            return connection.execute(select(outgoing_email).where(outgoing_email.c.id == row_id)).one()

    def attempts(self) -> list[Row[Any]]:
        with self.store.engine.connect() as connection:
            return list(connection.execute(select(email_attempt).order_by(email_attempt.c.id)))


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A database with the tables in it: made once, because servers take their time over that."""
    with database(request.param, tmp_path_factory.mktemp(request.param)) as url:
        store = Store(open_engine(url))
        store.create()
        yield store
        store.engine.dispose()


@pytest.fixture
def outbox(place: Store) -> SqlBench:
    with place.engine.begin() as connection:
        connection.execute(email_attempt.delete())
        connection.execute(outgoing_email.delete())
        for statement in _COUNT_ANEW[place.engine.dialect.name]:
            connection.execute(text(statement))
    return SqlBench(place)


_COUNT_ANEW = {
    "sqlite": ("DELETE FROM sqlite_sequence",),
    "postgresql": (
        "ALTER SEQUENCE outgoing_email_id_seq RESTART",
        "ALTER SEQUENCE email_attempt_id_seq RESTART",
    ),
    "mysql": (
        "ALTER TABLE outgoing_email AUTO_INCREMENT = 1",
        "ALTER TABLE email_attempt AUTO_INCREMENT = 1",
    ),
}


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlBench]:
    """An outbox whose tables a test may change."""
    with database(request.param, tmp_path) as url:
        store = Store(open_engine(url))
        store.create()
        yield SqlBench(store)
        store.engine.dispose()


@pytest.fixture
def store(outbox: SqlBench) -> Store:
    return outbox.store


class TestOnADatabase(Contract):
    """The contract."""


# -- what only SQL can ask ------------------------------------------------------------------------------------


def test_whoever_finds_nothing_again_and_again_only_looks(store: Store) -> None:
    """One statement that locks nothing; what is due is found by the next look all the same, and so is what was lost."""
    statements: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    def claim(at: datetime) -> list[str]:
        statements.clear()
        return [p.key for p in store.claim(now=at, limit=5, lease_s=60, dedupes=True)]

    try:
        for _ in range(2):
            assert claim(NOW) == []
            assert len(statements) == 2
        assert claim(NOW) == []
        assert [s.split()[0] for s in statements] == ["SELECT"]
        assert "FOR UPDATE" not in statements[0]
        with store.engine.begin() as connection:
            enqueue(connection, MAIL, key="order-1", now=NOW + timedelta(seconds=5))
        assert claim(NOW) == []
        assert claim(NOW + timedelta(seconds=5)) == ["order-1"]
        for _ in range(4):
            assert claim(NOW + timedelta(seconds=6)) == []
        assert claim(NOW + timedelta(seconds=66)) == ["order-1"]
    finally:
        event.remove(store.engine, "before_cursor_execute", _seen)


def test_each_recipient_gets_a_row_of_its_own_from_one_insert(store: Store) -> None:
    statements: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement.split()[0])

    mail = replace(MAIL, recipients=("ann@example.com", "Bob <bob@example.com>", "ann@EXAMPLE.com"))
    with store.engine.begin() as connection:
        done = enqueue(connection, mail, key="order-1", now=NOW)
    assert (statements.count("INSERT"), statements.count("SELECT")) == (1, 1)
    assert len(set(done.idempotency_keys)) == len(set(done.message_ids)) == len(set(done.ids)) == 2


def test_an_orm_session_will_do(store: Store) -> None:
    with Session(store.engine) as session, session.begin():
        assert enqueue(session, MAIL, key="order-1", now=NOW).created
    with Session(store.engine) as session:
        enqueue(session, MAIL, key="order-2", now=NOW)
        session.rollback()
    assert [s.key for s in store.standings()] == ["order-1"]


def test_everything_can_be_dropped_and_created_again(own: SqlBench) -> None:
    outbox, store = own, own.store
    outbox.put()
    assert store.create() == BroughtUp()
    assert len(store.standings()) == 1
    assert store.create(recreate=True).created == ("outgoing_email", "email_attempt", "outbox_schema")
    assert store.standings() == []


def test_an_attempt_goes_with_its_mail(outbox: SqlBench, store: Store) -> None:
    outbox.put()
    (parcel,) = outbox.claim()
    store.settle(parcel, ACCEPTED, now=NOW)
    with store.engine.begin() as connection:
        connection.execute(outgoing_email.delete())
    assert outbox.attempts() == []


def test_a_missing_table_is_one_sentence(own: SqlBench) -> None:
    store = own.store
    store.check()
    with store.engine.begin() as connection:
        connection.execute(text("DROP TABLE email_attempt"))
        connection.execute(text("DROP TABLE outgoing_email"))
    with pytest.raises(StoreTrouble, match="run `reference-sender init` first"):
        store.check()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["DROP COLUMN may_repeat"], "the column may_repeat of the table outgoing_email .* older than"),
        (
            ["RENAME COLUMN may_repeat TO may_be_repeated"],
            "the column may_repeat of the table outgoing_email .* newer than",
        ),
        (["ADD COLUMN more INTEGER NOT NULL"], "wants a value for the column more"),
    ],
)
def test_a_schema_of_another_version_is_one_sentence(own: SqlBench, changes: list[str], words: str) -> None:
    store = own.store
    with store.engine.begin() as connection:
        for change in changes:
            if "NOT NULL" in change and store.engine.dialect.name == "sqlite":
                # SQLite adds no such column later on; a table that was made with it can be had by making it anew.
                made = connection.execute(text("SELECT sql FROM sqlite_master WHERE name='email_attempt'"))
                sql = made.scalar_one().replace("token INTEGER", "more INTEGER NOT NULL, token INTEGER")
                connection.execute(text("DROP TABLE email_attempt"))
                connection.execute(text(sql))
            else:
                table = "email_attempt" if "NOT NULL" in change else "outgoing_email"
                connection.execute(text(f"ALTER TABLE {table} {change}"))
    with pytest.raises(StoreTrouble, match=words) as caught:
        store.check()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("column", ["note TEXT", "flag INTEGER NOT NULL DEFAULT 0"])
def test_a_column_that_somebody_added_does_no_harm(own: SqlBench, column: str) -> None:
    outbox, store = own, own.store
    with store.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE outgoing_email ADD COLUMN {column}"))
    store.check()
    outbox.put()
    assert len(outbox.claim()) == 1


def test_stores_agree_on_time_with_the_database(outbox: SqlBench, store: Store) -> None:
    outbox.put()
    with store.engine.begin() as connection:
        connection.execute(update(outgoing_email).values(next_attempt_at=NOW + timedelta(microseconds=1)))
        assert (
            connection.execute(select(func.count()).where(outgoing_email.c.next_attempt_at <= NOW)).scalar()
            == 0
        )
    assert outbox.claim() == []


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("nonsense", "not a database URL"),
        ("", "not a database URL"),
        ("oracle://x", "not supported"),
        ("oracle://x/y", "not supported"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file::memory:?mode=memory&uri=true", "in memory"),
    ],
)
def test_a_url_that_leads_nowhere_is_one_sentence(url: str, word: str) -> None:
    with pytest.raises(StoreTrouble, match=word):
        open_engine(url)


def test_a_commit_on_sqlite_survives_a_power_cut(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'outbox.db'}")
    with engine.connect() as connection:
        pragmas = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        ]
    engine.dispose()
    assert pragmas == ["wal", 2, 30_000, 1]


def test_a_reader_on_sqlite_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    with store.engine.begin() as connection:
        enqueue(connection, MAIL, key="order-1", now=NOW)
        assert store.standings() == []
    assert len(store.standings()) == 1
    store.engine.dispose()
