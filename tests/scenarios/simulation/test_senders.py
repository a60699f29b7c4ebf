"""Tests of senders in the world: snapshots put back exactly, engines that share only compiled statements."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from scenarios.simulation.profiles import PROFILES
from scenarios.simulation.senders import Disk, Owed, ReferenceSender
from scenarios.simulation.shapes import SHAPES
from scenarios.simulation.world import World
from simulator.provider.obligations import Reported


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_a_snapshot_is_put_back_byte_for_byte(disk: Disk) -> None:
    """Whatever a world did to the file is gone, its write-ahead log included."""
    connection = sqlite3.connect(disk.path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    disk.keep("empty")
    before = disk.path.read_bytes()
    connection = sqlite3.connect(disk.path)
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    disk.put_back("empty")
    connection.close()
    disk.put_back("empty")

    assert disk.path.read_bytes() == before
    assert disk.rows("SELECT * FROM t") == []


def test_what_the_application_enqueues_is_said_as_pending(disk: Disk) -> None:
    """One row for each recipient, owed from the commit on."""
    sender = ReferenceSender(disk=disk, profile=PROFILES[0])
    sender.prepare()
    with World() as world:
        sender.enqueue(world, SHAPES["three recipients"].owed[0])

    said = sender.said()

    assert [each.state for each in said] == [Reported.PENDING] * 3
    assert {each.key for each in said} == {"order-1"}


def test_the_first_world_is_like_every_other(disk: Disk) -> None:
    """What a first connection asks of a database is asked before, not by whoever lives in the first world."""
    sender = ReferenceSender(disk=disk, profile=PROFILES[0])
    sender.prepare()
    disk.keep("empty")
    passed = []
    for _ in range(2):
        disk.put_back("empty")
        with World() as world:
            process = world.process("application")
            process.run(sender.enqueue, world, SHAPES["one mail"].owed[0])
            passed.append(dict(process.passed))

    assert passed[0] == passed[1]


def test_an_owed_mail_names_its_promise() -> None:
    """The ledger can tell which promise a mail keeps, whatever the sender does to keys and Message-IDs."""
    assert Owed(ref="order-7", recipients=("a@example.com",)).mail.headers["X-Obligation"] == "order-7"


def test_engines_share_compiled_statements_only(disk: Disk) -> None:
    """Each process has a pool of its own, with the sender's own connection set-up."""
    sender = ReferenceSender(disk=disk, profile=PROFILES[0])
    sender.prepare()
    first, second = sender._engine(), sender._engine()
    try:
        assert first.pool is not second.pool
        assert first._compiled_cache is second._compiled_cache
        with first.begin() as connection:
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    finally:
        first.dispose()
        second.dispose()


def test_the_business_knows_what_it_promised(disk: Disk) -> None:
    """In a table of its own: a mail that the outbox lost, or never had, is owed all the same."""
    sender = ReferenceSender(disk=disk, profile=PROFILES[0])
    sender.prepare()
    with World() as world:
        sender.enqueue(world, SHAPES["three recipients"].owed[0])
    connection = sqlite3.connect(disk.path)
    connection.execute("DELETE FROM outgoing_email")
    connection.commit()
    connection.close()

    assert sender.said() == ()
    assert [ref for ref, _ in sender.promised()] == ["order-1"] * 3


def test_a_look_sees_what_others_commit_and_asks_only_then(disk: Disk) -> None:
    """The same list as long as no process has committed anything; another one as soon as one has."""
    with World() as world:
        process = world.process("application")
        writer = process.run(lambda: sqlite3.connect(disk.path, isolation_level=None))
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (x)")
        first = disk.rows("SELECT x FROM t")

        assert disk.rows("SELECT x FROM t") is first
        writer.execute("BEGIN")
        writer.execute("INSERT INTO t VALUES (1)")
        assert disk.rows("SELECT x FROM t") is first
        writer.execute("COMMIT")
        assert disk.rows("SELECT x FROM t") == [(1,)]
        writer.execute("INSERT INTO t VALUES (2)")
        assert disk.rows("SELECT x FROM t") == [(1,), (2,)]
        disk.look_away()
