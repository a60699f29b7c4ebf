"""The ledger in a SQLite file with a log in front of it: an acceptance that was answered is there after `kill -9`.

`append` writes to the log and nothing else; a thread moves the log's entries into the file. One process owns both by
a lock on the file that the kernel lets go with its owner. Nothing here knows why records are kept.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from simulator.provider.provider import Record
from simulator.provider.retention import FOR_EVER, Retention
from simulator.store import Durability, StoreError
from simulator.store.entries import encode
from simulator.store.log import Log, files, packed, path_of, read
from simulator.store.mover import Batch, Mover
from simulator.store.readings import Readings
from simulator.store.sqlite_file import SqliteFile
from simulator.store.writer import Writer

#: What each connection may keep of the file in memory, in KiB.
WRITER_CACHE_KIB, READER_CACHE_KIB = 32 * 1024, 8 * 1024


class SqliteStore(Readings):
    """A ledger file, its log, and the lock that makes them ours. Raises `StoreError` when they cannot be had."""

    is_quick: bool

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        now: Callable[[], datetime] | None = None,
        durability: Durability = Durability.PROCESS,
        retention: Retention = FOR_EVER,
    ) -> None:
        """`now` is needed for a retention by age."""
        self.path = Path(path)
        self.name = str(self.path)
        self.durability = durability
        # A synced write waits for the disk: not on an event loop.
        self.is_quick = durability is Durability.PROCESS
        self._retention = retention
        self._now = now
        self._prefix = f"{self.path}-log"
        self._appending = threading.Lock()
        self._reading = threading.Lock()
        self._glancing = threading.Lock()
        self._closed = False
        self._stack: list[Callable[[], None]] = []
        self._file = SqliteFile(self.path, synced=not self.is_quick)
        self._stack.append(self._file.close)
        self.is_new = self._file.is_new
        try:
            self._open()
        except sqlite3.DatabaseError as problem:
            self._unwind()
            raise StoreError(
                f"the ledger {self.path} is no readable SQLite file ({problem}); name another file"
            ) from problem
        except BaseException:
            self._unwind()
            raise

    def _open(self) -> None:
        self._db = self._connect(WRITER_CACHE_KIB)
        self._writer = Writer(self._db)
        last = self._recover()
        # Whoever searches may take long; whoever looks a key up must not wait for that.
        self._search_db = self._connect(READER_CACHE_KIB)
        self._glance_db = self._connect(READER_CACHE_KIB)
        self._log = Log(self._prefix, first=last + 1, synced=not self.is_quick)
        self._stack.append(self._log.close)
        self._mover = Mover(self._move, self.path.name)
        self._writer.breathe = self._mover.breathe

    def _connect(self, cache_kib: int) -> sqlite3.Connection:
        db = self._file.connect(cache_kib=cache_kib)
        self._stack.append(db.close)
        return db

    def close(self) -> None:
        """Move what is left of the log, close the file, then let go of the lock."""
        if self._closed:
            return
        self._closed = True
        self._mover.close()
        moved = self._mover.trouble is None
        self._unwind()
        if moved:
            self._delete_logs(self._log.number)

    def _unwind(self) -> None:
        while self._stack:
            self._stack.pop()()

    # --- what is kept -------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:
        """Write these into the log, all or none."""
        entries = [encode(record) for record in records]
        if not entries:
            return
        with self._appending:
            self._check_open()
            self._mover.make_room()
            frame = packed(entries)
            self._log.append(frame)
            self._mover.add(Batch(entries, len(frame), self._log.number, self._log.end))

    # --- inside -------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the ledger {self.path} is closed")

    def _catch_up(self) -> None:
        self._check_open()
        self._mover.flush()

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._ask(self._search_db, self._reading, query, values)

    def _glance(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._ask(self._glance_db, self._glancing, query, values)

    def _ask(
        self, db: sqlite3.Connection, lock: threading.Lock, query: str, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        with lock:
            self._check_open()
            try:
                return db.execute(query, values).fetchall()
            except sqlite3.Error as problem:
                raise self._damaged(problem) from problem

    def _recover(self) -> int:
        """Move what a former process left in its log; return the number of its last file."""
        left = files(self._prefix)
        last = max(left, default=self._writer.meta("log_file"))
        for number, path in left.items():
            if number < self._writer.meta("log_file"):
                continue
            start = self._writer.meta("log_end") if number == self._writer.meta("log_file") else 0
            for end, entries in read(path, start=start, is_last=number == last):
                self._move([Batch(entries, 0, number, end)])
        self._delete_logs(last)
        return last

    def _move(self, batches: Sequence[Batch]) -> bool:
        """Enter these in one transaction; tell whether there is more to be done soon."""
        db, writer = self._db, self._writer
        try:
            db.execute("BEGIN IMMEDIATE")
            writer.write([entry for batch in batches for entry in batch.entries])
            if batches:
                writer.note("log_file", batches[-1].file)
                writer.note("log_end", batches[-1].end)
            again = self._retention.is_bounded and writer.trim(self._retention, self._now)
            writer.flush()
            db.execute("COMMIT")
        except BaseException as problem:
            if db.in_transaction:
                db.execute("ROLLBACK")
            self._writer = Writer(db, writer.breathe)
            if isinstance(problem, sqlite3.Error | OverflowError):
                raise StoreError(f"the ledger {self.path} cannot be written: {problem}") from problem
            raise
        if batches:
            self._delete_logs(batches[-1].file - 1)
        return again

    def _delete_logs(self, last: int) -> None:
        """Delete what was moved wholly."""
        for number in files(self._prefix):
            if number <= last:
                path_of(self._prefix, number).unlink(missing_ok=True)
