"""The tables of a ledger, and for SQLite what its former versions need to have them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from simulator.provider.clock import ClockMoved
from simulator.provider.ledger import Booked, Decided, Tried
from simulator.provider.notes import Noted
from simulator.store.entries import BOOKED, DECIDED, STATE_BY_NAME, TRIED, Entry, decode, encode
from simulator.store.writer import Writer

SCHEMA_VERSION = 3

_TABLES = """
-- What is counted, and up to where the log has been moved here.
CREATE TABLE meta (name TEXT PRIMARY KEY, value {int} NOT NULL) {flat};
CREATE TABLE account (id {serial}, name TEXT NOT NULL UNIQUE);
-- Bodies are stored once.
CREATE TABLE body (id {serial}, sha256 {bytes} NOT NULL UNIQUE, raw {bytes} NOT NULL);
-- In the order in which mails were booked over all accounts: the oldest goes first.
CREATE TABLE acceptance (
    seq {serial}, account {int} NOT NULL, number {int} NOT NULL, id TEXT NOT NULL, at {int} NOT NULL,
    sender TEXT NOT NULL, key TEXT, message_id TEXT, body {int}, text TEXT NOT NULL, facts TEXT NOT NULL
);
CREATE UNIQUE INDEX acceptance_number ON acceptance (account, number);
CREATE INDEX acceptance_id ON acceptance (account, id);
CREATE INDEX acceptance_at ON acceptance (account, at, number);
CREATE INDEX acceptance_sender ON acceptance (account, sender, number);
CREATE INDEX acceptance_key ON acceptance (account, key, number) WHERE key IS NOT NULL;
CREATE INDEX acceptance_message_id ON acceptance (account, message_id, number) WHERE message_id IS NOT NULL;
CREATE INDEX acceptance_body ON acceptance (body);
CREATE TABLE recipient (
    account {int} NOT NULL, address TEXT NOT NULL, number {int} NOT NULL, fate TEXT NOT NULL,
    PRIMARY KEY (account, address, number)
) {flat};
CREATE INDEX recipient_fate ON recipient (account, fate, number) WHERE fate <> 'delivered';
CREATE TABLE attempt (
    number {int} PRIMARY KEY, account {int} NOT NULL, at {int} NOT NULL, text TEXT NOT NULL, facts TEXT NOT NULL
);
CREATE INDEX attempt_account ON attempt (account, number);
CREATE TABLE decision (
    number {int} PRIMARY KEY, account {int} NOT NULL, at {int} NOT NULL, facts TEXT NOT NULL
);
CREATE INDEX decision_account ON decision (account, number);
-- What is not history: the latest of each kind, by account and key.
CREATE TABLE state (
    seq {serial}, kind TEXT NOT NULL, account {int} NOT NULL, key TEXT NOT NULL, facts TEXT NOT NULL
);
CREATE UNIQUE INDEX state_key ON state (account, kind, key);
"""

SCHEMA = _TABLES.format(int="INTEGER", serial="INTEGER PRIMARY KEY", bytes="BLOB", flat="WITHOUT ROWID")

#: The same for PostgreSQL, and its own version.
POSTGRES_SCHEMA = _TABLES.format(
    int="BIGINT", serial="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", bytes="BYTEA", flat=""
)
POSTGRES_VERSION = 1

#: The former tables, out of the way of the new ones of the same name.
_FORMER = ("account", "acceptance", "attempt", "decision", "obligation", "setting")


def _to_2(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE setting (account TEXT, name TEXT, facts TEXT NOT NULL, PRIMARY KEY (account, name)) WITHOUT ROWID"
    )


def _to_3(db: sqlite3.Connection) -> None:
    """Bodies once, columns to search by, and one table for all that is not history."""
    for table in _FORMER:
        db.execute(f"ALTER TABLE {table} RENAME TO former_{table}")
    db.execute("DROP INDEX acceptance_account")
    for statement in SCHEMA.split(";"):
        db.execute(statement)
    writer = Writer(db)
    for (name,) in db.execute("SELECT name FROM former_account ORDER BY name").fetchall():
        writer.account(name)
    for account, name, facts in db.execute("SELECT account, name, facts FROM former_setting").fetchall():
        writer.write([encode(_setting(account, name, facts))])
    obligation = STATE_BY_NAME["obligation"].code
    rows = db.execute("SELECT facts FROM former_obligation ORDER BY rowid")
    while batch := rows.fetchmany(500):
        writer.write([Entry(obligation, facts.encode()) for (facts,) in batch])
    mails = db.execute("SELECT facts, raw FROM former_acceptance ORDER BY number")
    while batch := mails.fetchmany(500):
        writer.write(
            [encode(Booked(acceptance=decode(BOOKED, facts.encode()), raw=raw)) for facts, raw in batch]
        )
    rows = db.execute("SELECT facts FROM former_attempt ORDER BY number")
    while batch := rows.fetchmany(500):
        writer.write([encode(Tried(attempt=decode(TRIED, facts.encode()))) for (facts,) in batch])
    rows = db.execute("SELECT facts FROM former_decision ORDER BY number")
    while batch := rows.fetchmany(500):
        writer.write([encode(Decided(decision=decode(DECIDED, facts.encode()))) for (facts,) in batch])
    writer.count()
    for table in _FORMER:
        db.execute(f"DROP TABLE former_{table}")


def _setting(account: str, name: str, facts: str) -> ClockMoved | Noted:
    if name == "ahead_s":
        return ClockMoved(account=account, ahead_s=float(facts))
    _, topic, name = name.split(":", 2)
    return Noted(account=account, topic=topic, name=name, facts=facts)


#: What makes a file of this version one of the next.
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _to_2, 2: _to_3}
