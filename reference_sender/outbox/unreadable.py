"""Rows that cannot be read, because somebody edited them by hand: parked with one sentence, so that the others flow.

Databases let much pass that a mail cannot be: SQLite any text for a time, every one of them any name of a state in a
column that only this program fills. One such row among those that were just taken must not stop the rest.
Must not hold: what is read of rows that are well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, Column, Connection, String, cast, func, or_, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from reference_sender.attachments import read
from reference_sender.life import State
from reference_sender.outbox.columns import StateName, UtcDateTime
from reference_sender.outbox.rows import DOCKET_COLUMNS, IDS, in_state
from reference_sender.outbox.schema import metadata, outgoing_email

#: What a value raises that is none of its type.
UNREADABLE = (ValueError, LookupError, TypeError)

_row = outgoing_email.c

#: What a claim reads of a row, besides the mail itself, and may stumble over.
_READ = (*DOCKET_COLUMNS, _row.hold_until)
#: So much of a value is shown.
_SHOWN = 40

Record = Callable[..., None]


def readable(
    connection: Connection, query: Any, taken: Sequence[tuple[int, int]], now: datetime, record: Record
) -> list[Any]:
    """Those of the rows (id, token) that can be read, by a query for `ids`; the others are parked, and it is recorded."""
    rows: list[Any] = []
    for row_id, token in taken:
        try:
            found = connection.execute(query, {"ids": [row_id], "at": now}).all()
            for row in found:
                # What it is made of is read only where the mail is wanted, too.
                read(getattr(row, "attachments", None))
            rows += found
        except UNREADABLE:
            _park(connection, row_id, token, now, record)
    return rows


def _park(connection: Connection, row_id: int, token: int, now: datetime, record: Record) -> None:
    wrong: dict[str, str] = {}
    spoiled: dict[str, str] = {}
    for column in _READ:
        try:
            connection.execute(select(column).where(_row.id == row_id)).all()
        except UNREADABLE as error:
            wrong[column.key] = str(error)
    if not wrong:
        # It stays as it is: without it the mail could be sent, and would be another one.
        try:
            read(connection.execute(select(_row.attachments).where(_row.id == row_id)).scalar())
        except UNREADABLE as error:
            spoiled = {"attachments": str(error)}
    name, why = next(iter((wrong or spoiled).items()), ("raw", "it makes no mail"))
    reason = f"the column {name} cannot be read ({why}); the row was edited by hand"
    # Whatever stands there, if anything does: an attempt was in doubt.
    in_doubt = or_(_row.doubted_at.is_not(None), in_state(State.UNKNOWN))
    doubted = connection.execute(select(in_doubt).where(_row.id == row_id)).scalar()
    state = State.UNKNOWN if doubted else State.DEAD
    values: dict[str, Any] = {each: None if _row[each].nullable else now for each in wrong}
    values |= {
        "state": state,
        "lease_until": None,
        "in_doubt": False,
        "next_attempt_at": None,
        "if_not_sent": State.DEAD if doubted else None,
        "doubted_at": now if doubted else None,
        "last_error": reason,
        "updated_at": now,
    }
    connection.execute(update(outgoing_email).where(_row.id == row_id).values(values))
    record(connection, row_id, token, ended_at=now, decision=state, reason=reason)


def whereabouts(connection: Connection) -> str | None:
    """Where the first value stands that cannot be read, in one sentence. It goes through all tables."""
    for table in metadata.tables.values():
        for column in table.columns:
            wrong = _wrong(connection, column)
            if wrong is None:
                continue
            names = [cast(each, String) for each in table.primary_key.columns]
            row = connection.execute(select(*names, cast(column, String)).where(wrong).limit(1)).first()
            if row is not None:
                *which, value = row
                return (
                    f"the column {column.name} of {table.name} {', '.join(which)} cannot be read (it is "
                    f"{value!r} and should be {_LIKE[type(column.type)]}); the row was edited by hand: set it right"
                )
    return None


_LIKE: dict[type[Any], str] = {
    UtcDateTime: "a time like '2026-11-29 12:00:00.000000'",
    StateName: f"one of {', '.join(State)}",
}
_DIGITS = "[0-9]"
#: How SQLite is asked whether a text looks like a time of ours.
_TIME = "-".join((_DIGITS * 4, _DIGITS * 2, _DIGITS * 2)) + " " + ":".join([_DIGITS * 2] * 3) + "*"


class NoTime(FunctionElement[bool]):
    """The condition that something stands in a column of times that is none; servers let nothing of the kind in."""

    inherit_cache = True
    type = Boolean()


@compiles(NoTime)
def _of_servers(element: NoTime, compiler: Any, **more: Any) -> str:
    return "(1 = 0)"


@compiles(NoTime, "sqlite")
def _of_sqlite(element: NoTime, compiler: Any, **more: Any) -> str:
    column = compiler.process(element.clauses, **more)
    # Its own functions take much for a time, like `now`.
    return f"({column} IS NOT NULL AND (julianday({column}) IS NULL OR NOT {column} GLOB '{_TIME}'))"


def no_times(connection: Connection, column: Column[Any], ids: Sequence[int]) -> dict[int, str]:
    """Of the rows with these ids those where something stands in a column of times that is none: id → one sentence."""
    if connection.dialect.name != "sqlite":
        return {}
    value = func.substr(func.quote(column), 1, _SHOWN)
    rows = connection.execute(select(_row.id, value).where(_row.id.in_(IDS), NoTime(column)), {"ids": ids})
    return {
        row_id: f"the column {column.name} cannot be read (it is {shown} and should be {_LIKE[UtcDateTime]}); "
        "the row was edited by hand"
        for row_id, shown in rows
    }


def _wrong(connection: Connection, column: Column[Any]) -> Any | None:
    """The condition that a value of this column cannot be read; None: all can be."""
    if isinstance(column.type, StateName):
        return cast(column, String).not_in([state.value for state in State])
    if isinstance(column.type, UtcDateTime) and connection.dialect.name == "sqlite":
        return NoTime(column)
    return None
