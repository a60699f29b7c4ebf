"""Tests of connections that are used again: nobody can tell one from a new one, but by the time it takes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenarios.simulation.disks import owned_databases
from scenarios.simulation.kept import Contents, Drawer, LentConnection, drawer_of
from scenarios.simulation.loop import VirtualLoop, running_in
from scenarios.simulation.matrix import Block
from scenarios.simulation.network import Network
from scenarios.simulation.playing import play_block
from scenarios.simulation.processes import Process
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.world import silence


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with running_in(VirtualLoop()) as loop, owned_databases():
        Network(loop)
        yield loop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.executescript("CREATE TABLE t (x); CREATE TABLE named (id INTEGER PRIMARY KEY, name TEXT)")
    connection.close()
    return path


@pytest.fixture
def drawer(path: Path) -> Iterator[Drawer]:
    drawer = drawer_of(path)
    yield drawer
    drawer.clear()


def connect(process: Process, path: Path, *pragmas: str) -> LentConnection:
    """Connect as a process does, say these PRAGMAs, and ask something."""

    def opened() -> LentConnection:
        connection = sqlite3.connect(path, isolation_level=None)
        assert isinstance(connection, LentConnection)
        for each in pragmas:
            connection.execute(each)
        connection.execute("SELECT count(*) FROM t").fetchall()
        return connection

    opened_by_it: LentConnection = process.run(opened)
    return opened_by_it


def test_what_one_has_left_another_is_lent(loop: VirtualLoop, path: Path, drawer: Drawer) -> None:
    """Killed or closed: the next one that sets it up in the same way gets it, and nothing of the first is open in it."""
    first = Process(loop, "first")
    lent = connect(first, path)
    kept = lent.real()
    lent.execute("BEGIN IMMEDIATE")
    lent.execute("INSERT INTO t VALUES (1)")
    reading = lent.execute("SELECT * FROM t")
    first.kill()

    second = connect(Process(loop, "second"), path)

    assert second.real() is kept
    assert not second.in_transaction
    assert second.execute("SELECT * FROM t").fetchall() == []
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        lent.real()
    with pytest.raises(sqlite3.ProgrammingError):
        reading.fetchall()


def test_who_sets_it_up_differently_gets_another(loop: VirtualLoop, path: Path, drawer: Drawer) -> None:
    """Otherwise a program that does not ask for foreign keys would have those of the one before."""
    process = Process(loop, "a")
    strict = connect(process, path, "PRAGMA foreign_keys = ON")
    kept = strict.real()
    strict.close()

    loose = connect(process, path)
    again = connect(process, path, "PRAGMA foreign_keys = ON")

    assert loose.real() is not kept
    assert loose.execute("PRAGMA foreign_keys").fetchall() == [(0,)]
    assert again.real() is kept
    assert again.execute("PRAGMA foreign_keys").fetchall() == [(1,)]


def test_what_was_changed_later_is_not_lent_again(loop: VirtualLoop, path: Path, drawer: Drawer) -> None:
    """A setting after the first statement would come as a surprise to the next one."""
    process = Process(loop, "a")

    def changed(change: Callable[[LentConnection], object]) -> bool:
        lent = connect(process, path)
        kept = lent.real()
        change(lent)
        lent.close()
        return connect(process, path).real() is not kept

    assert not changed(lambda lent: lent.execute("SELECT 1").fetchall())
    assert changed(lambda lent: lent.execute("PRAGMA foreign_keys = ON"))
    assert changed(lambda lent: lent.create_function("one", 0, lambda: 1))
    assert changed(lambda lent: setattr(lent, "isolation_level", "DEFERRED"))


def test_a_file_that_was_replaced_is_opened_anew(loop: VirtualLoop, path: Path, drawer: Drawer) -> None:
    """Also by who has a connection to the old one just now, and gives it back later."""
    process = Process(loop, "a")
    there, away = connect(process, path), connect(process, path)
    old = {there.real(), away.real()}
    there.close()
    drawer.clear()
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (7)")
    connection.close()
    away.close()

    new = connect(process, path)

    assert new.real() not in old
    assert new.execute("SELECT * FROM t").fetchall() == [(7,)]


def test_two_who_keep_connections_to_a_file_share_a_drawer(path: Path) -> None:
    """One of them replaces the file: the other one's connections are closed, too."""
    assert drawer_of(path) is (kept := drawer_of(path))
    one, other = Disk(path.parent), Disk(path.parent)
    for disk in (one, other):
        disk.keep_connections()
        disk.path.touch()
        disk.wipe()
        with sqlite3.connect(disk.path) as connection:
            connection.execute("CREATE TABLE t (x)")
        connection.close()
    one.keep("empty")
    assert one.rows("SELECT * FROM t") == []
    other.wipe()
    one.put_back("empty")

    assert one.rows("SELECT * FROM t") == []
    assert kept is drawer_of(path)


def test_contents_bring_a_file_back(path: Path) -> None:
    """Rows that came, went or changed, in the order in which they lay, with the numbers they had."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.executescript("INSERT INTO t VALUES (3), (1), (2); INSERT INTO named VALUES (5, 'five')")
        connection.execute("DELETE FROM t WHERE x = 1")
        contents = Contents.of(connection)
        before = list(connection.iterdump()), connection.execute("SELECT rowid, x FROM t").fetchall()
        connection.executescript(
            "DELETE FROM t; UPDATE named SET name = NULL; INSERT INTO named VALUES (6, '')"
        )

        assert contents is not None
        assert contents.put_into(connection)

        assert (
            list(connection.iterdump()),
            connection.execute("SELECT rowid, x FROM t").fetchall(),
        ) == before
    connection.close()


def test_contents_of_other_tables_are_left_alone(path: Path) -> None:
    """Who has made a table meanwhile gets the whole file back, not its rows."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        contents = Contents.of(connection)
        connection.executescript("CREATE TABLE more (x); INSERT INTO t VALUES (1)")

        assert contents is not None
        assert not contents.put_into(connection)
        assert connection.execute("SELECT * FROM t").fetchall() == [(1,)]
    connection.close()


def test_a_trigger_would_have_its_say(path: Path) -> None:
    """Then rows alone are not enough."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER ever AFTER DELETE ON t BEGIN INSERT INTO named VALUES (1, 'gone'); END"
        )

        assert Contents.of(connection) is None
    connection.close()


class _New(Disk):
    """A disk to which each process opens a connection of its own."""

    def keep_connections(self) -> None:
        """Not here."""


@pytest.mark.parametrize(
    ("profile", "script", "victim"),
    [("http-keys", "503", "worker"), ("smtp-at-most-once", "taken, closed", "application")],
)
def test_worlds_go_the_same_way_with_and_without(
    tmp_path: Path, profile: str, script: str, victim: str
) -> None:
    """The same cells, the same crash points that are one, the same bytes on the wire at the same moments."""
    block = Block(profile=profile, script=(script,), shape="one mail", victim=victim, kinds=("sql", "commit"))
    played = []
    for kind in (Disk, _New):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        disk = kind(folder)
        # Twice: the second time every process is lent what the first has left.
        sender = ReferenceSender(disk=disk, profile=BY_ID[profile])
        with silence():
            played += [play_block(block, sender, disk) for _ in range(2)]

    assert {each.error for each in played} == {None}
    assert len({(each.cells, each.played, each.failed, each.not_reached, each.trace) for each in played}) == 1
