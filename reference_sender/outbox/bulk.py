"""Many rows in one statement, where the database has a way that is cheaper than many.

PostgreSQL takes a JSON document as a table (`json_to_recordset`): one parameter, one round trip, one plan, whatever the
number of rows; arrays of columns and `executemany` cost the client several times as much. Elsewhere the driver's `executemany` is as good: SQLite has no round trip, PyMySQL packs INSERTs.
Must not hold: what is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Table, TextClause, bindparam, insert, text, update

Rows = Sequence[Mapping[str, Any]]


def insert_all(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows that all have the same columns."""
    if connection.dialect.name == "postgresql":
        connection.execute(_insertion(table, tuple(rows[0])), _document(rows))
    else:
        connection.execute(insert(table), list(rows))


def update_all(connection: Connection, table: Table, key: str, rows: Rows) -> None:
    """Set the columns of rows that all have the same ones, found by the column `key`, which is one of them."""
    if connection.dialect.name == "postgresql":
        connection.execute(_change(table, key, tuple(rows[0])), _document(rows))
        return
    found = "the_" + key  # a parameter cannot be called like a column that is set
    connection.execute(
        update(table).where(table.c[key] == bindparam(found)),
        [{found if name == key else name: value for name, value in row.items()} for row in rows],
    )


def _document(rows: Rows) -> dict[str, str]:
    return {"told": json.dumps(rows, default=_told)}


def _told(value: Any) -> str:
    assert isinstance(value, datetime), value
    return value.isoformat()


@lru_cache(maxsize=64)
def _insertion(table: Table, names: tuple[str, ...]) -> TextClause:
    listed = ", ".join(names)
    return text(f"INSERT INTO {table.name} ({listed}) SELECT {listed} FROM {_recordset(table, names)}")


@lru_cache(maxsize=64)
def _change(table: Table, key: str, names: tuple[str, ...]) -> TextClause:
    sets = ", ".join(f"{name} = told.{name}" for name in names if name != key)
    return text(
        f"UPDATE {table.name} SET {sets} FROM {_recordset(table, names)} WHERE {table.name}.{key} = told.{key}"
    )


def _recordset(table: Table, names: tuple[str, ...]) -> str:
    columns = ", ".join(f"{name} {_type_of(table, name)}" for name in names)
    return f"json_to_recordset(CAST(:told AS json)) AS told({columns})"


def _type_of(table: Table, name: str) -> str:
    from sqlalchemy.dialects.postgresql import dialect  # late: only who speaks it pays for its words

    return table.c[name].type.compile(dialect=dialect())  # type: ignore[no-untyped-call] # SQLAlchemy leaves it untyped
