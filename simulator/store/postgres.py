"""The ledger in PostgreSQL: its tables in a schema of their own, one simulator at a time.

PostgreSQL has a log of its own, so there is none of ours: `append` is a transaction, made in a thread. Whether it is on
the server's disk when it returns is `synchronous_commit`; the death of the simulator loses nothing either way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from simulator.provider.provider import Record
from simulator.provider.retention import FOR_EVER, Retention
from simulator.store import Durability, StoreError
from simulator.store.entries import encode
from simulator.store.readings import Readings
from simulator.store.schema import POSTGRES_SCHEMA, POSTGRES_VERSION
from simulator.store.writer import Result, Writer

if TYPE_CHECKING:
    import psycopg

SCHEMA_NAME = "mailproof_ledger"
#: How long we wait for the server to answer at all, in seconds.
CONNECT_TIMEOUT_S = 10


@cache
def _marked(query: str) -> str:
    """Write a query as psycopg reads it."""
    return query.replace("%", "%%").replace("?", "%s")


class _Database:
    """A connection as `Writer` knows it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Result:
        return self._connection.execute(_marked(query), values)

    def executemany(self, query: str, rows: Sequence[Sequence[Any]], /) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_marked(query), rows)


class PostgresStore(Readings):
    """A ledger in a database. Raises `StoreError` when it cannot be had."""

    INSTR: ClassVar[str] = "strpos"
    is_quick = False

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] | None = None,
        durability: Durability = Durability.PROCESS,
        retention: Retention = FOR_EVER,
        schema: str = SCHEMA_NAME,
    ) -> None:
        """`now` is needed for a retention by age."""
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as problem:
            raise StoreError(
                "a ledger in PostgreSQL needs psycopg: pip install 'mailproof[postgres]'"
            ) from problem
        self._psycopg = psycopg
        self._url = url
        self._schema = schema
        self._now = now
        self.durability = durability
        self._retention = retention
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._glancing = threading.Lock()
        self._closed = False
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error as problem:
            raise StoreError(f"--ledger is no URL of PostgreSQL: {_said(problem)}") from problem
        # A password has no place in sentences.
        host, database = parts.get("host") or "localhost", parts.get("dbname") or parts.get("user") or ""
        self.name = f"{database} at {host}"
        with self._writing:
            self._writer = self._own()

    # --- the one that writes ------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:
        """Keep all of these in one transaction, or none."""
        entries = [encode(record) for record in records]
        if not entries:
            return
        with self._writing:
            self._check_open()
            try:
                if self._connections["write"].broken or self._connections["write"].closed:
                    self._writer = self._own()
                self._write(entries)
            except (self._psycopg.Error, OverflowError) as problem:
                raise StoreError(f"the ledger {self.name} cannot be written: {_said(problem)}") from problem

    def _write(self, entries: Sequence[Any]) -> None:
        connection = self._connections["write"]
        try:
            with connection.transaction():
                self._writer.write(entries)
                if self._retention.is_bounded:
                    self._writer.trim(self._retention, self._now)
                self._writer.flush()
        except BaseException:
            # What it counted and named was taken back with the transaction.
            if not connection.broken and not connection.closed:
                self._writer = Writer(_Database(connection))
            raise

    def _own(self) -> Writer:
        """Connect, make the database ours, and see to it that it has the tables of this version."""
        connection = self._connect("write")
        try:
            mine = connection.execute("SELECT pg_try_advisory_lock(hashtext(%s))", (self._schema,)).fetchone()
            if mine != (True,):
                raise StoreError(
                    f"the ledger {self.name} is in use by another simulator; stop that one or name another database"
                )
            with connection.transaction():
                self._migrate(connection)
            return Writer(_Database(connection))
        except self._psycopg.Error as problem:
            connection.close()
            raise StoreError(f"the ledger {self.name} cannot be opened: {_said(problem)}") from problem
        except BaseException:
            connection.close()
            raise

    def _migrate(self, connection: psycopg.Connection[Any]) -> None:
        found = connection.execute("SELECT to_regclass(%s)", (f'"{self._schema}".meta',)).fetchone()
        if found == (None,):
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')
            for statement in POSTGRES_SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('schema', %s)", (POSTGRES_VERSION,))
            return
        row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        version = 0 if row is None else row[0]
        if version > POSTGRES_VERSION:
            raise StoreError(
                f"the ledger {self.name} was written by a newer simulator (schema {version}, this one knows"
                f" {POSTGRES_VERSION}); use that one or name another database"
            )
        if version < 1:
            raise StoreError(f"the ledger {self.name} is damaged: it has no schema; name another database")

    def close(self) -> None:
        """Let go of the database."""
        self._closed = True
        for connection in self._connections.values():
            connection.close()

    # --- those that read ----------------------------------------------------------------------------

    def _catch_up(self) -> None:
        self._check_open()

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._ask("read", self._reading, query, values)

    def _glance(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._ask("glance", self._glancing, query, values)

    def _ask(
        self, purpose: str, lock: threading.Lock, query: str, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        with lock:
            self._check_open()
            try:
                connection = self._connections.get(purpose)
                if connection is None or connection.broken or connection.closed:
                    connection = self._connect(purpose)
                return connection.execute(_marked(query), values).fetchall()
            except self._psycopg.Error as problem:
                raise StoreError(f"the ledger {self.name} cannot be read: {_said(problem)}") from problem

    def _connect(self, purpose: str) -> psycopg.Connection[Any]:
        try:
            connection = self._psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name="mailproof simulator",
            )
            self._connections[purpose] = connection
            connection.execute(f'SET search_path TO "{self._schema}"')
            level = "on" if self.durability is Durability.POWER else "off"
            connection.execute(f"SET synchronous_commit TO {level}")
        except self._psycopg.Error as problem:
            raise StoreError(
                f"the ledger {self.name} cannot be reached: {_said(problem)}; start PostgreSQL or name another ledger"
            ) from problem
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the ledger {self.name} is closed")


def _said(problem: Exception) -> str:
    """Return what went wrong in one line; the server adds lines with hints and positions."""
    lines = str(problem).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(problem).__name__
