"""Rows of a ledger: bodies once, counts that are right, and nothing left of what went."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import pytest

from simulator.provider.ledger import Wiped
from simulator.provider.provider import Record
from simulator.provider.retention import Retention
from simulator.store.entries import encode
from simulator.store.schema import SCHEMA
from simulator.store.writer import Writer
from tests.simulator.store.records import OWED, RAW, at, booked, decided, tried


@pytest.fixture
def db() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(SCHEMA)
    return db


def enter(db: sqlite3.Connection, records: Iterable[Record]) -> Writer:
    writer = Writer(db)
    writer.write([encode(record) for record in records])
    writer.flush()
    return writer


def counts(db: sqlite3.Connection) -> dict[str, int]:
    """Return what `meta` says is there, having counted it."""
    tables = {"mails": "acceptance", "attempts": "attempt", "decisions": "decision"}
    real = {name: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for name, table in tables.items()}
    real["bytes"] = db.execute("SELECT coalesce(sum(length(raw)), 0) FROM body").fetchone()[0]
    said = dict(db.execute("SELECT name, value FROM meta"))
    assert {name: said.get(name, 0) for name in real} == real
    return real


def test_counts_are_kept_whatever_happens(db: sqlite3.Connection) -> None:
    """Entered twice, known from before, wiped, trimmed."""
    records: list[Record] = [
        booked(1),
        booked(2),
        booked(3, raw=b"other"),
        booked(1, "shop"),
        tried(1),
        decided(1),
        OWED,
    ]
    enter(db, records)
    assert counts(db) == {"mails": 4, "attempts": 1, "decisions": 1, "bytes": len(RAW) + 5}
    enter(db, records)
    assert counts(db)["mails"] == 4
    enter(db, [Wiped(account="shop"), booked(1, "shop"), booked(2, "shop", b"shop's"), tried(2, "shop")])
    assert counts(db) == {"mails": 5, "attempts": 2, "decisions": 1, "bytes": len(RAW) + 11}
    writer = enter(db, [])
    writer.trim(Retention(count=3), None)
    writer.flush()
    assert counts(db)["mails"] == 3
    enter(db, [Wiped(account="shop"), Wiped(account="default")])
    assert counts(db) == {"mails": 0, "attempts": 0, "decisions": 0, "bytes": 0}
    assert db.execute("SELECT count(*) FROM recipient").fetchone() == (0,)
    assert db.execute("SELECT count(*) FROM state").fetchone() == (0,)


def test_many_rows_of_a_kind_are_entered(db: sqlite3.Connection) -> None:
    """More than one statement takes."""
    enter(db, [each for n in range(1, 200) for each in (booked(n, raw=b"%d" % n), tried(n), decided(n))])

    assert counts(db)["mails"] == 199
    assert db.execute("SELECT count(*) FROM recipient").fetchone() == (398,)


def test_what_is_to_go_goes_in_steps(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction must not take for ever: the writer says that there is more."""
    monkeypatch.setattr("simulator.store.writer.TRIM", 5)
    writer = enter(db, [booked(n, raw=b"%d" % n) for n in range(1, 13)])

    for retention in (Retention(count=1), Retention(bytes=1), Retention(age_s=1)):
        db.execute("SAVEPOINT before")
        writer = Writer(db)
        steps = [writer.trim(retention, lambda: at(1_000)) for _ in range(4)]
        assert steps == [True, True, False, False]
        assert db.execute("SELECT number FROM acceptance").fetchall() == [(12,)]
        db.execute("ROLLBACK TO before")


def test_only_the_latest_of_a_batch_is_written(db: sqlite3.Connection) -> None:
    """An attempt that grew three times is one row, and what it was last."""
    grown = [encode(tried(1, answer=answer)) for answer in ("normal", "354", "250")]
    writer = Writer(db)
    before = db.total_changes
    writer.write(grown)

    assert '"answer":"250"' in db.execute("SELECT facts FROM attempt").fetchone()[0]
    assert db.total_changes - before == 2  # The account, and the attempt.
