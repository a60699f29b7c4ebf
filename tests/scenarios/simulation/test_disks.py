"""Tests of databases in the world: committed stays, uncommitted goes, locks are freed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from scenarios.simulation.disks import WorldConnection, owned_databases
from scenarios.simulation.kept import drawer_of
from scenarios.simulation.loop import VirtualLoop, running_in
from scenarios.simulation.network import Network
from scenarios.simulation.processes import CrashPoint, Killed, Process


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with running_in(VirtualLoop()) as loop, owned_databases():
        Network(loop)
        yield loop


@pytest.fixture(params=["new connections", "kept ones"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    kept = drawer_of(path) if request.param == "kept ones" else None
    yield path
    if kept is not None:
        kept.clear()


def rows(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    try:
        return [x for (x,) in connection.execute("SELECT x FROM t ORDER BY x")]
    finally:
        connection.close()


def write(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("COMMIT")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO t VALUES (2)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("point", "kept"),
    [
        (CrashPoint("sql", "before", 2), []),
        (CrashPoint("sql", "after", 2), []),
        (CrashPoint("commit", "lost", 1), []),
        (CrashPoint("commit", "unreported", 1), [1]),
        (CrashPoint("sql", "after", 4), [1]),
        (CrashPoint("commit", "lost", 2), [1]),
        (CrashPoint("commit", "unreported", 2), [1, 2]),
    ],
    ids=str,
)
def test_a_kill_keeps_what_was_committed(
    loop: VirtualLoop, path: Path, point: CrashPoint, kept: list[int]
) -> None:
    """Both ways to commit, `COMMIT` and `commit()`, are crash points on either side."""
    process = Process(loop, "victim", crash=point)

    with pytest.raises(Killed):
        process.run(write, path)

    assert rows(path) == kept


def test_a_kill_frees_the_lock(loop: VirtualLoop, path: Path) -> None:
    """Another process writes at once; a transaction of the dead is in nobody's way."""
    victim, heir = Process(loop, "victim"), Process(loop, "heir")
    kept: list[sqlite3.Connection] = []

    def begin() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        kept.append(connection)

    victim.run(begin)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        heir.run(write, path)
    victim.kill()
    heir.run(write, path)

    assert rows(path) == [1, 2]


def test_the_dead_execute_nothing(loop: VirtualLoop, path: Path) -> None:
    """Code that still unwinds in a killed process cannot reach its database any more."""
    process = Process(loop, "victim")
    connection = process.run(sqlite3.connect, path)
    process.kill()

    with pytest.raises(Killed):
        connection.execute("INSERT INTO t VALUES (9)")
    assert rows(path) == []


def test_the_block_of_a_connection_is_a_commit_like_another(loop: VirtualLoop, path: Path) -> None:
    """`with connection:` and `executescript()` commit, so there is a crash point on either side."""

    def write_in_blocks() -> None:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("INSERT INTO t VALUES (1)")
        with contextlib.suppress(ZeroDivisionError), connection:
            connection.execute("INSERT INTO t VALUES (2)")
            raise ZeroDivisionError
        connection.executescript("INSERT INTO t VALUES (3); INSERT INTO t VALUES (4);")

    for number, kept in ((1, []), (2, [1])):
        victim = Process(loop, "victim", crash=CrashPoint("commit", "lost", number))
        with pytest.raises(Killed):
            victim.run(write_in_blocks)
        assert rows(path) == kept
    Process(loop, "other").run(write_in_blocks)
    assert rows(path) == [1, 1, 3, 4]


def test_only_what_becomes_durable_is_a_change_outside(loop: VirtualLoop, path: Path) -> None:
    """Statements of an open transaction are rolled back by a kill, wherever it comes; reads change nothing."""
    process = Process(loop, "victim")
    process.tell_moments()
    connection = process.run(lambda: sqlite3.connect(path, isolation_level=None))

    def changes(sql: str) -> bool:
        before = loop.outside
        process.run(connection.execute, sql)
        return loop.outside != before

    assert [
        changes(sql)
        for sql in (
            "BEGIN IMMEDIATE",
            "INSERT INTO t VALUES (1)",
            "SELECT * FROM t",
            "ROLLBACK",
            "SELECT * FROM t",
            "INSERT INTO t VALUES (2)",
            "BEGIN",
            "INSERT INTO t VALUES (3)",
            "COMMIT",
        )
    ] == [False, False, False, False, False, True, False, False, True]


def test_who_was_killed_opens_no_database(loop: VirtualLoop, path: Path) -> None:
    """Not even in the `except` or `finally` through which it unwinds."""
    process = Process(loop, "victim")
    process.kill()

    with pytest.raises(Killed):
        process.run(sqlite3.connect, path)


def test_outside_of_processes_nothing_is_changed(loop: VirtualLoop, path: Path) -> None:
    """The harness itself reads with plain connections."""
    connection = sqlite3.connect(path)
    try:
        assert not isinstance(connection, WorldConnection)
    finally:
        connection.close()


class _Watching:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def committed(self, process: Process, statements: tuple[str, ...]) -> None:
        self.seen.append(statements)

    def booked(self, process: Process | None, records: Sequence[Any]) -> None:
        """Not asked here."""

    def died(self, process: Process, cause: str) -> None:
        """Nor is this."""


def test_a_watcher_is_told_what_is_committed_and_nothing_else(loop: VirtualLoop, path: Path) -> None:
    """Reads, rolled back writes, empty transactions and writes that find no row are no news; one outside of any is."""
    process = Process(loop, "application")
    process.watcher = watching = _Watching()

    def work() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("INSERT INTO t VALUES (10)")
        for end in ("ROLLBACK", "COMMIT"):
            connection.execute("BEGIN")
            connection.execute("INSERT INTO t VALUES (11)")
            connection.execute("SELECT * FROM t").fetchall()
            connection.execute(end)
        connection.execute("BEGIN")
        connection.execute("COMMIT")
        connection.execute("BEGIN")
        connection.execute("DELETE FROM t WHERE rowid = -1")
        connection.execute("COMMIT")

    process.run(work)

    assert watching.seen == [("INSERT INTO t VALUES (10)",), ("INSERT INTO t VALUES (11)",)]
