"""Connections to a file that are used again: a process is lent one in place of a new one.

To a program it is a new connection: nothing of it is open, and it is set up as this program sets it up. What it saves
is what SQLite would do anew for each process of each world – open the file, read the schema, compile the statements –
which is a quarter of a world's time. Only where it is known what programs do to their connections: they set
`isolation_level`, say some `PRAGMA name = value`, give functions that are the same each time, and then begin.
Whatever else they set later, that connection is not lent again.
"""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from scenarios.simulation.disks import LENDERS, Kind, Passing, WorldCursor, act_without_waiting, kind_of
from scenarios.simulation.processes import Process

#: What a program did to a connection before its first statement, in its order.
_SetUp = tuple[tuple[Any, ...], ...]


class Drawer:
    """The open connections to one file that nobody uses just now. There is one for a file, see `drawer_of`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: defaultdict[_SetUp, list[sqlite3.Connection]] = defaultdict(list)
        self._looking: sqlite3.Connection | None = None
        self._born_in = os.getpid()
        self.files = 0
        """How often the file has become another one."""

    def lend(self, process: Process) -> LentConnection:
        return LentConnection(process, self)

    def take_out(self, set_up: _SetUp) -> sqlite3.Connection:
        """Give a connection that was set up like this, or set up a new one."""
        self._only_of_this_process()
        kept = self._kept[set_up]
        return kept.pop() if kept else _opened(self._path, set_up)

    def put_in(self, set_up: _SetUp, connection: sqlite3.Connection, *, file: int) -> None:
        """Take back a connection on which nothing is open; it is closed if the file is another one by now."""
        if file == self.files:
            self._kept[set_up].append(connection)
        else:
            connection.close()

    def look(self) -> sqlite3.Connection:
        """Give the connection of whoever looks into the file from outside, in autocommit mode."""
        self._only_of_this_process()
        if self._looking is None:
            self._looking = sqlite3.connect(self._path, isolation_level=None)
        return self._looking

    def clear(self) -> None:
        """Close them all: the file is about to be another one."""
        self.files += 1
        for kept in self._kept.values():
            while kept:
                kept.pop().close()
        if self._looking is not None:
            self._looking.close()
            self._looking = None

    def _only_of_this_process(self) -> None:
        if self._born_in != os.getpid():
            # SQLite's files must not be carried over a fork; who made these goes on with them.
            self._kept, self._looking, self._born_in = defaultdict(list), None, os.getpid()


def drawer_of(path: Path) -> Drawer:
    """Return the drawer of this file, which several may hold; it is gone with the last of them."""
    known = LENDERS.get(str(path))
    if known is None:
        known = LENDERS[str(path)] = Drawer(str(path))
    assert isinstance(known, Drawer)
    return known


def _opened(path: str, set_up: _SetUp) -> sqlite3.Connection:
    connection: sqlite3.Connection = sqlite3.dbapi2.Connection(path, timeout=0.0)
    for what in set_up:
        _set_on(connection, what)
    return connection


def _set_on(connection: sqlite3.Connection, what: tuple[Any, ...]) -> None:
    kind, *how = what
    if kind == "isolation_level":
        (connection.isolation_level,) = how
    elif kind == "function":
        name, arguments, function, deterministic = how
        connection.create_function(name, arguments, function, deterministic=deterministic)
    else:
        (sql,) = how
        act_without_waiting(connection, lambda: connection.execute(sql).fetchall())


class LentConnection(Passing):
    """A connection of a process to a file of which connections are kept."""

    def __init__(self, process: Process, drawer: Drawer) -> None:
        self.process = process
        self.cursors = []
        self._drawer = drawer
        self._set_up: list[tuple[Any, ...]] = []
        self._lent: sqlite3.Connection | None = None
        self._file = 0
        self._is_as_lent = True
        self._is_closed = False

    def real(self) -> sqlite3.Connection:
        if self._is_closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        if self._lent is None:
            self._lent, self._file = self._drawer.take_out(tuple(self._set_up)), self._drawer.files
            self._rows_changed = self._lent.total_changes
        return self._lent

    # --- what a program does before its first statement -----------------------------------------------

    def cursor(self, factory: Any = None) -> Any:
        if self._lent is None and not self._is_closed:
            self._alive()
            return _FirstCursor(self)
        return super().cursor(factory)

    @property
    def isolation_level(self) -> Any:
        return self.real().isolation_level

    @isolation_level.setter
    def isolation_level(self, level: str | None) -> None:
        self._set("isolation_level", level)

    def create_function(
        self, name: str, arguments: int, function: Callable[..., Any] | None, *, deterministic: bool = False
    ) -> None:
        self._set("function", name, arguments, function, deterministic)

    def says(self, pragma: str) -> None:
        """Run a PRAGMA that sets something; the same crash points as on any connection."""
        process = self.process
        assert process is not None
        if kind_of(pragma) is Kind.BUSY_TIMEOUT:
            self._set("pragma", pragma)
            return
        process.passes("sql", "before")
        self._set("pragma", pragma)
        self._changed()
        process.passes("sql", "after")

    def passing(self, sql: str, act: Callable[..., Any], *arguments: Any) -> Any:
        if _sets(sql):
            self._is_as_lent = False
        return super().passing(sql, act, *arguments)

    def commit(self) -> None:
        if self._lent is not None or self._is_closed:
            super().commit()

    def rollback(self) -> None:
        if self._lent is not None or self._is_closed:
            super().rollback()

    def _set(self, *what: Any) -> None:
        if self._lent is None:
            self._set_up.append(what)
            return
        _set_on(self.real(), what)
        self._is_as_lent = False

    def __enter__(self) -> Self:
        return self

    # --- the rest of a connection ---------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        return self._lent is not None and self._lent.in_transaction

    @property
    def total_changes(self) -> int:
        return self.real().total_changes

    def close(self) -> None:
        if self._is_closed:
            return
        if self._lent is not None:
            self._let_go()
            if self._is_as_lent:
                self._drawer.put_in(tuple(self._set_up), self._lent, file=self._file)
            else:
                self._lent.close()
        self._is_closed, self._lent = True, None

    def die(self) -> None:
        """The process is gone."""
        self.close()


class _FirstCursor:
    """A cursor of a connection that may still be set up; it becomes a real one with its first other statement."""

    def __init__(self, connection: LentConnection) -> None:
        self._connection = connection
        self._cursor: WorldCursor | None = None

    def execute(self, sql: str, *parameters: Any) -> Any:
        if self._cursor is None and _sets(sql):
            self._connection.says(sql)
            return self
        return self._real().execute(sql, *parameters)

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()

    def _real(self) -> Any:
        if self._cursor is None:
            self._connection.real()
            self._cursor = self._connection.cursor()
        return self._cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)

    def __iter__(self) -> Any:
        return iter(self._real())


def _sets(sql: str) -> bool:
    return sql.startswith("PRAGMA") and "=" in sql


@dataclass(frozen=True, slots=True)
class Contents:
    """What stands in the tables of a file: enough to bring it back while connections to it are open."""

    schema_version: int
    tables: tuple[tuple[str, str, tuple[tuple[Any, ...], ...]], ...]
    """For each table the statement that empties it, the one that fills it, and its rows."""

    @classmethod
    def of(cls, connection: sqlite3.Connection) -> Contents | None:
        """Read a file. None if rows alone would not bring it back: a trigger would have its say."""
        listed = connection.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()
        if any(kind == "trigger" for kind, _ in listed):
            return None
        names = [name for kind, name in listed if kind == "table"]
        ((version,),) = connection.execute("PRAGMA schema_version").fetchall()
        return cls(schema_version=version, tables=tuple(_table(connection, name) for name in names))

    def put_into(self, connection: sqlite3.Connection) -> bool:
        """Make the file what it was, by a connection in autocommit mode. False, and nothing done, if its tables are others."""
        if connection.execute("PRAGMA schema_version").fetchall() != [(self.schema_version,)]:
            return False
        connection.execute("BEGIN IMMEDIATE")
        for empty, fill, rows in self.tables:
            connection.execute(empty)
            if rows:
                connection.executemany(fill, rows)
        connection.execute("COMMIT")
        return True


def _table(connection: sqlite3.Connection, name: str) -> tuple[str, str, tuple[tuple[Any, ...], ...]]:
    columns = [f'"{column[1]}"' for column in connection.execute(f'PRAGMA table_info("{name}")')]
    try:
        # Not every table has a column that is its rowid, and who reads without an ORDER BY sees the order of rowids.
        rows = connection.execute(f'SELECT rowid, * FROM "{name}" ORDER BY rowid').fetchall()
        columns.insert(0, "rowid")
    except sqlite3.OperationalError:
        rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()
    marks = ", ".join("?" * len(columns))
    return (
        f'DELETE FROM "{name}"',
        f'INSERT INTO "{name}" ({", ".join(columns)}) VALUES ({marks})',
        tuple(rows),
    )
