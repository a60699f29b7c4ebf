"""How a database goes about the queries that an outbox asks: what its EXPLAIN says, for each table that is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from sqlalchemy import Connection, Engine, event, text

from reference_sender.outbox import looks

_DIGITS = " UNION ALL ".join(f"SELECT {n} AS n" for n in range(10))
#: The numbers from 1 to 3,000, wherever there is SQL.
_NUMBERS = (
    f"SELECT 1 + a.n + 10 * b.n + 100 * c.n + 1000 * d.n AS n FROM ({_DIGITS}) AS a, ({_DIGITS}) AS b, ({_DIGITS}) AS c, "
    "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2) AS d"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One table that a query reads."""

    table: str
    index: str | None  # None: the whole table is gone through


def add_history(connection: Connection, columns: list[str]) -> None:
    """Copy the first row three thousand times, as accepted mails of other events."""
    name = connection.dialect.name
    number = "concat('done-', s.n)" if name == "mysql" else "'done-' || s.n"
    own = {"dedupe_key": number, "idempotency_key": number, "message_id": number, "state": "'accepted'"}
    _copy_first(connection, columns, own | {"next_attempt_at": "NULL", "lease_until": "NULL"})
    analyse(connection, "outgoing_email")


def _copy_first(connection: Connection, columns: list[str], own: dict[str, str]) -> None:
    named = [each for each in columns if each != "id"]
    values = ", ".join(own.get(each, f"one.{each}") for each in named)
    connection.execute(
        text(
            f"INSERT INTO outgoing_email ({', '.join(named)}) SELECT {values} FROM ({_NUMBERS}) AS s, "
            "(SELECT * FROM outgoing_email LIMIT 1) AS one"
        )
    )


def add_events(connection: Connection, columns: list[str]) -> None:
    """Copy the first event three thousand times, as what was told of others, each with its line in the index."""
    name = connection.dialect.name
    number = "concat('told-', s.n)" if name == "mysql" else "'told-' || s.n"
    named = [each for each in columns if each != "id"]
    own = {"event_id": number, "email_id": "1000 + s.n"}
    values = ", ".join(own.get(each, f"one.{each}") for each in named)
    connection.execute(
        text(
            f"INSERT INTO webhook_event ({', '.join(named)}) SELECT {values} FROM ({_NUMBERS}) AS s, "
            "(SELECT * FROM webhook_event LIMIT 1) AS one"
        )
    )
    connection.execute(
        text(
            "INSERT INTO event_address (digest, event_id) SELECT event_id, id FROM webhook_event WHERE event_id LIKE 'told-%'"
        )
    )
    analyse(connection, "webhook_event", "event_address")


def analyse(connection: Connection, *tables: str) -> None:
    """Let the planner know what is in them. By name: without one PostgreSQL goes through the tables of all other tests, too."""
    for table in tables:
        spelled = "ANALYZE TABLE" if connection.dialect.name == "mysql" else "ANALYZE"
        connection.execute(text(f"{spelled} {table}"))


@contextmanager
def asked(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    """Every statement that finds something and is sent meanwhile, with its parameters."""
    seen: list[tuple[str, Any]] = []

    @event.listens_for(engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if statement.startswith("SELECT") or "RETURNING" in statement:
            seen.append((statement, parameters))

    answer = looks._answer

    def _looked(engine: Engine, statement: str, parameters: Any) -> Any:
        seen.append((statement, parameters))
        return answer(engine, statement, parameters)

    try:
        with mock.patch.object(looks, "_answer", _looked):
            yield seen
    finally:
        event.remove(engine, "before_cursor_execute", _seen)


def add_due(connection: Connection, columns: list[str]) -> None:
    """Copy the first row three thousand times, as mails of other events that wait as it does; the database counts none."""
    number = "concat('due-', s.n)" if connection.dialect.name == "mysql" else "'due-' || s.n"
    _copy_first(connection, columns, {"dedupe_key": number, "idempotency_key": number, "message_id": number})


def plan_of(connection: Connection, statement: str, parameters: Any) -> list[Reading]:
    """What the database would read for it."""
    return _PLANS[connection.dialect.name](connection, statement, parameters)


def _of_sqlite(connection: Connection, statement: str, parameters: Any) -> list[Reading]:
    found = []
    for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters):
        words = row.detail.split()
        if words[0] not in ("SEARCH", "SCAN") or words[1] in ("CONSTANT", "SUBQUERY"):
            continue
        index = None
        if "INDEX" in words:
            index = words[words.index("INDEX") + 1]
        elif "PRIMARY" in words:
            index = "primary"
        found.append(Reading(words[1], index))
    return found


def _of_postgresql(connection: Connection, statement: str, parameters: Any) -> list[Reading]:
    told = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar_one()
    found: list[Reading] = []

    def read(node: dict[str, Any]) -> None:
        if node["Node Type"] == "Seq Scan":
            found.append(Reading(node["Relation Name"], None))
        elif "Index Name" in node:
            found.append(Reading(node.get("Relation Name", "outgoing_email"), node["Index Name"]))
        for each in node.get("Plans", []):
            read(each)

    for each in told if isinstance(told, list) else json.loads(told):
        read(each["Plan"])
    return found


def _of_mysql(connection: Connection, statement: str, parameters: Any) -> list[Reading]:
    rows = connection.exec_driver_sql(f"EXPLAIN FORMAT=TRADITIONAL {statement}", parameters).mappings()
    return [
        Reading(row["table"], None if row["type"] in ("ALL", "index") else row["key"])
        for row in rows
        if row["table"] and not row["table"].startswith("<")
    ]


def sorts(connection: Connection, statement: str, parameters: Any) -> bool:
    """Whether the database would sort what it has found for it, instead of finding it in its order."""
    words, sign = _SORTING[connection.dialect.name]
    return sign in str(connection.exec_driver_sql(f"{words} {statement}", parameters).all())


#: What each says of a statement, and the sign of sorting in it.
_SORTING = {
    "sqlite": ("EXPLAIN QUERY PLAN", "TEMP B-TREE"),
    "postgresql": ("EXPLAIN", "Sort Key"),
    "mysql": ("EXPLAIN FORMAT=TRADITIONAL", "filesort"),
}

_PLANS: dict[str, Callable[[Connection, str, Any], list[Reading]]] = {
    "sqlite": _of_sqlite,
    "postgresql": _of_postgresql,
    "mysql": _of_mysql,
}
