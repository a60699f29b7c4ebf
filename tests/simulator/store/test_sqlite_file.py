"""A ledger file has one owner, and a file that cannot be one is refused in a sentence."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest

from simulator.store import StoreError
from simulator.store.schema import SCHEMA_VERSION
from simulator.store.sqlite_file import SqliteFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def opened(path: Path) -> SqliteFile:
    return SqliteFile(path, synced=False)


def database(path: Path, script: str) -> None:
    db = sqlite3.connect(path)
    db.executescript(script)
    db.close()


def test_a_ledger_has_one_owner(path: Path) -> None:
    """A second one is refused, and may come when the first has gone."""
    file = opened(path)
    with pytest.raises(
        StoreError, match=r"is in use by another simulator; stop that one or name another file"
    ):
        opened(path)
    file.close()
    file.close()

    opened(path).close()


def test_connections_keep_what_they_write(path: Path) -> None:
    """A commit is in the operating system's hands (WAL), or on the disk if that is wanted."""
    for synced, level in ((False, 1), (True, 2)):
        file = SqliteFile(path, synced=synced)
        db = file.connect(cache_kib=1024)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (level,)
        db.close()
        file.close()


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """The sentence says what to name instead."""
    with pytest.raises(StoreError, match=r"is a directory; name a file"):
        opened(tmp_path)


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    """So is a file in a folder that we may not look into: the system refuses before there is a file to open."""
    with pytest.raises(StoreError, match=r"the ledger .* cannot be opened: File name too long"):
        opened(tmp_path / ("x" * 300))


def test_a_file_in_no_directory_is_refused(tmp_path: Path) -> None:
    """Directories are not made: a typing error should not build a tree."""
    with pytest.raises(StoreError, match="there is no directory"):
        opened(tmp_path / "nowhere" / "ledger.db")


def test_the_reason_is_the_systems(tmp_path: Path) -> None:
    """A folder that is there is not called missing: here a link leads nowhere, in /proc no file can be made."""
    (tmp_path / "ledger.db").symlink_to(tmp_path / "nowhere" / "ledger.db")
    for path in (tmp_path / "ledger.db", *(Path("/proc/x.db") for _ in range(sys.platform == "linux"))):
        with pytest.raises(StoreError) as wrong:
            opened(path)
        assert str(wrong.value) == f"the ledger {path} cannot be created: No such file or directory"


def test_a_file_of_another_kind_is_refused_and_left_alone(path: Path) -> None:
    """Somebody's picture is no ledger."""
    path.write_bytes(b"\x89PNG" * 1000)

    with pytest.raises(StoreError, match="no readable SQLite file"):
        opened(path)
    assert path.read_bytes() == b"\x89PNG" * 1000


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    """Tables of ours among others' would be a surprise to both."""
    database(path, "CREATE TABLE customer (id INTEGER);")

    with pytest.raises(StoreError, match="database of another program"):
        opened(path)


def test_a_ledger_of_a_newer_version_is_refused(path: Path) -> None:
    opened(path).close()
    database(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1};")

    with pytest.raises(StoreError, match="written by a newer simulator"):
        opened(path)


def test_a_ledger_without_a_version_is_refused(path: Path) -> None:
    opened(path).close()
    database(path, "PRAGMA user_version = 0;")

    with pytest.raises(StoreError, match="has no schema"):
        opened(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_written_is_refused(path: Path) -> None:
    """The system's own reason is passed on."""
    path.touch(mode=0o400)

    with pytest.raises(StoreError, match="Permission denied"):
        opened(path)


def test_an_empty_file_becomes_a_ledger(path: Path) -> None:
    """`mktemp` makes one of those."""
    path.touch()
    file = opened(path)

    assert file.is_new
    file.close()
    again = opened(path)
    assert not again.is_new
    again.close()
