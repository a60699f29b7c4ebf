"""The ledger in PostgreSQL, where one answers: the same contract, one owner, and it comes back after a restart.

MAILPROOF_POSTGRES_URL names another server. With CI=true a missing server is a failure, elsewhere a printed skip.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from simulator.provider.clock import ClockMoved
from simulator.provider.ledger import Booked, Named
from simulator.provider.retention import Retention
from simulator.store import Durability, Store, StoreError
from simulator.store.postgres import PostgresStore
from simulator.store.schema import POSTGRES_VERSION
from tests.simulator.store.contract import StoreContract
from tests.simulator.store.records import OWED, at, booked, decided, tried

URL = os.environ.get("MAILPROOF_POSTGRES_URL", "postgresql://postgres:postgres@localhost:5432/postgres")

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    try:
        connection = psycopg.connect(URL, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as problem:
        reason = f"no PostgreSQL answers: {str(problem).splitlines()[0]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with connection:
        yield connection


@pytest.fixture
def schema(server: psycopg.Connection[tuple[object, ...]]) -> Iterator[str]:
    """A place of one's own, which is gone afterwards."""
    name = f"ledger_test_{os.getpid()}_{next(_numbers)}"
    yield name
    server.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store(self, schema: str) -> Iterator[Store]:
        store = PostgresStore(URL, schema=schema)
        yield store
        store.close()

    @pytest.fixture(autouse=True)
    def _server(self, server: psycopg.Connection[tuple[object, ...]]) -> Iterator[None]:
        self.server, self.made = server, list[str]()
        yield
        for name in self.made:
            server.execute(f"DROP SCHEMA {name} CASCADE")

    def bounded(self, retention: Retention) -> Store:
        self.made.append(f"ledger_test_{os.getpid()}_{next(_numbers)}")
        return PostgresStore(URL, schema=self.made[-1], now=lambda: at(100), retention=retention)


def test_everything_is_there_after_a_restart(schema: str) -> None:
    store = PostgresStore(URL, schema=schema)
    store.append([decided(), tried(), booked(), OWED, ClockMoved(account="default", ahead_s=7.5)])
    store.close()

    again = PostgresStore(URL, schema=schema)
    assert list(again.load()) == [
        Named(account="default"),
        ClockMoved(account="default", ahead_s=7.5),
        OWED,
        replace(booked(), raw=b""),
        tried(),
        decided(),
    ]
    assert again.mails() == 1
    again.close()


def test_a_ledger_has_one_owner(schema: str) -> None:
    """The lock is the connection's: it dies with the process."""
    store = PostgresStore(URL, schema=schema)
    with pytest.raises(StoreError, match="is in use by another simulator"):
        PostgresStore(URL, schema=schema)
    store.close()

    PostgresStore(URL, schema=schema).close()


def test_a_write_is_whole_or_not_at_all(schema: str) -> None:
    """And what a failed one had counted is taken back."""
    store = PostgresStore(URL, schema=schema)
    bad = Booked(acceptance=replace(booked(2, "shop").acceptance, number=1 << 70), raw=b"")
    with pytest.raises(StoreError, match="cannot be written"):
        store.append([booked(1, "shop"), bad])
    assert store.mails() == 0
    store.append([booked(1, "shop")])
    assert [each.number for each in store.messages("shop").found] == [1]
    assert store.mails() == 1
    store.close()


def test_it_comes_back_after_the_server_was_gone(
    schema: str, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    """The write that met it fails, the next one connects again; nothing doubles."""
    store = PostgresStore(URL, schema=schema)
    store.append([booked(1)])
    store.messages("default")
    for connection in store._connections.values():
        server.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
    with pytest.raises(StoreError, match="cannot be written"):
        store.append([booked(2)])
    with pytest.raises(StoreError, match="cannot be read"):
        store.messages("default")
    store.append([booked(2)])

    assert [each.number for each in store.messages("default").found] == [1, 2]
    store.close()


@pytest.mark.parametrize(("durability", "level"), [(Durability.PROCESS, "off"), (Durability.POWER, "on")])
def test_what_a_power_cut_may_take_is_what_was_asked_for(
    schema: str, durability: Durability, level: str
) -> None:
    store = PostgresStore(URL, schema=schema, durability=durability)

    assert store._connections["write"].execute("SHOW synchronous_commit").fetchone() == (level,)
    assert not store.is_quick
    store.close()


def test_a_ledger_of_a_newer_version_is_refused(
    schema: str, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    PostgresStore(URL, schema=schema).close()
    server.execute(f"UPDATE {schema}.meta SET value = %s WHERE name = 'schema'", (POSTGRES_VERSION + 1,))

    with pytest.raises(StoreError, match="written by a newer simulator"):
        PostgresStore(URL, schema=schema)


def test_names_that_no_index_takes_are_found(schema: str) -> None:
    """A Message-ID may have kilobytes."""
    store = PostgresStore(URL, schema=schema)
    long = "x" * 9_000
    store.append(
        [booked(1, key=long + "1", message_id=f"<{long}1>"), booked(2, key=long + "2", message_id=long)]
    )

    assert [each.number for each in store.with_key("default", long + "2")] == [2]
    assert [each.number for each in store.with_message_id("default", long + "1")] == [1]
    store.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://nobody@127.0.0.1:1/none", "none at 127.0.0.1 cannot be reached: .*; start PostgreSQL"),
        ("postgresql://?x=1", "is no URL of PostgreSQL"),
    ],
)
def test_a_database_that_cannot_be_had_is_one_sentence(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=says):
        PostgresStore(url)


def test_a_closed_store_says_so(schema: str) -> None:
    store = PostgresStore(URL, schema=schema)
    store.close()
    store.close()

    with pytest.raises(StoreError, match="is closed"):
        store.append([booked()])
    with pytest.raises(StoreError, match="is closed"):
        store.messages("default")
