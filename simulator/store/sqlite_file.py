"""A SQLite file that is ours alone: locked, checked, brought up to date."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from simulator.store import StoreError
from simulator.store.schema import MIGRATIONS, SCHEMA, SCHEMA_VERSION

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock; there two owners are not noticed.
    fcntl = None  # type: ignore[assignment]

#: "mprf": tells our files from anybody else's (https://sqlite.org/pragma.html#pragma_application_id).
APPLICATION_ID = 0x6D707266


class SqliteFile:
    """A ledger file and the lock that makes it ours. Raises `StoreError` when it cannot be had."""

    def __init__(self, path: Path, *, synced: bool) -> None:
        self.path = path
        self._synced = synced
        try:
            self.is_new = not path.exists() or (path.is_file() and path.stat().st_size == 0)
        except OSError as problem:
            raise StoreError(f"the ledger {path} cannot be opened: {problem.strerror}") from problem
        self._lock_fd: int | None = self._lock()
        try:
            self.check()
        except BaseException:
            self.close()
            raise

    def connect(self, *, cache_kib: int) -> sqlite3.Connection:
        """Open the file once more. Raises `sqlite3.Error`."""
        # Every transaction is begun by hand: the module's own idea of when to begin one is of no use here.
        db = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=5.0, cached_statements=256
        )
        try:
            db.execute("PRAGMA journal_mode = WAL")
            # WAL: NORMAL never corrupts, and loses nothing by the death of the process.
            db.execute(f"PRAGMA synchronous = {'FULL' if self._synced else 'NORMAL'}")
            db.execute(f"PRAGMA cache_size = -{cache_kib}")
        except BaseException:
            db.close()
            raise
        return db

    def close(self) -> None:
        """Let go of the lock; the connections must be closed before.

        Closing any descriptor of the file drops SQLite's own POSIX locks on it (fcntl(2)).
        """
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _lock(self) -> int | None:
        if self.path.is_dir():
            raise StoreError(
                f"the ledger {self.path} is a directory; name a file, like {self.path}/simulator.db"
            )
        try:
            # People's mail, and secrets of webhooks: nobody else's business. SQLite's own files follow its mode.
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError as problem:
            # The system says the same of a folder that takes no new files (/proc) and of a link into nowhere.
            is_there = self.path.parent.is_dir()
            why = problem.strerror if is_there else f"there is no directory {self.path.parent}"
            raise StoreError(f"the ledger {self.path} cannot be created: {why}") from problem
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

    def check(self) -> None:
        """See to it that the file has the tables of this version."""
        try:
            db = sqlite3.connect(self.path, isolation_level=None, timeout=5.0)
        except sqlite3.Error as problem:
            raise StoreError(f"the ledger {self.path} cannot be opened: {problem}") from problem
        try:
            self._check(db)
        except sqlite3.DatabaseError as problem:
            raise StoreError(
                f"the ledger {self.path} is no readable SQLite file ({problem}); name another file"
            ) from problem
        finally:
            db.close()

    def _check(self, db: sqlite3.Connection) -> None:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables and application in (0, APPLICATION_ID):
            db.executescript(
                f"BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
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
            self._migrate(db, version, MIGRATIONS[version])
            version += 1

    def _migrate(
        self, db: sqlite3.Connection, version: int, migration: Callable[[sqlite3.Connection], None]
    ) -> None:
        """Each step is whole or was not: a death in between is continued by the next start."""
        db.execute("BEGIN IMMEDIATE")
        try:
            migration(db)
            db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute("COMMIT")
        except (ValueError, KeyError, TypeError) as problem:
            raise StoreError(
                f"the ledger {self.path} is damaged ({problem}); restore it from a copy or name another file"
            ) from problem
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
