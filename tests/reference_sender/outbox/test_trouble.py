"""What errors of the three databases say about the transaction they ended."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg.errors
import pymysql.err  # type: ignore[import-untyped] # it brings no types
import pytest
from sqlalchemy import Connection, insert
from sqlalchemy.exc import DBAPIError, OperationalError

from reference_sender.life import State
from reference_sender.outbox.campaigns import CampaignState, Written
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import campaign
from reference_sender.outbox.store import Store
from reference_sender.outbox.trouble import Trouble, trouble_of
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.contract import ACCEPTED
from tests.reference_sender.outbox.test_bars import CAMPAIGN
from tests.reference_sender.samples import NOW


def wrapped(original: BaseException, *, gone: bool = False) -> DBAPIError:
    return DBAPIError("SELECT 1", {}, original, connection_invalidated=gone)


def of_sqlite(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (psycopg.errors.DeadlockDetected(), Trouble.AT_ONCE),
        (psycopg.errors.SerializationFailure(), Trouble.AT_ONCE),
        (psycopg.errors.LockNotAvailable(), Trouble.LATER),
        (psycopg.errors.DiskFull(), Trouble.LATER),
        (psycopg.errors.TooManyConnections(), Trouble.LATER),
        (psycopg.errors.CannotConnectNow(), Trouble.LATER),
        (psycopg.errors.AdminShutdown(), Trouble.UNSURE),
        (psycopg.errors.ConnectionFailure(), Trouble.UNSURE),
        (psycopg.OperationalError("the connection is lost"), Trouble.UNSURE),
        (psycopg.errors.UniqueViolation(), Trouble.OURS),
        (psycopg.ProgrammingError("no such thing"), Trouble.OURS),
        (pymysql.err.OperationalError(1213, "Deadlock found"), Trouble.AT_ONCE),
        (pymysql.err.OperationalError(1020, "Record has changed"), Trouble.AT_ONCE),
        (pymysql.err.OperationalError(1205, "Lock wait timeout exceeded"), Trouble.LATER),
        (
            pymysql.err.OperationalError(1290, "The MySQL server is running with the --read-only option"),
            Trouble.LATER,
        ),
        (
            pymysql.err.OperationalError(1792, "Cannot execute statement in a READ ONLY transaction"),
            Trouble.LATER,
        ),
        (pymysql.err.OperationalError(1836, "Running in read-only mode"), Trouble.LATER),
        (pymysql.err.OperationalError(2013, "Lost connection"), Trouble.UNSURE),
        (pymysql.err.IntegrityError(1062, "Duplicate entry"), Trouble.OURS),
        (pymysql.err.InterfaceError(0, ""), Trouble.UNSURE),
        (of_sqlite(sqlite3.SQLITE_BUSY), Trouble.LATER),
        (of_sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT), Trouble.AT_ONCE),
        (of_sqlite(sqlite3.SQLITE_IOERR_FSYNC), Trouble.LATER),
        (of_sqlite(sqlite3.SQLITE_CONSTRAINT_UNIQUE), Trouble.OURS),
    ],
    ids=lambda value: f"{type(value).__name__}{getattr(value, 'args', '')}"[:40],
)
def test_each_error_says_what_is_known(error: BaseException, trouble: Trouble) -> None:
    assert trouble_of(wrapped(error)) is trouble


def test_a_broken_connection_leaves_everything_open() -> None:
    assert trouble_of(wrapped(psycopg.errors.UniqueViolation(), gone=True)) is Trouble.UNSURE


class Troubled(Store):
    """A store whose transactions end in trouble: before the commit, or behind it, where only the answer is lost."""

    def __init__(self, bench: SqlBench, *, before: list[BaseException], behind: list[BaseException]) -> None:
        super().__init__(bench.store.engine)
        self.before, self.behind = before, behind
        self.transactions = 0

    def _write(self) -> Any:
        return _Transaction(self)


class _Transaction:
    def __init__(self, store: Troubled) -> None:
        self._store = store
        self._inner = store.engine.begin()

    def __enter__(self) -> Connection:
        self._store.transactions += 1
        return self._inner.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and self._store.before:
            lost = self._store.before.pop(0)
            broken = OperationalError("COMMIT", {}, lost)
            self._inner.__exit__(type(broken), broken, None)
            raise broken
        self._inner.__exit__(kind, error, trace)
        if kind is None and self._store.behind:
            raise OperationalError("COMMIT", {}, self._store.behind.pop(0))


DEADLOCK = psycopg.errors.DeadlockDetected()
CUT = psycopg.OperationalError("the connection is lost")


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    yield SqlBench(store)
    store.engine.dispose()


def test_who_was_pushed_aside_does_it_again(bench: SqlBench) -> None:
    bench.put()
    store = Troubled(bench, before=[DEADLOCK, DEADLOCK], behind=[])
    (parcel,) = store.claim(now=NOW, limit=1, lease_s=60, dedupes=False)
    assert (parcel.token, store.transactions) == (1, 3)
    store.before = [DEADLOCK]
    assert store.mark(parcel, now=NOW)
    store.before = [DEADLOCK]
    assert store.settle(parcel, ACCEPTED, now=NOW)
    assert bench.row().state is State.ACCEPTED
    assert len(bench.attempts()) == 1


def test_what_a_person_does_to_many_rows_is_done_again_as_well(bench: SqlBench) -> None:
    """A campaign is paused while its mails are claimed and settled: PostgreSQL ends one of the two."""
    with bench.begin() as connection:
        connection.execute(insert(campaign), CAMPAIGN)
    bench.put("a", campaign="318")
    store = Troubled(bench, before=[DEADLOCK], behind=[])
    assert store.move_campaign("318", CampaignState.PAUSED, now=NOW)
    assert bench.row().next_attempt_at is None
    store.before = [DEADLOCK]
    assert store.move_campaign("318", CampaignState.RUNNING, now=NOW)
    page = Written(rows=[], members=0, refused=0, cursor=None, last=False, next_at=NOW)
    store.before = [DEADLOCK]
    assert store.write_page(store.campaign("318"), page, now=NOW)
    store.before = [DEADLOCK]
    assert store.withhold([1], now=NOW) == [1]
    store.before = [DEADLOCK]
    assert store.erase_mails([1], address="ann@example.com", now=NOW) == 1
    assert [each.reason for each in bench.attempts()] == ["person: withheld: the recipient is being erased"]


def test_who_is_pushed_aside_again_and_again_leaves_it_to_his_caller(bench: SqlBench) -> None:
    bench.put()
    store = Troubled(bench, before=[DEADLOCK] * 99, behind=[])
    with pytest.raises(OperationalError):
        store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
    assert store.transactions == 4
    assert bench.row().state is State.PENDING


def test_a_claim_whose_answer_was_lost_is_looked_up(bench: SqlBench) -> None:
    """Without that the mail would lie there until its lease runs out."""
    bench.put()
    store = Troubled(bench, before=[], behind=[CUT])
    (parcel,) = store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
    assert (parcel.token, parcel.state, parcel.raw) == (1, State.SENDING, bench.row().raw)


def test_a_claim_that_was_cut_off_before_its_commit_has_taken_nothing(bench: SqlBench) -> None:
    bench.put()
    store = Troubled(bench, before=[CUT], behind=[])
    assert store.claim(now=NOW, limit=1, lease_s=60, dedupes=True) == []
    assert bench.row().state is State.PENDING


@pytest.mark.parametrize("where", ["before", "behind"])
def test_an_end_is_written_once_wherever_the_connection_broke(bench: SqlBench, where: str) -> None:
    bench.put()
    (parcel,) = bench.claim()
    store = Troubled(bench, before=[CUT] * (where == "before"), behind=[CUT] * (where == "behind"))
    assert store.settle(parcel, ACCEPTED, now=NOW)
    assert bench.row().state is State.ACCEPTED
    assert [each.late for each in bench.attempts()] == [False]


def test_a_mistake_of_ours_goes_to_the_caller(bench: SqlBench) -> None:
    bench.put()
    (parcel,) = bench.claim()
    store = Troubled(bench, before=[psycopg.errors.UniqueViolation()], behind=[])
    with pytest.raises(OperationalError):
        store.settle(parcel, ACCEPTED, now=NOW)
    assert store.transactions == 1
