"""The ledger file: what is appended is there for the next owner, and a file that cannot be one is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from simulator.provider.answer import RefusedRecipient
from simulator.provider.clock import ClockMoved
from simulator.provider.fate import Destiny, Fate
from simulator.provider.ledger import (
    Acceptance,
    Attempt,
    AttemptState,
    Booked,
    Decided,
    Decision,
    Sent,
    Tried,
    Wiped,
)
from simulator.provider.notes import Noted
from simulator.provider.obligations import Obligation, Reported
from simulator.provider.provider import Record
from simulator.store import StoreError
from simulator.store.sqlite import SCHEMA_VERSION, SqliteStore

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
REFUSED = (RefusedRecipient(recipient="bob@example.com", code=550, enhanced="5.1.1"),)


def booked(
    number: int = 1, account: str = "default", raw: bytes = b"Subject: x\r\n\r\n\x00\xff\r\n"
) -> Booked:
    return Booked(
        acceptance=Acceptance(
            id=f"msg_{account}_{number}",
            number=number,
            account=account,
            attempt=f"att_{number}",
            dialect="native",
            accepted_at=NOW,
            sender="shop@example.org",
            recipients=("ada@example.com", "grüße@example.com"),
            refused=REFUSED,
            message_id="<m@example.org>",
            key="order-1",
            fingerprint="f" * 64,
            subject="Grüße \ud83d",
            size_bytes=len(raw),
            sha256="0" * 64,
            obligation="ref-1",
            fate=Fate.DROPPED,
            destinies=(
                ("ada@example.com", Destiny(fate=Fate.HARD_BOUNCE, after_s=2.5, code=550, text="no")),
            ),
        ),
        raw=raw,
    )


def tried(number: int = 1, account: str = "default") -> Tried:
    return Tried(
        attempt=Attempt(
            id=f"att_{number}",
            number=number,
            account=account,
            dialect="smtp",
            connection="c1",
            peer="127.0.0.1:1",
            opened_at=NOW,
            stage="reply",
            state=AttemptState.CLOSED,
            sender="",
            recipients=("ada@example.com",),
            headers=(("Subject", "x"),),
            refused=REFUSED,
            drop=True,
            accepted=("ada@example.com",),
            answer="250 2.0.0 OK",
            sent=Sent.PARTIAL,
            rules=("rule 1",),
            closed_at=NOW,
        )
    )


def decided(number: int = 1, account: str = "default") -> Decided:
    return Decided(
        decision=Decision(
            number=number,
            account=account,
            attempt="att_1",
            stage="reply",
            rules=("rule 1",),
            answer="reset",
            at=NOW,
        )
    )


OWED = Obligation(
    account="default", ref="ref-1", recipient="Ada@example.com", copies=2, sha256="a" * 64, state=Reported.UNKNOWN
)  # fmt: skip


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


def test_every_record_comes_back_as_it_was(store: SqliteStore) -> None:
    """Acceptances, attempts, decisions and obligations survive, byte for byte; bodies are fetched one by one."""
    records: list[Record] = [decided(), tried(), booked(), OWED]
    store.append(records)

    assert store.raw("msg_default_1") == booked().raw
    assert store.raw("msg_none") is None
    assert reopened(store) == [replace(booked(), raw=b""), tried(), decided(), OWED]


def test_a_later_attempt_of_the_same_id_replaces_the_former(store: SqliteStore) -> None:
    """An attempt is written as it grows."""
    grown = tried()
    store.append([tried()])
    grown.attempt.answer = "251 elsewhere"
    store.append([grown])

    assert reopened(store) == [grown]


def test_records_may_be_appended_again(store: SqliteStore) -> None:
    """Who cannot know whether a write was kept asks twice, and nothing doubles."""
    for _ in range(2):
        store.append([booked(), tried(), decided(), OWED])

    assert len(reopened(store)) == 4


def test_wiping_takes_only_what_is_older_and_of_that_account(store: SqliteStore) -> None:
    """A reset forgets an account, and the account still exists afterwards."""
    store.append([booked(1), booked(1, "shop"), tried(1), decided(1), OWED])
    store.append([Wiped(account="default"), booked(2)])

    assert store.raw("msg_default_1") is None
    assert reopened(store) == [
        Wiped(account="default"),
        replace(booked(1, "shop"), raw=b""),
        replace(booked(2), raw=b""),
    ]


def test_acceptances_come_back_in_the_order_they_were_booked(store: SqliteStore) -> None:
    """The ledger is a sequence, across accounts and runs."""
    order = [booked(2, "b"), booked(1, "a"), booked(1, "b"), booked(2, "a")]
    store.append(order)

    assert reopened(store) == [replace(each, raw=b"") for each in order]


def test_a_write_is_whole_or_not_at_all(store: SqliteStore) -> None:
    """One record that cannot be kept takes its companions with it."""
    bad = replace(booked(2).acceptance, account=None)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="cannot be written"):
        store.append([booked(1), Booked(acceptance=bad, raw=b"")])

    assert reopened(store) == []


def test_a_closed_store_says_so(store: SqliteStore) -> None:
    """And closing twice is no mistake."""
    store.close()
    store.close()

    with pytest.raises(StoreError, match="is closed"):
        store.append([booked()])
    with pytest.raises(StoreError, match="is closed"):
        store.raw("msg_default_1")


# --- one owner --------------------------------------------------------------------------------------


def test_a_ledger_has_one_owner(store: SqliteStore) -> None:
    """A second one is refused, and may come when the first has gone."""
    with pytest.raises(
        StoreError, match=r"is in use by another simulator; stop that one or name another file"
    ):
        SqliteStore(store.path)

    store.close()
    SqliteStore(store.path).close()


def test_the_lock_dies_with_its_owner(path: Path) -> None:
    """After `kill -9` the file can be opened at once, and what was appended is there."""
    code = (
        "import sys; from simulator.store.sqlite import SqliteStore;"
        "from tests.simulator.store.test_sqlite import booked;"
        "store = SqliteStore(sys.argv[1]); store.append([booked()]); print('kept', flush=True); sys.stdin.read()"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
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
    assert [type(record) for record in store.load()] == [Booked]
    store.close()


# --- files that are no ledger -----------------------------------------------------------------------


def database(path: Path, script: str) -> None:
    db = sqlite3.connect(path)
    db.executescript(script)
    db.close()


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """The sentence says what to name instead."""
    with pytest.raises(StoreError, match=r"is a directory; name a file"):
        SqliteStore(tmp_path)


def test_a_file_in_no_directory_is_refused(tmp_path: Path) -> None:
    """Directories are not made: a typing error should not build a tree."""
    with pytest.raises(StoreError, match="there is no directory"):
        SqliteStore(tmp_path / "nowhere" / "ledger.db")


def test_a_file_of_another_kind_is_refused_and_left_alone(path: Path) -> None:
    """Somebody's picture is no ledger."""
    path.write_bytes(b"\x89PNG" * 1000)

    with pytest.raises(StoreError, match="no readable SQLite file"):
        SqliteStore(path)
    assert path.read_bytes() == b"\x89PNG" * 1000


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    """Tables of ours among others' would be a surprise to both."""
    database(path, "CREATE TABLE customer (id INTEGER);")

    with pytest.raises(StoreError, match="database of another program"):
        SqliteStore(path)


@pytest.mark.parametrize(
    ("version", "says"),
    [(SCHEMA_VERSION + 1, "written by a newer simulator"), (0, "it has no schema")],
)
def test_a_ledger_of_another_version_is_refused(store: SqliteStore, version: int, says: str) -> None:
    """The schema's version stands in the file."""
    store.close()
    database(store.path, f"PRAGMA user_version = {version};")

    with pytest.raises(StoreError, match=says):
        SqliteStore(store.path)


def test_a_ledger_of_the_first_version_is_taken_up(store: SqliteStore) -> None:
    """What a former version kept is still there, and what it could not keep can be kept now."""
    kept = booked()
    store.append([kept])
    store.close()
    database(store.path, "DROP TABLE setting; PRAGMA user_version = 1;")

    again = SqliteStore(store.path)
    again.append([ClockMoved(account="a", ahead_s=0.1)])
    found = list(again.load())
    again.close()
    assert [type(record) for record in found] == [ClockMoved, Booked]
    assert found[0] == ClockMoved(account="a", ahead_s=0.1)


def test_a_moved_clock_is_kept_until_the_account_is_wiped(store: SqliteStore) -> None:
    """The last move counts."""
    store.append([ClockMoved(account="a", ahead_s=1.5), ClockMoved(account="a", ahead_s=2.5)])
    assert list(store.load()) == [ClockMoved(account="a", ahead_s=2.5)]

    store.append([Wiped(account="a")])
    assert list(store.load()) == [Wiped(account="a")]


def test_a_note_is_kept_until_it_is_taken_back_or_the_account_is_wiped(store: SqliteStore) -> None:
    """The last note of a name counts, whatever characters the name has."""
    one = Noted(account="a", topic="suppression", name="x:y@example.org", facts='{"1": 2}')
    store.append([replace(one, facts="{}"), one, replace(one, account="b")])
    assert list(store.load()) == [one, replace(one, account="b")]

    store.append([replace(one, facts=None)])
    assert list(store.load()) == [replace(one, account="b")]
    store.append([Wiped(account="b")])
    assert list(store.load()) == [Wiped(account="b")]


def test_a_damaged_ledger_is_refused(store: SqliteStore) -> None:
    """Half a file, and a row that is no record: one sentence each."""
    store.append([booked()])
    store.close()
    database(store.path, "UPDATE acceptance SET facts = '{}';")

    with pytest.raises(StoreError, match="is damaged"):
        reopened(store)

    store.path.write_bytes(store.path.read_bytes()[:5000] + b"\x00" * 20_000)
    with pytest.raises(StoreError, match=r"is damaged|no readable SQLite file"):
        reopened(store)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_written_is_refused(store: SqliteStore) -> None:
    """The system's own reason is passed on."""
    store.close()
    store.path.chmod(0o400)

    with pytest.raises(StoreError, match="Permission denied"):
        SqliteStore(store.path)


def test_an_empty_file_becomes_a_ledger(path: Path) -> None:
    """`mktemp` makes one of those."""
    path.touch()
    store = SqliteStore(path)
    store.append([booked()])

    assert len(reopened(store)) == 1
