"""Putting rows of mail in: as many in one statement as the database takes.

PostgreSQL takes 65,535 parameters in one, MySQL and MariaDB so many octets (max_allowed_packet, 16 MB on MariaDB).
Must not hold: what is in the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from reference_sender.message import InvalidMail
from reference_sender.outbox.attachments import PIECE, most_octets
from reference_sender.outbox.engine import insert_unless_there
from reference_sender.outbox.sealed import SealedBytes

#: So many rows go into one INSERT; each has about thirty parameters.
AT_ONCE = 500
#: So many octets a statement has besides, at most: names and addresses of one mail, and the words of SQL.
_REST = 64 * 1024


def put(connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
    """Insert rows of `outgoing_email` whose key is not there yet; how many were. Raises `InvalidMail` for one that is too large."""
    backend = connection.dialect.name
    if backend == "mysql":
        # Before anything is written: whoever catches the refusal may commit.
        for row in rows:
            if _octets(row) > PIECE:
                _check_size(connection, row)
    return sum(
        connection.execute(
            insert_unless_there(backend, some), execution_options={"preserve_rowcount": True}
        ).rowcount
        for some in _portions(connection, rows)
    )


def _portions(connection: Connection, rows: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    """The rows, so many at a time as may go together."""
    if connection.dialect.name != "mysql":
        yield from (rows[begin : begin + AT_ONCE] for begin in range(0, len(rows), AT_ONCE))
        return
    some: list[dict[str, Any]] = []
    octets = 0
    for row in rows:
        size = _octets(row)
        if some and (len(some) >= AT_ONCE or octets + size > PIECE):
            yield some
            some, octets = [], 0
        some.append(row)
        octets += size
    if some:
        yield some


def _octets(row: Mapping[str, Any]) -> int:
    return len(row["raw"]) + len(row["parameters"] or "")


def _check_size(connection: Connection, row: Mapping[str, Any]) -> None:
    stored = SealedBytes().process_bind_param(row["raw"], connection.dialect) or b""
    # PyMySQL spells octets in hexadecimal, twice as long.
    most = (most_octets(connection) - _REST - 2 * len(row["parameters"] or "")) // 2
    if len(stored) > most:
        raise InvalidMail(
            f"the mail has {len(row['raw']):,} octets, and this database takes {most:,} at most (max_allowed_packet); "
            "raise that, attach what is large, or send a link"
        )
