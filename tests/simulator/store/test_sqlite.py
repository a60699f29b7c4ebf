"""The ledger file and its log: what is appended is there for the next owner."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from simulator.provider.clock import ClockMoved
from simulator.provider.ledger import Booked, Named, Wiped
from simulator.provider.notes import Noted
from simulator.provider.provider import Record
from simulator.provider.retention import Retention
from simulator.store import Durability, Store, StoreError
from simulator.store.log import files
from simulator.store.mover import Mover
from simulator.store.sqlite import SqliteStore
from tests.simulator.store.contract import StoreContract
from tests.simulator.store.records import OWED, RAW, at, booked, decided, tried


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "ledger.db")
        yield store
        store.close()

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder, self.count = tmp_path, 0

    def bounded(self, retention: Retention) -> Store:
        self.count += 1
        return SqliteStore(self.folder / f"bounded{self.count}.db", now=lambda: at(100), retention=retention)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


def reopened(store: SqliteStore) -> list[Record]:
    """Return what the next owner of the file finds."""
    store.close()
    again = SqliteStore(store.path)
    try:
        return list(again.load())
    finally:
        again.close()


NOTE = Noted(account="default", topic="plan", name="x", facts="{}")
MOVED = ClockMoved(account="shop", ahead_s=7.5)


def test_every_record_comes_back_as_it_was(store: SqliteStore) -> None:
    """First what is not history, then the history without its bodies."""
    store.append([decided(), tried(), booked(), OWED, NOTE, MOVED])

    assert reopened(store) == [
        Named(account="default"),
        Named(account="shop"),
        MOVED,
        OWED,
        NOTE,
        replace(booked(), raw=b""),
        tried(),
        decided(),
    ]


def test_of_what_is_not_history_the_latest_counts(store: SqliteStore) -> None:
    """And what is no more is gone. Promises come back in the order in which they were made."""
    other = replace(OWED, ref="ref-2")
    store.append([OWED, other, replace(OWED, recipient="ADA@example.com", copies=3), NOTE])
    store.append([replace(NOTE, facts=None), MOVED, ClockMoved(account="shop", ahead_s=9.0)])

    found = reopened(store)
    assert found[2:] == [
        ClockMoved(account="shop", ahead_s=9.0),
        replace(OWED, recipient="ADA@example.com", copies=3),
        other,
    ]


def test_a_reset_leaves_the_name_of_the_account(store: SqliteStore) -> None:
    store.append([booked(1), OWED, NOTE, tried(1), decided(1)])
    store.append([Wiped(account="default")])

    assert reopened(store) == [Named(account="default")]


def test_a_restart_is_given_the_newest_only(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of each account at least the newest: its number names the next one."""
    monkeypatch.setattr("simulator.store.readings.WINDOW", 2)
    store.append([booked(1, "shop"), *(booked(number) for number in range(1, 6))])

    mails = [each.acceptance for each in reopened(store) if isinstance(each, Booked)]
    assert [(each.account, each.number) for each in mails] == [("shop", 1), ("default", 4), ("default", 5)]


def test_acceptances_come_back_in_the_order_they_were_booked(store: SqliteStore) -> None:
    """The ledger is a sequence, across accounts and runs."""
    order = [booked(2, "b"), booked(1, "a"), booked(1, "b"), booked(2, "a")]
    store.append(order)

    assert [each for each in reopened(store) if isinstance(each, Booked)] == [
        replace(each, raw=b"") for each in order
    ]


def test_texts_that_no_database_takes_are_cleaned(store: SqliteStore) -> None:
    """NUL and halves of surrogate pairs become U+FFFD."""
    store.append([booked(subject="a\0b\ud83dc", sender="\udcff@example.org", key="k\0")])

    (found,) = store.messages("default").found
    assert (found.subject, found.sender, found.key) == ("a\ufffdb\ufffdc", "\ufffd@example.org", "k\ufffd")


# --- the log ----------------------------------------------------------------------------------------


class Stalled(Mover):
    """Never moves anything."""

    def _attempt(self, batches: list[object]) -> bool:  # type: ignore[override]
        return False


def crashed(path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a ledger behind as a killed process would: appended to the log, nothing moved."""
    with monkeypatch.context() as patch:
        patch.setattr("simulator.store.sqlite.Mover", Stalled)
        store = SqliteStore(path)
        for record in records:
            store.append([record])
        store._unwind()
    assert len(files(f"{path}-log")) == 1


def test_what_a_crash_left_in_the_log_is_taken_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With bodies and in order; afterwards the log is gone."""
    crashed(
        path, [booked(1), booked(2), Wiped(account="default"), booked(1, raw=b"new"), tried(1)], monkeypatch
    )

    store = SqliteStore(path)
    assert [each.number for each in store.messages("default").found] == [1]
    assert store.body("default", "msg_default_1") == b"new"
    store.close()
    assert files(f"{path}-log") == {}
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name]


def test_a_write_that_a_crash_tore_is_cut(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At any byte: what was whole before it is there, and a line in the log says what was cut."""
    crashed(path, [booked(1), booked(2, raw=b"y")], monkeypatch)
    (log,) = files(f"{path}-log").values()
    whole = log.read_bytes()
    before = path.read_bytes()
    from_second = len(whole) // 2
    for end in range(from_second, len(whole), 97):
        for each in path.parent.iterdir():
            each.unlink()
        path.write_bytes(before)
        log.write_bytes(whole[:end])
        with caplog.at_level(logging.WARNING):
            store = SqliteStore(path)
        kept = [each.number for each in store.messages("default").found]
        store.close()
        assert kept == [1] or end < from_second + 97
        assert "torn by a crash" in caplog.text or kept == []
        caplog.clear()


def test_what_was_moved_is_not_moved_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash after the move and before the log was deleted: the place in the log stands beside the rows."""
    crashed(path, [booked(1), booked(2)], monkeypatch)
    kept = {each: each.read_bytes() for each in files(f"{path}-log").values()}
    SqliteStore(path).close()
    for each, data in kept.items():
        each.write_bytes(data)
    db = sqlite3.connect(path)
    db.execute("DELETE FROM acceptance")
    db.commit()
    db.close()

    store = SqliteStore(path)
    assert store.messages("default").found == ()
    store.close()


def test_a_damaged_log_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage before the end is no torn write; guessing what was lost would be lying."""
    crashed(path, [booked(1), booked(2)], monkeypatch)
    (log,) = files(f"{path}-log").values()
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)

    with pytest.raises(StoreError, match=r"ledger\.db-log\.1 is damaged at byte 16 of \d+, before its end"):
        SqliteStore(path)


def test_a_log_that_has_grown_large_is_followed_by_another(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the old one is deleted once it has been moved."""
    monkeypatch.setattr("simulator.store.log.FILE_BYTES", 4_000)
    store = SqliteStore(path)
    for number in range(1, 30):
        store.append([booked(number)])
    store.messages("default")
    (last,) = files(f"{path}-log")

    assert last > 5
    assert len(store.messages("default").found) == 29
    store.close()


@pytest.mark.parametrize("durability", [Durability.PROCESS, Durability.POWER])
def test_what_was_appended_survives_kill_9(path: Path, durability: Durability) -> None:
    """The lock dies with its owner, and the next one finds everything that `append` returned for."""
    code = (
        "import sys; from simulator.store import Durability; from simulator.store.sqlite import SqliteStore;"
        "from tests.simulator.store.records import booked;"
        "store = SqliteStore(sys.argv[1], durability=Durability(sys.argv[2]));"
        "[store.append([booked(n)]) for n in range(1, 301)]; print('kept', flush=True); sys.stdin.read()"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path), durability.value],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"kept\n"
        with pytest.raises(StoreError, match="in use"):
            SqliteStore(path)
        owner.send_signal(signal.SIGKILL)
        owner.wait()

    store = SqliteStore(path)
    assert [each.number for each in store.acceptances("default")] == list(range(1, 301))
    assert store.body("default", "msg_default_300") == RAW
    store.close()


def test_power_durability_syncs_before_it_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says that it is not for an event loop."""
    synced: list[int] = []
    real = os.fdatasync

    def sync(fd: int) -> None:
        synced.append(fd)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", sync)

    for durability, syncs in ((Durability.PROCESS, 0), (Durability.POWER, 2)):
        store = SqliteStore(path, durability=durability)
        store.append([booked(1)])
        store.append([booked(2)])
        assert len(synced) == syncs
        assert store.is_quick is (durability is Durability.PROCESS)
        store.close()


# --- what goes wrong --------------------------------------------------------------------------------


def test_a_file_that_cannot_be_written_any_more_says_so(store: SqliteStore) -> None:
    """Whoever reads is told; what is appended meanwhile is in the log, and read once it works again."""
    store.append([booked(1)])
    store.messages("default")
    blocker = sqlite3.connect(store.path, isolation_level=None)
    store._db.execute("PRAGMA busy_timeout = 0")
    blocker.execute("BEGIN IMMEDIATE")
    store.append([booked(2)])
    with pytest.raises(StoreError, match="cannot be written: database is locked"):
        store.messages("default")
    blocker.execute("ROLLBACK")
    blocker.close()
    store._mover.nudge()
    store._mover.make_room()

    store.append([booked(3)])
    with store._mover._condition:
        assert store._mover._condition.wait_for(lambda: store._mover.trouble is None, 10)
    assert [each.number for each in store.messages("default").found] == [1, 2, 3]


def test_a_closed_store_says_so(store: SqliteStore) -> None:
    """And closing twice is no mistake."""
    store.close()
    store.close()

    for touch in (
        lambda: store.append([booked()]),
        lambda: store.body("default", "msg_default_1"),
        lambda: store.with_key("default", "k"),
    ):
        with pytest.raises(StoreError, match="is closed"):
            touch()


def test_a_damaged_row_is_refused(store: SqliteStore) -> None:
    store.append([booked()])
    store.close()
    db = sqlite3.connect(store.path)
    db.execute("UPDATE acceptance SET facts = '{}'")
    db.commit()
    db.close()

    with pytest.raises(StoreError, match=r"is damaged \(.*\); restore it from a copy"):
        reopened(store)
