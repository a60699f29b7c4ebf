"""Which store a name means."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.provider.retention import Retention
from simulator.store import Durability, StoreError
from simulator.store.memory import MemoryStore
from simulator.store.opening import about, open_store
from simulator.store.sqlite import SqliteStore
from tests.simulator.store.records import at, booked


def test_a_path_is_a_sqlite_file(tmp_path: Path) -> None:
    """With what was asked of it."""
    store = open_store(
        str(tmp_path / "x.db"), now=lambda: at(0), durability=Durability.POWER, retention=Retention(count=1)
    )

    assert isinstance(store, SqliteStore)
    assert store.durability is Durability.POWER
    store.append([booked(1), booked(2)])
    assert [each.number for each in store.messages("default").found] == [2]
    store.close()


#: Takes a mail and dies, so that everything that belongs to a ledger is left.
DIES = """
import os, sys
from simulator.store.opening import open_store
from tests.simulator.store.records import at, booked
open_store(sys.argv[1], now=lambda: at(0)).append([booked(1)])
os._exit(0)
"""


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_files_of_a_former_version_become_their_owners_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The ledger, what SQLite puts beside it, its log; nothing else that lies there. It is said once."""
    path = tmp_path / "x.db"
    subprocess.run([sys.executable, "-c", DIES, str(path)], check=True, timeout=60)
    ours = {each.name for each in tmp_path.iterdir()}
    others = {"y.db", "x.db-notes", "x.db-log.old", "x.db-wal.bak"}
    for name in others:
        (tmp_path / name).write_text("mine")
    for each in tmp_path.iterdir():
        each.chmod(0o644)

    with caplog.at_level(logging.INFO, "simulator.store"):
        for _ in range(2):
            store = open_store(str(path), now=lambda: at(0))
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
            assert store.mails() == 1
            store.close()

    assert ours == {"x.db", "x.db-wal", "x.db-shm", "x.db-log.1"}
    assert {name for name, mode in modes.items() if mode != 0o600} == others
    (said,) = [each for each in caplog.records if "owner" in each.getMessage()]
    assert said.levelno == logging.WARNING
    # The log of before has been read and is gone; the new one was made for the owner.
    assert said.getMessage() == (
        f"the ledger {path} was open to others; now only its owner may read it (x.db, x.db-shm, x.db-wal)"
    )


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_file_that_is_not_ours_to_close_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else owns it and lets us write: the ledger is served all the same."""
    path = tmp_path / "x.db"
    path.touch(0o644)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refused)
    open_store(str(path), now=lambda: at(0)).close()

    (said,) = [each.getMessage() for each in caplog.records]
    assert said == f"the ledger {path} stays open to others: Operation not permitted"


def test_memory_is_memory() -> None:
    store = open_store("memory", now=lambda: at(0), retention=Retention(count=1))

    assert isinstance(store, MemoryStore)
    store.append([booked(1), booked(2)])
    assert store.mails() == 1


@pytest.mark.parametrize(
    ("name", "durability", "says"),
    [
        ("memory", Durability.POWER, "survives no power cut; name a file"),
        (
            "mysql://root@localhost/x",
            Durability.PROCESS,
            r"begins with mysql://; it must be memory, the path",
        ),
        ("postgresql://nobody@127.0.0.1:1/none", Durability.PROCESS, "cannot be reached"),
    ],
)
def test_what_cannot_be_is_one_sentence(name: str, durability: Durability, says: str) -> None:
    with pytest.raises(StoreError, match=says):
        open_store(name, now=lambda: at(0), durability=durability)


def test_what_people_want_to_know_of_a_ledger_is_one_line(tmp_path: Path) -> None:
    """What a yes survives above all."""
    path = tmp_path / "x.db"
    bounds = Retention(age_s=7 * 86_400, count=1000, bytes=5)
    assert (
        about(MemoryStore(), Retention(age_s=90)) == "memory (forgotten at the end; durable: no; kept: 90 s)"
    )
    for durability, survives in ((Durability.PROCESS, "kill -9"), (Durability.POWER, "a power cut")):
        store = open_store(str(path), now=lambda: at(0), durability=durability)
        store.append([booked(1)])
        assert about(store, bounds) == (
            f"{path} (1 mail from before; durable: every yes survives {survives};"
            " kept: 7 days, 1000 mails, 5 bytes)"
        )
        store.close()
