"""What an error of the database says about the transaction it ended: done again at once, later, or in the dark.

One table for each kind of database. Source: PostgreSQL "Error Codes" (SQLSTATE), the server error reference of
MySQL / MariaDB (and the client's own numbers from 2000), SQLite "Result and Error Codes".
Must not hold: what is done about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy.exc import DBAPIError


class Trouble(StrEnum):
    """What is known about a transaction that ended with an error."""

    AT_ONCE = (
        "at once"  # it was rolled back because others were in the way: do it again, they are through by now
    )
    LATER = "later"  # it was rolled back, and doing it again at once would meet the same
    UNSURE = "unsure"  # the connection is gone: if that was at the COMMIT, nobody knows
    OURS = "ours"  # a mistake of the program or of the data: doing it again changes nothing


#: SQLSTATE, or its first two letters, which are its class.
POSTGRESQL: Mapping[str, Trouble] = {
    "40001": Trouble.AT_ONCE,  # serialization failure
    "40P01": Trouble.AT_ONCE,  # deadlock detected
    "40003": Trouble.UNSURE,  # statement completion unknown
    "55P03": Trouble.LATER,  # lock not available
    "57014": Trouble.LATER,  # query canceled, by a statement timeout above all
    "57P01": Trouble.UNSURE,  # admin shutdown
    "57P02": Trouble.UNSURE,  # crash shutdown
    "57P03": Trouble.LATER,  # cannot connect now
    "25006": Trouble.LATER,  # read-only transaction: a standby that is about to take over
    "08": Trouble.UNSURE,  # connection exception
    "53": Trouble.LATER,  # insufficient resources: disk, memory, connections
    "58": Trouble.LATER,  # system error
}

MYSQL: Mapping[int, Trouble] = {
    0: Trouble.UNSURE,  # the connection was closed, says PyMySQL
    1213: Trouble.AT_ONCE,  # deadlock found
    1020: Trouble.AT_ONCE,  # record has changed since last read
    1205: Trouble.LATER,  # lock wait timeout: it has waited long enough
    1040: Trouble.LATER,  # too many connections
    1203: Trouble.LATER,  # too many connections of this user
    1021: Trouble.LATER,  # disk full
    1114: Trouble.LATER,  # the table is full
    1290: Trouble.LATER,  # the server is read-only
    1792: Trouble.LATER,  # the transaction is
    1836: Trouble.LATER,  # the server is in read-only mode
    1053: Trouble.UNSURE,  # server shutdown in progress
    1927: Trouble.UNSURE,  # connection was killed
    2003: Trouble.LATER,  # cannot connect
    2006: Trouble.UNSURE,  # server has gone away
    2013: Trouble.UNSURE,  # lost connection during query
    2055: Trouble.UNSURE,  # lost connection, system error
    3024: Trouble.LATER,  # execution time exceeded
    4031: Trouble.UNSURE,  # disconnected for inactivity
}

#: Primary result codes; extended ones carry them in their low eight bits.
SQLITE: Mapping[int, Trouble] = {
    5: Trouble.LATER,  # SQLITE_BUSY: "database is locked", after the busy timeout
    6: Trouble.LATER,  # SQLITE_LOCKED
    8: Trouble.LATER,  # SQLITE_READONLY
    10: Trouble.LATER,  # SQLITE_IOERR: the journal undoes what was half written
    13: Trouble.LATER,  # SQLITE_FULL
    14: Trouble.LATER,  # SQLITE_CANTOPEN
    15: Trouble.LATER,  # SQLITE_PROTOCOL: locks of the WAL
}
#: Who says so may be a standby by now, or not be one any more: another connection may lead elsewhere.
READ_ONLY = frozenset({"25006", 1290, 1792, 1836})
_BUSY_SNAPSHOT = 517  # somebody else wrote between our read and our write: SQLITE_BUSY | 2 << 8


def trouble_of(error: DBAPIError) -> Trouble:
    """What the error says about its transaction."""
    if error.connection_invalidated:
        return Trouble.UNSURE
    original: Any = error.orig
    if (code := getattr(original, "sqlite_errorcode", None)) is not None:
        return Trouble.AT_ONCE if code == _BUSY_SNAPSHOT else SQLITE.get(code & 0xFF, Trouble.OURS)
    # PyMySQL says both, and its numbers say more.
    arguments = getattr(original, "args", ())
    number = arguments[0] if arguments else None
    if isinstance(number, int):
        return MYSQL.get(number, Trouble.OURS)
    if hasattr(original, "sqlstate"):
        state = original.sqlstate
        if state is None:
            # No answer of a server: psycopg has lost the connection, or never had one.
            return Trouble.UNSURE if _is_operational(original) else Trouble.OURS
        return POSTGRESQL.get(state) or POSTGRESQL.get(state[:2], Trouble.OURS)
    return Trouble.OURS


def is_read_only(original: BaseException) -> bool:
    """Whether a driver's error says that nothing can be written over this connection."""
    arguments = getattr(original, "args", ())
    return getattr(original, "sqlstate", None) in READ_ONLY or bool(arguments and arguments[0] in READ_ONLY)


def _is_operational(error: object) -> bool:
    return any(kind.__name__ in ("OperationalError", "InterfaceError") for kind in type(error).__mro__)
