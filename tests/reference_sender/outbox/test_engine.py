"""The databases an outbox can stand on: what each has to be told."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError

from reference_sender.outbox.engine import (
    CONNECT_S,
    StoreTrouble,
    check_version,
    insert_unless_there,
    open_engine,
)
from reference_sender.outbox.store import Store, enqueue
from tests.reference_sender.outbox.databases import database
from tests.reference_sender.samples import MAIL, NOW


def server(version: tuple[Any, ...], *, maria: bool) -> Connection:
    """A connection as far as a look at its server's version goes."""
    dialect = SimpleNamespace(name="mysql", is_mariadb=maria, server_version_info=version)
    return cast(Connection, SimpleNamespace(dialect=dialect))


@pytest.mark.parametrize(
    ("version", "maria", "wanted"),
    [((10, 5, 29, "MariaDB"), True, "MariaDB 10.6"), ((5, 7, 44), False, "MySQL 8.0.1")],
)
def test_a_server_that_cannot_skip_locked_rows_is_refused(
    version: tuple[Any, ...], maria: bool, wanted: str
) -> None:
    with pytest.raises(StoreTrouble, match=f"cannot skip locked rows; an outbox needs {wanted} or later"):
        check_version(server(version, maria=maria))


@pytest.mark.parametrize(("version", "maria"), [((10, 6, 0, "MariaDB"), True), ((8, 0, 1), False)])
def test_one_that_can_is_taken(version: tuple[Any, ...], maria: bool) -> None:
    check_version(server(version, maria=maria))


@pytest.mark.parametrize("url", ["mysql://root@db/shop", "mariadb://root@db/shop"])
def test_mariadb_and_mysql_are_spoken_to_alike(url: str) -> None:
    engine = open_engine(url)
    assert (engine.dialect.name, engine.dialect.driver) == ("mysql", "pymysql")
    assert engine.dialect._on_connect_isolation_level == "READ COMMITTED"


def test_a_database_without_words_is_refused() -> None:
    with pytest.raises(StoreTrouble, match="databases of kind 'oracle' are not supported; use sqlite, "):
        insert_unless_there("oracle", [])


def test_an_application_that_read_before_still_finds_the_row_that_was_first(tmp_path: Path) -> None:
    """At MySQL's usual isolation level a transaction sees what stood at its first look, and not what came since."""
    with database("mysql", tmp_path) as url:
        store = Store(open_engine(url))
        store.create()
        theirs = create_engine(store.engine.url)  # an application's own, as the driver comes
        with theirs.begin() as first:
            first.execute(text("SELECT * FROM outgoing_email")).all()
            with store.engine.begin() as second:
                winner = enqueue(second, MAIL, key="order-1", now=NOW)
            loser = enqueue(first, MAIL, key="order-1", now=NOW)
        assert (winner.created, loser.created) == (True, False)
        assert winner.ids == loser.ids
        theirs.dispose()
        store.engine.dispose()


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("nonsense", "not a database URL"),
        ("", "not a database URL"),
        ("oracle://x", "not supported"),
        ("oracle://x/y", "not supported"),
        ("mysql://root@127.0.0.1", "names no database"),
        ("mariadb://root@127.0.0.1/", "names no database"),
        ("postgresql://us:s3@cret@127.0.0.1/shop", "write it as %40"),
        ("postgresql+nosuch://u@127.0.0.1/shop", "write postgresql://"),
        ("sqlite+aiosqlite:///outbox.db", "write sqlite://"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file::memory:?mode=memory&uri=true", "in memory"),
    ],
)
def test_a_url_that_leads_nowhere_is_one_sentence(url: str, word: str) -> None:
    with pytest.raises(StoreTrouble, match=word):
        open_engine(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3cret@host:port/shop",
        "postgresql://u:s3/cr@et@host:port/shop",
        "postgresql://u:x@s3cret@127.0.0.1:1/shop",
        "mysql://:s3cret@host:port/shop?password=s3cret&charset=utf8",
        "mysql://127.0.0.1:1/shop?password=s3cret&foo=1",
        "mysql://u:s3cret@127.0.0.1:1/shop?foo=1&ssl_key_password=s3cret",
    ],
)
def test_no_sentence_repeats_a_password(url: str) -> None:
    with pytest.raises(StoreTrouble) as caught, open_engine(url).connect():
        pass
    assert "s3" not in str(caught.value)
    assert "***" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///{}/outbox.db?timeout=soon",
        "mysql://u:secret@127.0.0.1:1/shop?charset=none",
        "mysql://u:secret@127.0.0.1:1/shop?foo=1",
        "mysql://u:secret@127.0.0.1:1/shop?ssl_ca={}/none.pem",
    ],
)
def test_an_option_that_the_driver_does_not_take_is_one_sentence(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreTrouble, match=r"the driver does not take what stands behind the \?") as caught:
        open_engine(url.format(tmp_path)).connect()
    assert ("secret" in str(caught.value), "\n" in str(caught.value)) == (False, False)


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of somebody who takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "mariadb"])
def test_a_server_that_never_greets_is_one_sentence(kind: str, silent: int) -> None:
    # Two seconds are the least that libpq knows.
    engine = open_engine(f"{kind}://u:secret@127.0.0.1:{silent}/shop?connect_timeout=2")
    with pytest.raises(
        StoreTrouble, match=rf"127.0.0.1:{silent}/shop.* has not let us in within 2 s"
    ) as caught:
        engine.connect()
    assert ("secret" in str(caught.value), "\n" in str(caught.value)) == (False, False)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://db/shop", {"connect_timeout": CONNECT_S}),
        ("postgresql://db/shop?connect_timeout=3", {"connect_timeout": "3"}),
        ("mysql://db/shop", {"connect_timeout": CONNECT_S, "read_timeout": CONNECT_S}),
        ("mysql://db/shop?connect_timeout=3", {"connect_timeout": 3, "read_timeout": 3}),
        ("mysql://db/shop?read_timeout=60", {"connect_timeout": CONNECT_S, "read_timeout": 60}),
    ],
)
def test_the_url_says_how_long_a_server_may_take_to_let_us_in(url: str, told: dict[str, Any]) -> None:
    engine, given = open_engine(url), {}

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, _args: Any, options: dict[str, Any]) -> None:
        given.update(options)
        raise StoreTrouble("enough was seen")

    with pytest.raises(StoreTrouble, match="enough was seen"):
        engine.connect()
    assert {name: value for name, value in given.items() if name.endswith("timeout")} == told


def test_what_the_environment_says_to_libpq_is_not_outdone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "3")
    engine, given = open_engine("postgresql://db/shop"), {}

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, _args: Any, options: dict[str, Any]) -> None:
        given.update(options)
        raise StoreTrouble("enough was seen")

    with pytest.raises(StoreTrouble, match="enough was seen"):
        engine.connect()
    assert "connect_timeout" not in given


@pytest.mark.parametrize(("kind", "least_s"), [("postgresql", 2), ("mysql", 1)])
def test_who_is_in_may_wait_for_an_answer_for_longer(kind: str, least_s: int, tmp_path: Path) -> None:
    """A step of a migration takes its time."""
    sleep = {"postgresql": "pg_sleep", "mysql": "sleep"}[kind]
    with database(kind, tmp_path) as url:
        given = make_url(url).update_query_dict({"connect_timeout": str(least_s)})
        engine = open_engine(given.render_as_string(hide_password=False))
        with engine.connect() as connection:
            connection.exec_driver_sql(f"SELECT {sleep}({least_s}.2)").all()
        engine.dispose()


@pytest.mark.parametrize(
    ("kind", "read_only"),
    [
        ("postgresql", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"),
        ("mysql", "SET SESSION TRANSACTION READ ONLY"),
    ],
)
def test_a_connection_that_may_only_read_is_left_for_another_one(
    kind: str, read_only: str, tmp_path: Path
) -> None:
    """After a failover it leads to what is a standby now, and would do so for as long as it stays in the pool."""
    with database(kind, tmp_path) as url:
        store = Store(open_engine(url))
        store.create()
        with store.engine.connect() as connection:
            connection.exec_driver_sql(read_only)
            connection.commit()
        with pytest.raises(DBAPIError):
            store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)
        with store.engine.begin() as connection:
            enqueue(connection, MAIL, key="a", now=NOW)
        assert len(store.claim(now=NOW, limit=1, lease_s=60, dedupes=True)) == 1
        store.engine.dispose()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux can be asked for all of them")
@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_server_that_is_gone_without_a_word_is_noticed_within_a_minute(kind: str, tmp_path: Path) -> None:
    """Its machine lost its power. The kernel would wait two hours for an answer, and a quarter of one for a receipt."""
    with database(kind, tmp_path) as url:
        engine = open_engine(url)
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            line = socket.socket(fileno=os.dup((driver if kind == "postgresql" else driver._sock).fileno()))
            with line:
                idle, every, times, unanswered_ms = (
                    line.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (
                        socket.TCP_KEEPIDLE,
                        socket.TCP_KEEPINTVL,
                        socket.TCP_KEEPCNT,
                        socket.TCP_USER_TIMEOUT,
                    )
                )
                assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        engine.dispose()
    assert idle + every * times <= 60
    assert 0 < unanswered_ms <= 60_000


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux can be asked for it")
def test_what_the_url_says_about_silence_is_not_outdone(tmp_path: Path) -> None:
    with database("postgresql", tmp_path) as url:
        told = make_url(url).update_query_dict({"keepalives_idle": "77"})
        engine = open_engine(told.render_as_string(hide_password=False))
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            with socket.socket(fileno=os.dup(driver.fileno())) as line:
                assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 77
        engine.dispose()


def test_a_commit_on_sqlite_survives_a_power_cut(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'outbox.db'}")
    with engine.connect() as connection:
        pragmas = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        ]
    engine.dispose()
    assert pragmas == ["wal", 2, 30_000, 1]


def test_a_file_that_cannot_be_there_is_named(tmp_path: Path) -> None:
    """SQLite only says that it cannot open some file."""
    with pytest.raises(StoreTrouble, match=r"no/o\.db cannot be opened: there is no folder .*no$"):
        open_engine(f"sqlite:///{tmp_path}/no/o.db")
    with pytest.raises(StoreTrouble, match="is a folder; name a file in it, like sqlite:///"):
        open_engine(f"sqlite:///{tmp_path}")
