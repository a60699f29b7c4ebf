"""The databases an outbox can stand on: how each is opened, and the few words that each says in its own way.

Supporting a database begins here. Must not hold: tables, other queries.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    PoolProxiedConnection,
    Select,
    Table,
    create_engine,
    event,
    func,
    literal_column,
    make_url,
)

from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.trouble import is_read_only

#: What a URL may begin with → SQLAlchemy's dialect and driver. MariaDB is spoken to as MySQL: the words are the same.
_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
SUPPORTED = ("sqlite", "postgresql", "mysql", "mariadb")
# Options in which PyMySQL takes the name of a database as well.
_NAME_IT_TOO = {"database", "db", "read_default_file"}
_EXTRA = {"postgresql": "postgres", "mysql": "mysql"}

#: The first versions that skip locked rows, which is how several workers share one outbox.
_SKIPS_LOCKED = {"MariaDB": (10, 6), "MySQL": (8, 0, 1)}


#: So long, in seconds, a server may take to let us in, unless `connect_timeout` in the URL says otherwise.
CONNECT_S = 10

#: A note on a connection (`Connection.info`): what follows only reads, and needs no transaction where that locks.
READS_ONLY = "reads_only"


# What drivers raise for an option of a URL that they do not take; PyMySQL has no words of its own for that.
_OF_OPTIONS = (TypeError, ValueError, LookupError, AttributeError, FileNotFoundError)


class StoreTrouble(Exception):
    """The database cannot be used as it is; the text is one sentence that says what to do."""


def open_engine(url: str) -> Engine:
    """An engine set up for an outbox. Raises `StoreTrouble` for a URL that cannot be one."""
    try:
        parsed = make_url(url)
    except Exception as error:
        raise StoreTrouble(
            f"{_shown(url)!r} is not a database URL; write it like sqlite:///outbox.db or postgresql://user@host/name"
        ) from error
    if parsed.drivername in _DRIVERS:
        parsed = parsed.set(drivername=_DRIVERS[parsed.drivername])
    backend = parsed.get_backend_name()
    if backend not in SUPPORTED:
        raise StoreTrouble(_unsupported(backend))
    spoken = _DRIVERS[backend]
    if parsed.drivername not in (spoken, f"{spoken}+pysqlite"):
        # Others raise other errors, and what an error means for a transaction is known of ours (`trouble`).
        raise StoreTrouble(
            f"{_shown(url)}: the driver {parsed.get_driver_name()!r} is not spoken here; write {backend}://"
        )
    if "@" in (parsed.host or ""):
        raise StoreTrouble(
            f"{_shown(url)}: there is an @ in the host, which may belong to the password; write it as %40 there"
        )
    if backend == "mysql" and not parsed.database and not _NAME_IT_TOO & set(parsed.query):
        raise StoreTrouble(f"{_shown(url)} names no database; write it like mysql://user@host/name")
    if backend == "sqlite" and (not parsed.database or parsed.database == ":memory:" or "mode=memory" in url):
        raise StoreTrouble("an outbox in memory forgets every mail; name a file, like sqlite:///outbox.db")
    if backend == "sqlite" and not (parsed.database or "").startswith("file:"):
        _look_at_place(Path(parsed.database or ""))
    more: dict[str, Any] = {}
    if backend == "sqlite":
        # A moment that a query looks at three times is one parameter, not three.
        more["paramstyle"] = "named"
    else:
        # Finds out before our transaction begins that the server was restarted.
        more["pool_pre_ping"] = True
        more["connect_args"] = _patience(parsed)
    if backend == "mysql":
        # The usual level there locks the gaps between rows too: claimers would wait for enqueues, and for each other.
        more["isolation_level"] = "READ COMMITTED"
    try:
        engine = create_engine(parsed, **more)
    except ImportError as error:
        raise StoreTrouble(
            f"the driver for {backend} is missing ({error.name}); install mailproof[{_EXTRA.get(backend, backend)}]"
        ) from error
    except _OF_OPTIONS as error:
        raise _bad_option(parsed, error) from error
    if parsed.query:
        _check_options(engine)
    if backend == "sqlite":
        _set_up_sqlite(engine)
    else:
        _lose_patience(engine)
        _leave_standbys(engine)
    return engine


def _look_at_place(file: Path) -> None:
    """SQLite only says that it is unable to open some file."""
    if file.is_dir():
        raise StoreTrouble(
            f"the database {file} is a folder; name a file in it, like sqlite:///{file}/outbox.db"
        )
    if not file.parent.is_dir():
        raise StoreTrouble(f"the database {file} cannot be opened: there is no folder {file.parent}")


_PASSWORD = re.compile(r"(//[^:/?#]*:).*@|(?<=[?&])([a-z_]*password=)[^&]*", re.IGNORECASE | re.DOTALL)


def _shown(url: URL | str) -> str:
    """A URL as people and logs may see it: without passwords, also where it is none."""
    text = url if isinstance(url, str) else url.render_as_string(hide_password=True)
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", text)


def check_version(connection: Connection) -> None:
    """Raise `StoreTrouble` for a server that cannot skip locked rows."""
    if connection.dialect.name != "mysql":
        return
    name = "MariaDB" if getattr(connection.dialect, "is_mariadb", False) else "MySQL"
    version = connection.dialect.server_version_info or ()
    wanted = _SKIPS_LOCKED[name]
    numbers = tuple(each for each in version if isinstance(each, int))
    if numbers < wanted:
        raise StoreTrouble(
            f"{name} {'.'.join(map(str, numbers))} cannot skip locked rows; "
            f"an outbox needs {name} {'.'.join(map(str, wanted))} or later"
        )


def insert_unless_there(
    backend: str,
    rows: Sequence[dict[str, Any]],
    *,
    table: Table = outgoing_email,
    key: Sequence[str] = ("idempotency_key",),
) -> Any:
    """INSERT that leaves rows alone whose key is there. Its rowcount is the number of new ones."""
    # A statement with one row is compiled once and for all; one with several is compiled each time.
    values = rows[0] if len(rows) == 1 else list(rows)
    return inserting(backend, table, tuple(key)).values(values)


@lru_cache
def inserting(backend: str, table: Table, key: tuple[str, ...]) -> Any:
    """The same without its rows: they are given to `execute`. Of several the rowcount says nothing."""
    # Late imports: the words of one database cost a tenth of the start-up time of those who do not speak them.
    match backend:
        case "sqlite":
            from sqlalchemy.dialects.sqlite import insert as into_sqlite

            return into_sqlite(table).on_conflict_do_nothing(index_elements=list(key))
        case "postgresql":
            from sqlalchemy.dialects.postgresql import insert as into_postgresql

            return into_postgresql(table).on_conflict_do_nothing(index_elements=list(key))
        case "mysql":
            from sqlalchemy.dialects.mysql import insert as into_mysql

            # IGNORE would cut off what is too long as well; who makes the rows has refused that before.
            return into_mysql(table).prefix_with("IGNORE")
        case _:
            raise StoreTrouble(_unsupported(backend))


def insert_or_update(
    backend: str, row: dict[str, Any], *, table: Table, key: Sequence[str], update: Sequence[str]
) -> Any:
    """INSERT of one row, or where its key is there UPDATE of these columns. Either way its lock is ours."""
    match backend:
        case "sqlite":
            from sqlalchemy.dialects.sqlite import insert as into_sqlite

            lite = into_sqlite(table).values(row)
            return lite.on_conflict_do_update(
                index_elements=list(key), set_={name: lite.excluded[name] for name in update}
            )
        case "postgresql":
            from sqlalchemy.dialects.postgresql import insert as into_postgresql

            post = into_postgresql(table).values(row)
            return post.on_conflict_do_update(
                index_elements=list(key), set_={name: post.excluded[name] for name in update}
            )
        case "mysql":
            from sqlalchemy.dialects.mysql import insert as into_mysql

            mine = into_mysql(table).values(row)
            return mine.on_duplicate_key_update({name: mine.inserted[name] for name in update})
        case _:
            raise StoreTrouble(_unsupported(backend))


#: Where PostgreSQL tells workers that there is mail.
CHANNEL = "mailproof_outbox"

#: What time it is for the database. SQLite has no clock: it runs in the process that asks.
_CLOCKS = {"postgresql": "clock_timestamp()", "mysql": "UTC_TIMESTAMP(6)"}


#: So much later.
_LATER = {"postgresql": " + interval '{} microseconds'", "mysql": " + INTERVAL {} MICROSECOND"}


def time_of(backend: str, *, after_s: float = 0.0) -> Any:
    """The time, or that of in so many seconds, as an expression of this kind of database; None if it has no clock of its own."""
    spelled = _CLOCKS.get(backend)
    if spelled is None:
        return None
    later = _LATER[backend].format(round(after_s * 1_000_000)) if after_s else ""
    return literal_column(spelled + later, outgoing_email.c.updated_at.type)


def telling(backend: str, query: Select[Any]) -> Select[Any]:
    """The query, which tells listening workers as well that there is mail, once the transaction is committed."""
    if backend != "postgresql":
        return query
    # As a column of a query that is sent anyway; many notifications of one transaction are one.
    return query.add_columns(func.pg_notify(CHANNEL, func.current_schema()))


def going_by_indexes(backend: str, query: Select[Any]) -> Select[Any]:
    """The query, which has what follows in its transaction found in the order of an index, wherever there is one.

    PostgreSQL would sort all that is due where it believes that this is little, and it may believe so for long: what it
    knows of a table is from before the burst.
    """
    if backend != "postgresql":
        return query
    # As a column of a query that is sent anyway; it is forgotten at the end of the transaction.
    return query.add_columns(literal_column("set_config('enable_sort', 'off', true)"))


def as_it_is_now(backend: str, query: Select[Any]) -> Select[Any]:
    """The query, seeing what others have committed, also in a transaction that has read before.

    MySQL's usual isolation level shows a transaction what stood when it first read, and the row that was in the way
    of our INSERT may be newer. A locking read sees it.
    """
    return query.with_for_update(read=True) if backend == "mysql" else query


def _unsupported(backend: str) -> str:
    *some, last = SUPPORTED
    return f"databases of kind {backend!r} are not supported; use {', '.join(some)} or {last}"


def _check_options(engine: Engine) -> None:
    """Make one sentence of what a driver raises for an option it does not take."""
    connect, url = engine.dialect.connect, engine.url

    def connected(*args: Any, **options: Any) -> Any:
        try:
            return connect(*args, **options)
        except _OF_OPTIONS as error:
            raise _bad_option(url, error) from error

    # The dialect's own place for it, as in `_set_up_sqlite`.
    engine.dialect.connect = connected  # type: ignore[method-assign] # ours


def _patience(url: URL) -> dict[str, Any]:
    """What its driver has to be told, so that it does not wait for ever for a server that takes the connection and says nothing."""
    if url.get_backend_name() == "postgresql" and "PGCONNECT_TIMEOUT" in os.environ:
        return {}  # libpq's own word for it, which what we tell would outdo
    told = url.query.get("connect_timeout", CONNECT_S)
    wanted = {"connect_timeout": told}
    if url.get_backend_name() == "mysql":
        # For PyMySQL it is over when the line is there, and the greeting is read like any other answer.
        wanted["read_timeout"] = told
    try:
        # What stands in the URL goes first.
        return {name: int(str(value)) for name, value in wanted.items() if name not in url.query}
    except ValueError as error:
        raise _bad_option(url, error) from error


def _lose_patience(engine: Engine) -> None:
    """Make one sentence of a server that does not let us in; once we are in, it may take its time over an answer."""
    connect, url = engine.dialect.connect, engine.url

    def connected(*args: Any, **options: Any) -> Any:
        try:
            connection = connect(*args, **options)
        except engine.dialect.loaded_dbapi.OperationalError as error:
            if not any(words in str(error) for words in _TIMED_OUT):
                raise
            waited = url.query.get("connect_timeout", CONNECT_S)
            raise StoreTrouble(
                f"the database at {_shown(url)} has not let us in within {waited} s; "
                "see whether it is one and whether it is well, or say ?connect_timeout= in its URL"
            ) from error
        if url.get_backend_name() == "mysql" and "read_timeout" not in url.query:
            connection._read_timeout = None  # PyMySQL has no word for it
        if not any(name.startswith(_OF_SILENCE) for name in url.query):
            # PyMySQL has no word for this either, and old libraries of PostgreSQL not for all of it.
            _ask_whether_alive(connection if url.get_backend_name() == "postgresql" else connection._sock)
        return connection

    # The dialect's own place for it, as in `_set_up_sqlite`.
    engine.dialect.connect = connected  # type: ignore[method-assign] # ours


#: What options of a URL are called by which an operator says himself when silence is too long.
_OF_SILENCE = ("keepalives", "tcp_user_timeout")

#: Options of TCP and their values; not every system has all of them. 30 s of silence, then three questions, 10 s apart.
_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}


def _ask_whether_alive(line: Any) -> None:
    """Have the kernel ask whether the server's machine is there, on this line: anything with a `fileno`.

    One that lost its power says nothing more, and a worker would wait for its answer for two hours (tcp(7),
    tcp_keepalive_time). A server that only takes its time answers for itself: that is its kernel's work.
    """
    with socket.socket(fileno=os.dup(line.fileno())) as own:
        if own.family not in (socket.AF_INET, socket.AF_INET6):
            return
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE.items():
            if (option := getattr(socket, name, None)) is not None:
                own.setsockopt(socket.IPPROTO_TCP, option, value)


def _leave_standbys(engine: Engine) -> None:
    """Have a connection over which nothing can be written count as broken, so that the next one is made anew.

    After a failover it may lead to what is a standby now. It answers every look, so it would stay in the pool for ever.
    """

    @event.listens_for(engine, "handle_error")
    def look(context: ExceptionContext) -> None:
        if is_read_only(context.original_exception):
            context.is_disconnect = True


#: How drivers say that they have waited long enough: psycopg, PyMySQL.
_TIMED_OUT = ("timeout expired", "timed out")


def _bad_option(url: URL, error: Exception) -> StoreTrouble:
    return StoreTrouble(
        f"{_shown(url)}: the driver does not take what stands behind the ? "
        f"({', '.join(sorted(url.query))}); give it options that it knows, or none ({error})"
    )


def _set_up_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _connect(dbapi_connection: Any, _record: Any) -> None:
        # The driver must not begin transactions by itself: it would do so with a plain BEGIN, too late and too weak.
        dbapi_connection.isolation_level = None
        cursor = dbapi_connection.cursor()
        cursor.execute("PRAGMA busy_timeout = 30000")
        cursor.execute("PRAGMA journal_mode = WAL")  # readers and the one writer do not block each other
        cursor.execute("PRAGMA synchronous = FULL")  # in WAL mode NORMAL may lose the last commits
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    def begin(connection: PoolProxiedConnection) -> None:
        if connection.info.get(READS_ONLY):
            return  # each statement sees one moment, and no writer waits for us
        # IMMEDIATE takes the write lock at once: two claimers queue up instead of reading the same rows.
        cursor = connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        cursor.close()

    # The dialect's own place for it. A listener for "begin" would do, and makes every statement of the engine look for
    # listeners: a tenth of all time between a poll and the next.
    engine.dialect.do_begin = begin  # type: ignore[method-assign, assignment] # ours
