"""Ledgers of former versions: opened, brought up to date, nothing lost."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

import pytest

from simulator.provider.clock import ClockMoved
from simulator.provider.ledger import Booked, Decided, Named, Tried
from simulator.provider.notes import Noted
from simulator.provider.provider import Record
from simulator.provider.search import Search
from simulator.store import StoreError
from simulator.store.schema import MIGRATIONS, SCHEMA_VERSION
from simulator.store.sqlite import SqliteStore
from simulator.store.sqlite_file import APPLICATION_ID
from tests.simulator.store.records import OWED, RAW, booked, decided, tried

#: As version 1 made them.
VERSION_1 = """
CREATE TABLE account (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE acceptance (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, account TEXT NOT NULL, facts TEXT NOT NULL, raw BLOB NOT NULL
);
CREATE INDEX acceptance_account ON acceptance (account);
CREATE TABLE attempt (id TEXT PRIMARY KEY, account TEXT NOT NULL, number INTEGER NOT NULL, facts TEXT NOT NULL);
CREATE TABLE decision (number INTEGER PRIMARY KEY, account TEXT NOT NULL, facts TEXT NOT NULL);
CREATE TABLE obligation (
    account TEXT NOT NULL, ref TEXT NOT NULL, recipient TEXT NOT NULL, facts TEXT NOT NULL,
    PRIMARY KEY (account, ref, recipient)
);
"""
#: What version 2 added.
VERSION_2 = "CREATE TABLE setting (account TEXT, name TEXT, facts TEXT NOT NULL, PRIMARY KEY (account, name)) WITHOUT ROWID;"


def facts(value: object, *left_out: str) -> str:
    """Return the facts as those versions wrote them."""
    assert hasattr(value, "__dataclass_fields__")
    known = {name: each for name, each in asdict(value).items() if name not in left_out}  # type: ignore[call-overload]
    return json.dumps(known, default=lambda each: datetime.isoformat(each))


def former(path: Path, version: int, count: int = 1) -> None:
    """Write a ledger of a former version."""
    new = ("headers", "destinies") if version == 1 else ()
    db = sqlite3.connect(path)
    db.executescript(VERSION_1 + (VERSION_2 if version == 2 else ""))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {version}")
    db.execute("INSERT INTO account VALUES ('named only')")
    for number in range(1, count + 1):
        acceptance = booked(number).acceptance
        db.execute(
            "INSERT INTO acceptance (id, account, facts, raw) VALUES (?, ?, ?, ?)",
            (acceptance.id, acceptance.account, facts(acceptance, *new), RAW),
        )
        attempt = tried(number).attempt
        db.execute(
            "INSERT INTO attempt VALUES (?, ?, ?, ?)", (attempt.id, attempt.account, number, facts(attempt))
        )
    db.execute("INSERT INTO decision VALUES (1, 'default', ?)", (facts(decided().decision),))
    db.execute(
        "INSERT INTO obligation VALUES (?, ?, ?, ?)",
        (OWED.account, OWED.ref, OWED.recipient.lower(), facts(OWED)),
    )
    if version == 2:
        db.execute("INSERT INTO setting VALUES ('shop', 'ahead_s', '7.5')")
        db.execute("INSERT INTO setting VALUES ('shop', 'note:suppression:a:b@c.de', '{\"x\": 1}')")
    db.commit()
    db.close()


@pytest.mark.parametrize("version", sorted(MIGRATIONS))
def test_a_former_ledger_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    """Everything that stood in it is found afterwards, and it can be opened again."""
    path = tmp_path / "ledger.db"
    former(path, version)
    mail = booked().acceptance if version > 1 else replace(booked().acceptance, headers=(), destinies=())
    expected: list[Record] = [Named(account="default"), Named(account="named only")]
    if version > 1:
        expected += [
            Named(account="shop"),
            ClockMoved(account="shop", ahead_s=7.5),
            OWED,
            Noted(account="shop", topic="suppression", name="a:b@c.de", facts='{"x": 1}'),
        ]
    else:
        expected += [OWED]
    expected += [
        Booked(acceptance=mail, raw=b""),
        Tried(attempt=tried().attempt),
        Decided(decision=decided().decision),
    ]

    for _ in range(2):
        store = SqliteStore(path)
        assert list(store.load()) == expected
        assert store.body("default", "msg_default_1") == RAW
        assert store.messages("default", Search(to="ada@example.com", key="order-1")).found == (mail,)
        store.close()


def test_a_large_former_ledger_keeps_its_bodies_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    former(path, 1, count=1_100)

    store = SqliteStore(path)
    assert [each.number for each in store.acceptances("default")] == list(range(1, 1_101))
    assert store._db.execute("SELECT count(*) FROM body").fetchone() == (1,)
    assert store._db.execute("SELECT value FROM meta WHERE name = 'mails'").fetchone() == (1_100,)
    store.close()


def test_a_damaged_former_ledger_stays_as_it_was(tmp_path: Path) -> None:
    """A migration is whole or was not."""
    path = tmp_path / "ledger.db"
    former(path, 2)
    db = sqlite3.connect(path)
    db.execute("UPDATE attempt SET facts = '{}'")
    db.commit()
    before = list(db.iterdump())

    with pytest.raises(StoreError, match="is damaged"):
        SqliteStore(path)
    assert list(db.iterdump()) == before
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()


def test_every_version_has_a_way_to_the_next() -> None:
    assert sorted(MIGRATIONS) == list(range(1, SCHEMA_VERSION))
