"""Many rows in one statement, where the database has a way that is cheaper than many.

PostgreSQL takes a JSON document as a table (`json_to_recordset`): one parameter, one round trip, one plan, whatever the
number of rows; arrays of columns and `executemany` cost the client several times as much. SQLite has no round trip and
is given plain tuples; PyMySQL packs INSERTs.
Must not hold: what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Table, TextClause, bindparam, insert, text, update

Rows = Sequence[Mapping[str, Any]]


def insert_all(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows that all have the same columns."""
    match connection.dialect.name:
        case "postgresql":
            connection.execute(_insertion(table, tuple(rows[0])), {"told": _encoded(rows)})
        case "sqlite":
            stored = _stored(connection, table, rows)
            parameters = list(zip(*stored.values(), strict=True))
            connection.exec_driver_sql(_insertion_of_tuples(table, tuple(rows[0])), parameters)
        case _:
            connection.execute(insert(table), list(rows))


class NotAllHeld(Exception):
    """Some of the rows are not as they should be. Nothing may be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Rows that may be changed only as long as they are as somebody believes."""

    table: Table
    key: tuple[str, ...]  # columns that are compared and not set
    also: str  # what must be true of the row besides, in SQL


def change_held(connection: Connection, held: Held, changes: Rows, into: Table, records: Rows) -> None:
    """Set columns of rows that are held, and insert for each of them the record in the same place.

    The changes must all have the same columns, the key among them, and so must the records. Raises `NotAllHeld` if some
    of the rows are not held.
    """
    match connection.dialect.name:
        case "postgresql":
            changed = _change_by_document(connection, held, changes, into, records)
        case "sqlite":
            statement, parameters = _by_tuples(connection, held, changes)
            changed = connection.exec_driver_sql(statement, parameters).rowcount
        case _:
            changed = _change_one_by_one(connection, held, changes)
    if changed != len(changes):
        raise NotAllHeld
    if connection.dialect.name != "postgresql":
        insert_all(connection, into, records)


def _change_one_by_one(connection: Connection, held: Held, changes: Rows) -> int:
    found = {
        name: "the_" + name for name in held.key
    }  # a parameter cannot be called like a column that is set
    return connection.execute(
        update(held.table).where(
            *(held.table.c[name] == bindparam(other) for name, other in found.items()), text(held.also)
        ),
        [{found.get(name, name): value for name, value in row.items()} for row in changes],
    ).rowcount


# --- SQLite: plain tuples, past the machinery that makes them of dictionaries ---------------------------


def _by_tuples(connection: Connection, held: Held, changes: Rows) -> tuple[str, list[tuple[Any, ...]]]:
    names = tuple(changes[0])
    stored = _stored(connection, held.table, changes)
    order = [*(name for name in names if name not in held.key), *held.key]
    return _change_of_tuples(held, names), list(zip(*(stored[name] for name in order), strict=True))


def _stored(connection: Connection, table: Table, rows: Rows) -> dict[str, Sequence[Any]]:
    """The values of each column as they are stored."""
    columns: dict[str, Sequence[Any]] = {}
    names = tuple(rows[0])
    for name, values in zip(names, zip(*(row.values() for row in rows), strict=True), strict=True):
        make = _maker(table, name, connection.dialect)
        columns[name] = values if make is None else _each(make, values)
    return columns


def _each(make: Callable[[Any], Any], values: Sequence[Any]) -> Sequence[Any]:
    # Most columns say the same in every row: a state, the moment of it.
    first = values[0]
    return (
        [make(first)] * len(values) if values.count(first) == len(values) else [make(each) for each in values]
    )


@lru_cache(maxsize=256)
def _maker(table: Table, name: str, dialect: Dialect) -> Callable[[Any], Any] | None:
    """What makes of a value what is stored; None: nothing needs to."""
    return table.c[name].type.dialect_impl(dialect).bind_processor(dialect)


@lru_cache(maxsize=64)
def _change_of_tuples(held: Held, names: tuple[str, ...]) -> str:
    sets = ", ".join(f"{name} = ?" for name in names if name not in held.key)
    found = " AND ".join(f"{name} = ?" for name in held.key)
    return f"UPDATE {held.table.name} SET {sets} WHERE {found} AND {held.also}"


@lru_cache(maxsize=64)
def _insertion_of_tuples(table: Table, names: tuple[str, ...]) -> str:
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})"


# --- PostgreSQL: a document ---------------------------------------------------------------------------------


def _change_by_document(connection: Connection, held: Held, changes: Rows, into: Table, records: Rows) -> int:
    """One statement for all of it; how many rows were held. What all rows say is a parameter, only the rest is in the document."""
    columns = _columns(changes, "change_") | _columns(records, "record_")
    same = {name: values[0] for name, values in columns.items() if values.count(values[0]) == len(values)}
    for name in held.key:
        same.pop("change_" + name, None)
    rest = {name: values for name, values in columns.items() if name not in same}
    document = [dict(zip(rest, row, strict=True)) for row in zip(*rest.values(), strict=True)]
    statement = _change_and_record(held, tuple(changes[0]), into, tuple(records[0]), frozenset(same))
    changed: int = connection.exec_driver_sql(statement, same | {"told": _encoded(document)}).scalar_one()
    return changed


def _columns(rows: Rows, prefix: str) -> dict[str, tuple[Any, ...]]:
    values = zip(*(row.values() for row in rows), strict=True)
    return dict(zip([prefix + name for name in rows[0]], values, strict=True))


@lru_cache(maxsize=64)
def _change_and_record(
    held: Held, changes: tuple[str, ...], into: Table, records: tuple[str, ...], same: frozenset[str]
) -> str:
    table = held.table

    def value(of: Table, prefix: str, name: str) -> str:
        if (given := prefix + name) in same:
            return f"CAST(%({given})s AS {_type_of(of, name)})"
        return f"told.{given}"

    told = [f"change_{name} {_type_of(table, name)}" for name in changes if f"change_{name}" not in same]
    told += [f"record_{name} {_type_of(into, name)}" for name in records if f"record_{name}" not in same]
    sets = ", ".join(f"{name} = {value(table, 'change_', name)}" for name in changes if name not in held.key)
    found = " AND ".join(f"{table.name}.{name} = told.change_{name}" for name in held.key)
    keys = ", ".join(f"{table.name}.{name}" for name in held.key)
    again = " AND ".join(f"told.change_{name} = changed.{name}" for name in held.key)
    return (
        f"WITH told AS MATERIALIZED (SELECT * FROM json_to_recordset(CAST(%(told)s AS json)) AS told({', '.join(told)})), "
        f"changed AS (UPDATE {table.name} SET {sets} FROM told WHERE {found} AND {held.also} RETURNING {keys}), "
        f"recorded AS (INSERT INTO {into.name} ({', '.join(records)}) "
        f"SELECT {', '.join(value(into, 'record_', name) for name in records)} FROM told JOIN changed ON {again}) "
        "SELECT count(*) FROM changed"
    )


def _encoded(rows: Sequence[Mapping[str, Any]]) -> str:
    import msgspec  # late: only who speaks to PostgreSQL pays for it

    return msgspec.json.encode(rows).decode()


@lru_cache(maxsize=64)
def _insertion(table: Table, names: tuple[str, ...]) -> TextClause:
    listed = ", ".join(names)
    return text(f"INSERT INTO {table.name} ({listed}) SELECT {listed} FROM {_recordset(table, names)}")


def _recordset(table: Table, names: tuple[str, ...]) -> str:
    columns = ", ".join(f"{name} {_type_of(table, name)}" for name in names)
    return f"json_to_recordset(CAST(:told AS json)) AS told({columns})"


def _type_of(table: Table, name: str) -> str:
    from sqlalchemy.dialects.postgresql import dialect  # late: only who speaks it pays for its words

    return table.c[name].type.compile(dialect=dialect())  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped
