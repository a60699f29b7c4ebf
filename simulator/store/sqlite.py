"""The ledger in a SQLite file with a log in front of it: an acceptance that was answered is there after `kill -9`.

`append` writes to the log and nothing else; a thread moves the log's entries into the file. One process owns both by
a lock on the file that the kernel lets go with its owner. Nothing here knows why records are kept.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from simulator.provider.ledger import WINDOW, Acceptance, Attempt, Booked, Decided, Decision, Tried, Wiped
from simulator.provider.provider import Record
from simulator.provider.search import PAGE, AttemptSearch, Page, Search, bare
from simulator.store import Durability, StoreError
from simulator.store.entries import BOOKED, DECIDED, STATE_KINDS, TRIED, clean, decode, encode
from simulator.store.log import Log, files, packed, path_of, read
from simulator.store.mover import Batch, Mover
from simulator.store.retention import FOR_EVER, Retention
from simulator.store.rows import Condition, attempt_conditions, conditions, paged, select
from simulator.store.sqlite_file import SqliteFile
from simulator.store.writer import Writer

Value = TypeVar("Value")

#: What each connection may keep of the file in memory, in KiB.
WRITER_CACHE_KIB, READER_CACHE_KIB = 32 * 1024, 8 * 1024


class SqliteStore:
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

    def load(self) -> Iterator[Record]:
        """Yield accounts, what is not history, and the newest mail, attempt and decision of each account."""
        accounts = self._rows("SELECT id, name FROM account ORDER BY name")
        for _, name in accounts:
            yield Wiped(account=name)
        for kind in STATE_KINDS:
            for (facts,) in self._rows("SELECT facts FROM state WHERE kind = ? ORDER BY seq", (kind.name,)):
                yield self._read(kind.code, facts)
        for facts in self._newest("acceptance", "seq", accounts):
            yield Booked(acceptance=self._read(BOOKED, facts), raw=b"")
        for facts in self._newest("attempt", "number", accounts):
            yield Tried(attempt=self._read(TRIED, facts))
        for facts in self._newest("decision", "number", accounts):
            yield Decided(decision=self._read(DECIDED, facts))

    def _newest(self, table: str, order: str, accounts: Sequence[tuple[Any, ...]]) -> Iterator[str]:
        """Yield the facts of the newest rows, oldest first, and before them the newest of the other accounts."""
        ((last,),) = self._rows(f"SELECT coalesce(max({order}), 0) FROM {table}")
        begin = last - WINDOW
        latest = f"SELECT {order}, facts FROM {table} WHERE account = ? ORDER BY number DESC LIMIT 1"
        yield from (
            facts
            for place, facts in sorted(row for id_, _ in accounts for row in self._rows(latest, (id_,)))
            if place <= begin
        )
        yield from (
            facts
            for (facts,) in self._rows(
                f"SELECT facts FROM {table} WHERE {order} > ? ORDER BY {order}", (begin,)
            )
        )

    # --- look-ups by name ---------------------------------------------------------------------------

    def get(self, account: str, id_: str) -> Acceptance | None:
        found = self._glance("id = ?", account, clean(id_))
        return found[0] if found else None

    def with_key(self, account: str, key: str) -> list[Acceptance]:
        return self._glance("key = ?", account, clean(key))

    def with_message_id(self, account: str, message_id: str) -> list[Acceptance]:
        return self._glance("message_id = ?", account, clean(bare(message_id) or ""))

    def _glance(self, condition: str, account: str, value: str) -> list[Acceptance]:
        query = (
            "SELECT facts FROM acceptance WHERE account = (SELECT id FROM account WHERE name = ?)"
            f" AND {condition} ORDER BY number"
        )
        with self._glancing:
            self._check_open()
            try:
                rows = self._glance_db.execute(query, (clean(account), value)).fetchall()
            except sqlite3.Error as problem:
                raise self._unreadable(problem) from problem
        return [self._read(BOOKED, facts) for (facts,) in rows]

    # --- readings -----------------------------------------------------------------------------------

    def messages(
        self,
        account: str,
        search: Search = Search(),
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
    ) -> Page[Acceptance]:
        return self._page("acceptance", BOOKED, account, search, conditions, after, limit, newest_first)

    def attempts(
        self,
        account: str,
        search: AttemptSearch = AttemptSearch(),
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
    ) -> Page[Attempt]:
        return self._page("attempt", TRIED, account, search, attempt_conditions, after, limit, newest_first)

    def decisions(self, account: str, *, after: int | None = None, limit: int = PAGE) -> Page[Decision]:
        return self._page("decision", DECIDED, account, _EVERYTHING, _of_account, after, limit, False)

    def acceptances(self, account: str) -> Iterator[Acceptance]:
        after: int | None = None
        while True:
            page = self.messages(account, after=after, limit=1_000)
            yield from page.found
            after = page.cursor
            if after is None:
                return

    def copies(self, account: str, sha256s: Iterable[str]) -> dict[str, int]:
        self._mover.flush()
        query = (
            "SELECT count(*) FROM acceptance JOIN body ON body.id = acceptance.body"
            " WHERE sha256 = ? AND account = (SELECT id FROM account WHERE name = ?)"
        )
        return {each: self._rows(query, (bytes.fromhex(each), clean(account)))[0][0] for each in set(sha256s)}

    def body(self, account: str, id_: str) -> bytes | None:
        self._mover.flush()
        rows = self._rows(
            "SELECT raw FROM body JOIN acceptance ON body.id = acceptance.body"
            " WHERE acceptance.id = ? AND account = (SELECT id FROM account WHERE name = ?)",
            (clean(id_), clean(account)),
        )
        return bytes(rows[0][0]) if rows else None

    def _page(
        self,
        table: str,
        kind: int,
        account: str,
        search: Any,
        narrowed: Callable[[int, Any], list[Condition]],
        after: int | None,
        limit: int,
        newest_first: bool,
    ) -> Page[Any]:
        self._mover.flush()
        known = self._rows("SELECT id FROM account WHERE name = ?", (clean(account),))
        if not known:
            return Page(found=())
        narrow = narrowed(known[0][0], search)

        def fetch(last: int | None, how_many: int) -> list[tuple[int, Any]]:
            query, values = select(table, narrow, last, newest_first=newest_first)
            rows = self._rows(query.format(instr="instr"), (*values, how_many))
            return [(number, self._read(kind, facts)) for number, facts in rows]

        return paged(fetch, search.matches, after, limit)

    # --- inside -------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the ledger {self.path} is closed")

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading:
            self._check_open()
            try:
                return self._search_db.execute(query, values).fetchall()
            except sqlite3.Error as problem:
                raise self._unreadable(problem) from problem

    def _read(self, kind: int, facts: str) -> Any:
        try:
            return decode(kind, facts.encode())
        except (ValueError, KeyError, TypeError) as problem:
            raise self._unreadable(problem) from problem

    def _unreadable(self, problem: Exception) -> StoreError:
        return StoreError(
            f"the ledger {self.path} is damaged ({problem}); restore it from a copy or name another file"
        )

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
            self._writer = Writer(db)
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


class _Everything:
    """No condition."""

    def matches(self, each: object) -> bool:
        return True


_EVERYTHING = _Everything()


def _of_account(account: int, search: object) -> list[Condition]:
    return [("account = ?", (account,))]
