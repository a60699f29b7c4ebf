"""What a database did for somebody: rows and pages that it read, and its CPU time; counted by itself, whatever else the machine does.

Counts are of the connection that is lent next, so the store that is looked at must not be used by two at a time.
Sources: PostgreSQL 15, 28.2 (`pg_statio_user_tables`, `pg_stat_user_tables`); MariaDB, Server Status Variables
(`Handler_read_*`, `Innodb_buffer_pool_read_requests`); Linux, sched-stats.rst (`/proc/PID/schedstat`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, Engine, event, text

_T = TypeVar("_T")
#: Names of what is counted → how much of it.
Counts = dict[str, int]


def reading(engine: Engine, act: Callable[[], _T]) -> tuple[_T, Counts]:
    """What comes of an act, and what its database read for it.

    SQLite: *steps* of its machine. PostgreSQL: *rows* that were fetched from tables, and *pages* of tables and indexes,
    whether they were in memory or not. MySQL: *rows* that were asked of tables and indexes, and *pages* – of the whole
    server, so these only say something where nobody else is about.
    """
    if engine.dialect.name == "sqlite":
        return _steps(engine, act)
    before = _counted(engine)
    result = act()
    after = _counted(engine)
    assert before[0] == after[0], "another connection did it"
    return result, {name: after[1][name] - count for name, count in before[1].items()}


def leave_alone(engine: Engine, *tables: str) -> None:
    """See to it that nobody clears up in these tables by himself: PostgreSQL would count what its autovacuum reads there, too."""
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            for table in tables:
                connection.execute(text(f"ALTER TABLE {table} SET (autovacuum_enabled = off)"))


def cpu_us(engine: Engine, act: Callable[[], object]) -> float | None:
    """Microseconds of CPU time for an act: of this thread on SQLite, else of the server for our connection.

    None where the server is not a process of this machine.
    """
    seconds = time.thread_time if engine.dialect.name == "sqlite" else _clock_of(engine)
    if seconds is None:
        return None
    began = seconds()
    act()
    return (seconds() - began) * 1e6


# --- what was read ------------------------------------------------------------------------------------------


def _steps(engine: Engine, act: Callable[[], _T]) -> tuple[_T, Counts]:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    def watch(dbapi_connection: Any, *_more: Any) -> None:
        dbapi_connection.set_progress_handler(step, 1)

    def leave(dbapi_connection: Any, *_more: Any) -> None:
        dbapi_connection.set_progress_handler(None, 0)

    event.listen(engine, "checkout", watch)
    event.listen(engine, "checkin", leave)
    try:
        return act(), {"steps": count}
    finally:
        event.remove(engine, "checkout", watch)
        event.remove(engine, "checkin", leave)


@contextmanager
def _beside(engine: Engine) -> Iterator[Connection]:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


_OF_TABLES = text(
    "SELECT (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables "
    "WHERE schemaname = current_schema()) AS rows, sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit, 0) "
    "+ coalesce(idx_blks_read, 0) + coalesce(toast_blks_hit, 0) + coalesce(toast_blks_read, 0) "
    "+ coalesce(tidx_blks_hit, 0) + coalesce(tidx_blks_read, 0)) AS pages "
    "FROM pg_statio_user_tables WHERE schemaname = current_schema()"
)


def _counted(engine: Engine) -> tuple[int, Counts]:
    """(which connection, what it has read so far)."""
    with _beside(engine) as connection:
        if engine.dialect.name == "postgresql":
            if (connection.dialect.server_version_info or ()) < (15,):
                pytest.skip("before its version 15 PostgreSQL tells what it has read when it likes")
            # What this session has counted is told to all at the end of this statement.
            connection.execute(text("SELECT pg_stat_force_next_flush()"))
            told = connection.execute(_OF_TABLES).one()
            return _number_of(connection), {"rows": int(told.rows), "pages": int(told.pages)}
        rows = connection.execute(text("SHOW SESSION STATUS LIKE 'Handler_read%'"))
        pages = connection.execute(text("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'"))
        counts = {"rows": sum(int(count) for _, count in rows), "pages": int(pages.one()[1])}
        return _number_of(connection), counts


_NUMBERS = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}


def _number_of(connection: Connection) -> int:
    return int(connection.execute(text(_NUMBERS[connection.dialect.name])).scalar_one())


# --- CPU time -------------------------------------------------------------------------------------------------

#: How the task is called that serves a connection.
_TASKS = {"postgresql": ("postgres",), "mysql": ("mariadbd", "mysqld", "connection")}


def _clock_of(engine: Engine) -> Callable[[], float] | None:
    """A clock that goes as long as the server works for our connection."""
    with _beside(engine) as connection:
        task = _task_of(connection)
    place = Path("/proc") / str(task)
    try:
        if not (place / "comm").read_text().startswith(_TASKS[engine.dialect.name]):
            return None  # the same number on another machine
        (place / "schedstat").read_text()
    except OSError:
        return None
    return lambda: int((place / "schedstat").read_text().split()[0]) / 1e9


def _task_of(connection: Connection) -> int:
    if connection.dialect.name == "postgresql":
        return _number_of(connection)
    query = (
        "SELECT tid FROM information_schema.processlist WHERE id = connection_id()"
        if getattr(connection.dialect, "is_mariadb", False)
        else "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = connection_id()"
    )
    return int(connection.execute(text(query)).scalar_one())
