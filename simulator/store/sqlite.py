"""The ledger in one SQLite file: an acceptance that was answered is there after `kill -9`.

WAL with `synchronous = NORMAL`: a commit is in the operating system's hands when `append` returns, so the
death of the process loses nothing (a power cut may; a simulator need not survive that). One process owns the
file by a lock on it that the kernel lets go with its owner. Nothing here knows why records are kept.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from simulator.provider.answer import RefusedRecipient
from simulator.provider.clock import ClockMoved
from simulator.provider.fate import Destiny, Fate
from simulator.provider.ledger import (
    Acceptance,
    Attempt,
    AttemptState,
    Booked,
    Decided,
    Decision,
    Sent,
    Tried,
    Wiped,
)
from simulator.provider.message import Dsn, DsnRecipient
from simulator.provider.notes import Noted
from simulator.provider.obligations import Obligation, Reported
from simulator.provider.provider import Record
from simulator.store import StoreError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock; there two owners are not noticed.
    fcntl = None  # type: ignore[assignment]

#: "mprf": tells our files from anybody else's (https://sqlite.org/pragma.html#pragma_application_id).
APPLICATION_ID = 0x6D707266
SCHEMA_VERSION = 2

_SCHEMA = """
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
_SETTING = "CREATE TABLE setting (account TEXT, name TEXT, facts TEXT NOT NULL, PRIMARY KEY (account, name)) WITHOUT ROWID;"
_TABLES = ("acceptance", "attempt", "decision", "obligation", "setting")

#: What makes a file of this version one of the next.
_MIGRATIONS = {1: _SETTING}


class SqliteStore:
    """A ledger file and the lock that makes it ours. Raises `StoreError` when it cannot be had."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._mutex = threading.Lock()
        self._lock_fd: int | None = None
        self._db: sqlite3.Connection | None = None
        self.is_new = not self.path.exists() or (self.path.is_file() and self.path.stat().st_size == 0)
        self._lock_fd = self._lock()
        try:
            self._db = self._open()
        except BaseException:
            self.close()
            raise

    # --- the four of `Store` ------------------------------------------------------------------------

    def load(self) -> Iterator[Record]:
        """Yield what is kept, without the bodies: accounts, acceptances, attempts, decisions, obligations."""
        try:
            for (name,) in self._rows("SELECT name FROM account ORDER BY name"):
                yield Wiped(account=name)
            for account, ahead_s in self._rows("SELECT account, facts FROM setting WHERE name = 'ahead_s'"):
                yield ClockMoved(account=account, ahead_s=float(ahead_s))
            for (facts,) in self._rows("SELECT facts FROM acceptance ORDER BY number"):
                yield Booked(acceptance=_acceptance(json.loads(facts)), raw=b"")
            for (facts,) in self._rows("SELECT facts FROM attempt ORDER BY number"):
                yield Tried(attempt=_attempt(json.loads(facts)))
            for (facts,) in self._rows("SELECT facts FROM decision ORDER BY number"):
                yield Decided(decision=_decision(json.loads(facts)))
            for (facts,) in self._rows("SELECT facts FROM obligation ORDER BY rowid"):
                yield _obligation(json.loads(facts))
            for account, name, facts in self._rows(
                "SELECT account, name, facts FROM setting ORDER BY account, name"
            ):
                kind, _, rest = name.partition(":")
                if kind == "note":
                    topic, _, name = rest.partition(":")
                    yield Noted(account=account, topic=topic, name=name, facts=facts)
        except (sqlite3.Error, ValueError, KeyError, TypeError) as problem:
            raise StoreError(
                f"the ledger {self.path} is damaged ({problem}); restore it from a copy or name another file"
            ) from problem

    def append(self, records: Sequence[Record]) -> None:
        """Keep all of these in one transaction, or none."""
        with self._mutex:
            db = self._connection()
            try:
                db.execute("BEGIN IMMEDIATE")
                for record in records:
                    _write(db, record)
                db.execute("COMMIT")
            except (sqlite3.Error, OverflowError) as problem:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise StoreError(f"the ledger {self.path} cannot be written: {problem}") from problem

    def raw(self, acceptance_id: str) -> bytes | None:
        """Return the bytes of an accepted mail, or None."""
        with self._mutex:
            try:
                row = (
                    self._connection()
                    .execute("SELECT raw FROM acceptance WHERE id = ?", (acceptance_id,))
                    .fetchone()
                )
            except sqlite3.Error as problem:
                raise StoreError(f"the ledger {self.path} cannot be read: {problem}") from problem
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        """Close the file, then let go of the lock."""
        with self._mutex:
            if self._db is not None:
                self._db.close()
                self._db = None
            # Last: closing any descriptor of the file drops SQLite's own POSIX locks on it (fcntl(2)).
            if self._lock_fd is not None:
                os.close(self._lock_fd)
                self._lock_fd = None

    # --- inside -------------------------------------------------------------------------------------

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise StoreError(f"the ledger {self.path} is closed")
        return self._db

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        with self._mutex:
            cursor = self._connection().execute(query)
        while True:
            with self._mutex:
                rows = cursor.fetchmany(500)
            if not rows:
                return
            yield from rows

    def _lock(self) -> int | None:
        if self.path.is_dir():
            raise StoreError(
                f"the ledger {self.path} is a directory; name a file, like {self.path}/simulator.db"
            )
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError as problem:
            raise StoreError(
                f"the ledger {self.path} cannot be created: there is no directory {self.path.parent}"
            ) from problem
        except OSError as problem:
            raise StoreError(
                f"the ledger {self.path} cannot be opened for writing: {problem.strerror}"
            ) from problem
        if fcntl is None:  # pragma: no cover - see above
            return fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            os.close(fd)
            raise StoreError(
                f"the ledger {self.path} is in use by another simulator; stop that one or name another file"
            ) from problem
        except OSError as problem:
            os.close(fd)
            raise StoreError(f"the ledger {self.path} cannot be locked: {problem.strerror}") from problem
        return fd

    def _open(self) -> sqlite3.Connection:
        try:
            # Every transaction is begun by hand: the module's own idea of when to begin one is of no use here.
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5.0)
        except sqlite3.Error as problem:
            raise StoreError(f"the ledger {self.path} cannot be opened: {problem}") from problem
        try:
            self._check(db)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.DatabaseError as problem:
            db.close()
            raise StoreError(
                f"the ledger {self.path} is no readable SQLite file ({problem}); name another file"
            ) from problem
        except BaseException:
            db.close()
            raise
        return db

    def _check(self, db: sqlite3.Connection) -> None:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables and application in (0, APPLICATION_ID):
            db.executescript(
                f"BEGIN; {_SCHEMA} {_SETTING} PRAGMA application_id = {APPLICATION_ID};"
                f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
            return
        if application != APPLICATION_ID:
            raise StoreError(
                f"the ledger {self.path} is a database of another program; name a file of its own"
            )
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"the ledger {self.path} was written by a newer simulator (schema {version}, this one knows"
                f" {SCHEMA_VERSION}); use that one or name another file"
            )
        if version < 1:
            raise StoreError(f"the ledger {self.path} is damaged: it has no schema; name another file")
        while version < SCHEMA_VERSION:
            # Each step is whole or was not: a death in between is continued by the next start.
            db.executescript(f"BEGIN; {_MIGRATIONS[version]} PRAGMA user_version = {version + 1}; COMMIT;")
            version += 1


def _write(db: sqlite3.Connection, record: Record) -> None:
    match record:
        case Booked(acceptance=acceptance, raw=raw):
            # Rows are named by the acceptance, so that keeping a record twice keeps one row.
            db.execute(
                "INSERT INTO acceptance (id, account, facts, raw) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET facts = excluded.facts, raw = excluded.raw",
                (acceptance.id, acceptance.account, _facts(acceptance), raw),
            )
        case Tried(attempt=attempt):
            db.execute(
                "INSERT OR REPLACE INTO attempt VALUES (?, ?, ?, ?)",
                (attempt.id, attempt.account, attempt.number, _facts(attempt)),
            )
        case Decided(decision=decision):
            db.execute(
                "INSERT OR REPLACE INTO decision VALUES (?, ?, ?)",
                (decision.number, decision.account, _facts(decision)),
            )
        case Obligation():
            db.execute(
                "INSERT INTO obligation VALUES (?, ?, ?, ?)"
                " ON CONFLICT (account, ref, recipient) DO UPDATE SET facts = excluded.facts",
                (record.account, record.ref, record.recipient.lower(), _facts(record)),
            )
        case ClockMoved(account=account, ahead_s=ahead_s):
            db.execute("INSERT OR REPLACE INTO setting VALUES (?, 'ahead_s', ?)", (account, repr(ahead_s)))
        case Noted(account=account, topic=topic, name=name, facts=facts):
            key = f"note:{topic}:{name}"
            if facts is None:
                db.execute("DELETE FROM setting WHERE account = ? AND name = ?", (account, key))
            else:
                db.execute("INSERT OR REPLACE INTO setting VALUES (?, ?, ?)", (account, key, facts))
        case Wiped(account=account):
            for table in _TABLES:
                db.execute(f"DELETE FROM {table} WHERE account = ?", (account,))
            db.execute("INSERT OR IGNORE INTO account VALUES (?)", (account,))


def _facts(value: Acceptance | Attempt | Decision | Obligation) -> str:
    return json.dumps(asdict(value), ensure_ascii=True, separators=(",", ":"), default=_plain)


def _plain(value: object) -> str:
    assert isinstance(value, datetime), f"{type(value)} in a record"
    return value.isoformat()


def _refused(facts: list[dict[str, Any]]) -> tuple[RefusedRecipient, ...]:
    return tuple(RefusedRecipient(**each) for each in facts)


def _acceptance(facts: dict[str, Any]) -> Acceptance:
    return Acceptance(
        **facts
        | {
            "accepted_at": datetime.fromisoformat(facts["accepted_at"]),
            "recipients": tuple(facts["recipients"]),
            "refused": _refused(facts["refused"]),
            "fate": Fate(facts["fate"]),
            "headers": tuple((name, value) for name, value in facts.get("headers", ())),
            "dsn": _dsn(facts.get("dsn")),
            # Ledgers of the first schema know no destinies.
            "destinies": tuple(
                (recipient, Destiny(**destiny | {"fate": Fate(destiny["fate"])}))
                for recipient, destiny in facts.get("destinies", ())
            ),
        }
    )


def _dsn(facts: dict[str, Any] | None) -> Dsn | None:
    if facts is None:
        return None
    recipients = (DsnRecipient(**each | {"notify": tuple(each["notify"])}) for each in facts["recipients"])
    return Dsn(**facts | {"recipients": tuple(recipients)})


def _attempt(facts: dict[str, Any]) -> Attempt:
    closed_at = facts["closed_at"]
    return Attempt(
        **facts
        | {
            "opened_at": datetime.fromisoformat(facts["opened_at"]),
            "closed_at": None if closed_at is None else datetime.fromisoformat(closed_at),
            "state": AttemptState(facts["state"]),
            "sent": Sent(facts["sent"]),
            "recipients": tuple(facts["recipients"]),
            "headers": tuple((name, value) for name, value in facts["headers"]),
            "refused": _refused(facts["refused"]),
            "accepted": tuple(facts["accepted"]),
            "rules": tuple(facts["rules"]),
        }
    )


def _decision(facts: dict[str, Any]) -> Decision:
    return Decision(**facts | {"at": datetime.fromisoformat(facts["at"]), "rules": tuple(facts["rules"])})


def _obligation(facts: dict[str, Any]) -> Obligation:
    state = facts["state"]
    return Obligation(**facts | {"state": None if state is None else Reported(state)})
