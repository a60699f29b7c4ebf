"""Values of a kind that their columns do not hold: found where a database lets them in, and their rows parked.

SQLite keeps any value in any column: a text in `priority`, and the row comes before all others in every claim; a text in
`raw`, where octets belong. Nothing of such a row can be compared or sent, and whoever stumbles over one would stumble
over it with every claim. The other databases know what a number is.
Must not hold: values of the right kind that make no sense (`unreadable`, `strays`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Integer, LargeBinary, and_, case, func, literal, or_, select, update

from reference_sender.life import State
from reference_sender.outbox.rows import AT, in_state
from reference_sender.outbox.schema import email_attempt, outgoing_email

_row = outgoing_email.c

Record = Callable[..., None]

#: So much of a value is shown.
_SHOWN = 40
#: So many rows are parked at a time: the rest is found by the next claim.
_AT_ONCE = 1_000


def _kinds_of(column: Any) -> tuple[str, ...]:
    """How SQLite calls what may stand in a column."""
    kind: Any = getattr(column.type, "impl", column.type)
    if isinstance(kind, Integer) or column.type.python_type is bool:
        found: tuple[str, ...] = ("integer", "real")  # a priority of 1.5 is odd, and in its place
    else:
        found = ("blob",) if isinstance(kind, LargeBinary) else ("text",)
    return (*found, "null") if column.nullable else found


_COLUMNS = tuple(outgoing_email.columns)
_IS_WRONG = {column.name: func.typeof(column).not_in(_kinds_of(column)) for column in _COLUMNS}
#: Where a value was wrong and has to be right: what a row begins with. Texts and octets stay: without them the mail
#: could be sent, and would be another one.
_RIGHT: dict[str, Any] = {
    "priority": 0,
    "attempts": 0,
    "tries": 0,
    "may_repeat": False,
    # Above every claim that anybody may still believe in.
    "token": select(func.coalesce(func.max(email_attempt.c.token), 0) + 2)
    .where(email_attempt.c.email_id == _row.id)
    .scalar_subquery(),
}
_TIMES = tuple(column.name for column in _COLUMNS if column.name.endswith(("_at", "_until")))
# Whoever holds one by a lease may be sending it just now; if he is lost, it is found then.
_NOBODYS = or_(in_state(State.PENDING), and_(in_state(State.SENDING), ~(_row.lease_until >= AT)))
# Which one is it, as a text: its name, and the value as SQLite would write it into a statement.
_FIRST = case(*((wrong, literal(name)) for name, wrong in _IS_WRONG.items()), else_=literal(""))
_VALUE = case(
    *((wrong, func.substr(func.quote(_row[name]), 1, _SHOWN)) for name, wrong in _IS_WRONG.items()),
    else_=literal(""),
)
_THOSE = (
    select(
        _row.id,
        _FIRST.label("name"),
        _VALUE.label("value"),
        or_(_row.doubted_at.is_not(None), and_(in_state(State.SENDING), _row.in_doubt.is_not(False))).label(
            "doubted"
        ),
    )
    .where(_NOBODYS, or_(*_IS_WRONG.values()))
    .limit(_AT_ONCE)
)


def park_mistyped(connection: Connection, now: datetime, record: Record) -> int:
    """Park the rows that claims would stumble over for the kind of a value; how many. It goes through all that waits."""
    if connection.dialect.name != "sqlite":
        return 0
    rows: Sequence[Any] = connection.execute(_THOSE, {"at": now}).all()
    for row in rows:
        _park(connection, row, now, record)
    return len(rows)


def _park(connection: Connection, row: Any, now: datetime, record: Record) -> None:
    of = _row[row.name]
    reason = (
        f"the column {row.name} cannot be read (it is {row.value} and should be {_words_of(of)}); "
        "the row was edited by hand"
    )
    state = State.UNKNOWN if row.doubted else State.DEAD
    where = _row.id == row.id
    for name, right in _RIGHT.items():
        connection.execute(update(outgoing_email).where(where, _IS_WRONG[name]).values({name: right}))
    for name in _TIMES:
        value = None if _row[name].nullable else now
        connection.execute(update(outgoing_email).where(where, _IS_WRONG[name]).values({name: value}))
    values = {
        "state": state,
        "lease_until": None,
        "in_doubt": False,
        "next_attempt_at": None,
        "if_not_sent": State.DEAD if row.doubted else None,
        "doubted_at": now if row.doubted else None,
        "losses": None,
        "last_error": reason,
        "updated_at": now,
    }
    connection.execute(update(outgoing_email).where(where).values(values))
    token = connection.execute(select(_row.token).where(where)).scalar_one()
    record(connection, row.id, token, ended_at=now, decision=state, reason=reason)


def _words_of(column: Any) -> str:
    if column.name in _TIMES:
        return "a time"
    return {"integer": "a number", "text": "a text", "blob": "octets"}[_kinds_of(column)[0]]
