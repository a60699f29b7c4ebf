"""Databases of the world: real SQLite files whose every statement and commit is a crash point.

`sqlite3.connect` called by a process of the world gives a connection that belongs to it. A kill rolls back what
was not committed and frees the locks; what was committed stays in the file. Locks are never waited for in
real time: there is one thread, and whoever holds the lock could not give it back meanwhile.
"""

from __future__ import annotations

import sqlite3
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from typing import Any, Literal, Protocol

from scenarios.simulation.loop import OWNER
from scenarios.simulation.processes import Killed, Perishable, Process, Watcher
from simulator.provider.provider import Record
from simulator.store.memory import MemoryStore

_real_connect = sqlite3.connect


_commits = 0


def commits() -> int:
    """Return a number that goes up whenever a process of a world has made something durable in a database."""
    return _commits


class Kind(Enum):
    """What a statement is for the world, by its first word."""

    BUSY_TIMEOUT = "sets how long to wait for a lock"
    COMMITS = "commits"
    ROLLS_BACK = "rolls back"
    READS = "reads"
    WRITES = "writes"
    OTHER = "anything else"


_WORDS = (
    (("COMMIT", "END"), Kind.COMMITS),
    (("ROLLBACK",), Kind.ROLLS_BACK),
    (("SELECT",), Kind.READS),
    (("INSERT", "UPDATE", "DELETE", "REPLACE"), Kind.WRITES),
)


@lru_cache(maxsize=1024)
def kind_of(sql: str) -> Kind:
    word = sql.lstrip()[:8].upper()
    if word.startswith("PRAGMA") and "busy_timeout" in sql and "=" in sql:
        return Kind.BUSY_TIMEOUT
    return next((kind for words, kind in _WORDS if word.startswith(words)), Kind.OTHER)


class WorldCursor(sqlite3.Cursor):
    """A cursor whose statements are crash points."""

    owner: Passing
    """Whose connection it is of."""

    def execute(self, sql: str, *parameters: Any) -> Any:
        return self.owner.passing(sql, super().execute, sql, *parameters)

    def executemany(self, sql: str, *parameters: Any) -> Any:
        return self.owner.passing(sql, super().executemany, sql, *parameters)

    def executescript(self, script: str) -> Any:
        # It commits what is open, and whatever it finds in the script.
        return self.owner.committing(lambda: super(WorldCursor, self).executescript(script))


class Passing(ABC):
    """What every connection of a process has in common: its statements and commits are crash points."""

    process: Process | None = None
    cursors: list[weakref.ref[sqlite3.Cursor]]
    _written: tuple[str, ...] = ()
    """Statements of the open transaction that write, for whoever watches."""
    _rows_changed = 0
    """How many rows it had changed when that was told last."""

    @abstractmethod
    def real(self) -> sqlite3.Connection:
        """The connection that the statements go to."""

    def cursor(self, factory: Any = None) -> Any:
        self._alive()
        cursor = sqlite3.Connection.cursor(self.real(), WorldCursor)
        cursor.owner = self
        self.cursors.append(weakref.ref(cursor))
        return cursor

    def executescript(self, script: str) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self.cursor()
        return cursor.executescript(script)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Literal[False]:
        # Written out, because the one of C does not come by our `commit`.
        if kind is None:
            self.commit()
        else:
            self.rollback()
        return False

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self.cursor()
        return cursor.execute(sql, *parameters)

    def rollback(self) -> None:
        sqlite3.Connection.rollback(self.real())
        self._written = ()

    def commit(self) -> None:
        real = self.real()
        if real.in_transaction:
            self.committing(lambda: sqlite3.Connection.commit(real))
        else:
            sqlite3.Connection.commit(real)

    def passing(self, sql: str, act: Callable[..., Any], *arguments: Any) -> Any:
        """Run a statement with a crash point on either side."""
        kind = kind_of(sql)
        if kind is Kind.BUSY_TIMEOUT:
            return act_without_waiting(self.real(), lambda: act(*arguments))
        if kind is Kind.COMMITS:
            return self.committing(lambda: act(*arguments))
        process = self.process
        if process is None:
            return act(*arguments)
        process.passes("sql", "before")
        done = act(*arguments)
        is_over = not self.real().in_transaction
        if is_over and kind not in (Kind.READS, Kind.ROLLS_BACK):
            # Whatever it was, it is durable already.
            self._changed()
        if process.watcher is not None:
            if kind is Kind.WRITES:
                self._written = (*self._written, sql)
            if is_over:
                self._tell(process, rolled_back=kind is Kind.ROLLS_BACK)
        process.passes("sql", "after")
        return done

    def committing(self, act: Callable[[], Any]) -> Any:
        self._pass("commit", "lost")
        done = act()
        self._changed()
        if self.process is not None and self.process.watcher is not None:
            self._tell(self.process)
        self._pass("commit", "unreported")
        return done

    def _changed(self) -> None:
        global _commits
        _commits += 1
        if self.process is not None:
            self.process.loop.outside += 1

    def _tell(self, process: Process, *, rolled_back: bool = False) -> None:
        written, self._written = self._written, ()
        before, self._rows_changed = self._rows_changed, self.real().total_changes
        # A statement that may write and finds nothing to write is committed like any other, and is no news.
        is_news = bool(written) and self._rows_changed != before
        if is_news and not rolled_back and process.watcher is not None:
            process.watcher.committed(process, written)

    def _pass(self, kind: str, name: str) -> None:
        if self.process is not None:
            self.process.passes(kind, name)

    def _alive(self) -> None:
        if self.process is not None and self.process.dead:
            self.process.passes("sql", "after death")

    def _let_go(self) -> None:
        """Close the cursors (an open SELECT keeps its lock), and roll back what is open."""
        for known in self.cursors:
            if (cursor := known()) is not None:
                cursor.close()
        sqlite3.Connection.rollback(self.real())


class WorldConnection(Passing, sqlite3.Connection):
    """A connection that belongs to a process."""

    def real(self) -> sqlite3.Connection:
        return self

    def die(self) -> None:
        """The process is gone."""
        try:
            self._let_go()
            self.close()
        except sqlite3.ProgrammingError:
            # Closed already, by the program itself.
            return


def act_without_waiting(connection: sqlite3.Connection, act: Callable[[], Any]) -> Any:
    """Let the program set its busy timeout, and take it back: nobody can wait in a world of one thread."""
    done = act()
    sqlite3.Cursor.execute(sqlite3.Connection.cursor(connection), "PRAGMA busy_timeout = 0")
    return done


class Lent(Perishable, Protocol):
    """A connection as `sqlite3.connect` would give."""

    isolation_level: Any


class Lender(Protocol):
    """Who has open connections to a file, and lends one to a process in place of a new one."""

    def lend(self, process: Process) -> Lent: ...


#: With these options of `sqlite3.connect` it may be one that was lent. Nobody waits here, and there is one thread.
_LENT_WITH = {"check_same_thread", "isolation_level", "timeout"}


#: By the path of the file.
LENDERS: weakref.WeakValueDictionary[str, Lender] = weakref.WeakValueDictionary()


def _connect(database: Any, *arguments: Any, **more: Any) -> Any:
    owner = OWNER.get()
    if not isinstance(owner, Process):
        return _real_connect(database, *arguments, **more)
    if owner.dead:
        raise Killed
    owner.loop.outside += 1
    if (lender := LENDERS.get(str(database))) is not None and not (arguments or more.keys() - _LENT_WITH):
        lent = lender.lend(owner)
        if "isolation_level" in more:
            lent.isolation_level = more["isolation_level"]
        owner.belongings.append(lent)
        return lent
    more["factory"] = WorldConnection
    more["timeout"] = 0.0
    connection = _real_connect(database, *arguments, **more)
    assert isinstance(connection, WorldConnection)
    connection.process = owner
    connection.cursors = []
    owner.belongings.append(connection)
    return connection


@contextmanager
def owned_databases() -> Iterator[None]:
    """While this lasts, `sqlite3.connect` of a process gives a connection that dies with it."""
    before = sqlite3.connect, sqlite3.dbapi2.connect
    sqlite3.connect = sqlite3.dbapi2.connect = _connect
    try:
        yield
    finally:
        sqlite3.connect, sqlite3.dbapi2.connect = before


class LedgerDisk(MemoryStore):
    """The provider's disk: a store that outlives the process that writes it, each write a crash point."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[Record] = []
        self.watcher: Watcher | None = None

    def load(self) -> Iterable[Record]:
        return tuple(self._records)

    def append(self, records: Sequence[Record]) -> None:
        owner = OWNER.get()
        if isinstance(owner, Process):
            owner.passes("ledger", "lost")
        super().append(records)
        self._records += records
        if isinstance(owner, Process):
            owner.loop.outside += 1
        if self.watcher is not None:
            self.watcher.booked(owner if isinstance(owner, Process) else None, records)
        if isinstance(owner, Process):
            owner.passes("ledger", "unreported")

    def close(self) -> None:
        """A disk does not forget because a program ends."""
