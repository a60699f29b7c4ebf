"""Contents of attachments, each stored once: put in at enqueue, fetched at claim, dropped by `purging` when nobody names them.

Must not hold: how a mail is cut and put together (`reference_sender.attachments`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, LargeBinary, bindparam, func, insert, select, text, type_coerce, update

from reference_sender.attachments import MissingAttachment, put_in, read
from reference_sender.message import InvalidMail
from reference_sender.outbox.engine import insert_or_update
from reference_sender.outbox.rows import IDS
from reference_sender.outbox.schema import email_attachment, email_attachment_use
from reference_sender.outbox.sealed import SealedBytes
from reference_sender.sealing import is_sealed

_content, _use = email_attachment.c, email_attachment_use.c

_CONTENTS = select(_content.digest, _content.content).where(_content.digest.in_(IDS))

#: So many octets go into one statement where the database takes only so much at once.
PIECE = 4 * 2**20
# Of what it takes at once, for the words around the octets.
_SPARE = 2**20
_MOST = text("SELECT @@max_allowed_packet")

_USED = (
    update(email_attachment)
    .where(_content.digest == bindparam("name"))
    .values(used_at=bindparam("now", type_=_content.used_at.type))
)


def keep(connection: Connection, contents: Mapping[str, bytes], now: datetime) -> None:
    """Store contents that are not there yet, and note that they are used: nobody purges them before the commit."""
    # In one order for all, so that two who store the same ones do not wait for each other in a circle.
    for digest in sorted(contents):
        # Mostly it is there, and large: it is not sent again just to be refused.
        if connection.execute(_USED, {"name": digest, "now": now}).rowcount:
            continue
        first, *rest = pieces_of(connection, contents[digest])
        connection.execute(
            insert_or_update(
                connection.dialect.name,
                {
                    "digest": digest,
                    "content": first,
                    "octets": len(contents[digest]),
                    "used_at": now,
                },
                table=email_attachment,
                key=("digest",),
                update=("used_at",),
            )
        )
        append(connection, digest, rest)


def pieces_of(connection: Connection, content: bytes) -> list[Any]:
    """A content as it is written: mostly in one piece. Raises `InvalidMail` for one that the database does not take.

    PyMySQL spells octets in hexadecimal, twice as long, and MariaDB takes 16 MB in one statement unless it is told
    otherwise: a file of 10 MB would break the line.
    """
    if connection.dialect.name != "mysql" or len(content) <= PIECE:
        return [content]
    stored = SealedBytes().process_bind_param(content, connection.dialect) or b""
    most = most_octets(connection) - _SPARE
    if len(stored) > most:
        raise InvalidMail(
            f"an attachment has {len(content):,} octets, and this database takes {most:,} at most (max_allowed_packet); "
            "raise that, or send a link"
        )
    return [type_coerce(stored[begin : begin + PIECE], LargeBinary) for begin in range(0, len(stored), PIECE)]


def most_octets(connection: Connection) -> int:
    """So many octets MySQL or MariaDB takes at once (max_allowed_packet)."""
    return int(connection.execute(_MOST).scalar_one())


def append(connection: Connection, digest: str, rest: Sequence[Any]) -> None:
    """Write what is left of a content behind its first piece, in the same transaction.

    By the length that is there: where somebody else has stored it meanwhile it is whole, and stays as it is.
    """
    for number, piece in enumerate(rest, start=1):
        there = func.length(type_coerce(_content.content, LargeBinary)) == number * PIECE
        longer = func.concat(type_coerce(_content.content, LargeBinary), piece)
        connection.execute(
            update(email_attachment).where(_content.digest == digest, there).values(content=longer)
        )


def name(connection: Connection, uses: Sequence[tuple[int, str]]) -> None:
    """Note which mail names which content, as (number of the row, digest)."""
    if uses:
        rows = [{"email_id": email_id, "digest": digest} for email_id, digest in sorted(set(uses))]
        connection.execute(insert(email_attachment_use), rows)


def names_of(connection: Connection, ids: Sequence[int]) -> set[tuple[int, str]]:
    """What these rows name, as (number of the row, digest)."""
    found = connection.execute(select(_use.email_id, _use.digest).where(_use.email_id.in_(list(ids))))
    return {(row.email_id, row.digest) for row in found}


def whole(connection: Connection, rows: Iterable[Any]) -> tuple[dict[int, bytes], set[int]]:
    """Mails of claimed rows with their attachments in them, by number, and those whose contents are sealed.

    Left out of both: who names a content that is gone.
    """
    slots = {row.id: read(row.attachments) for row in rows}
    digests = {slot.digest for each in slots.values() for slot in each}
    if not digests:
        return {}, set()
    contents = {
        each.digest: bytes(each.content) for each in connection.execute(_CONTENTS, {"ids": list(digests)})
    }
    sealed = {digest for digest, content in contents.items() if is_sealed(content)}
    shut = {number for number, each in slots.items() if any(slot.digest in sealed for slot in each)}
    found = {}
    for row in rows:
        if row.id in shut:
            continue
        try:
            found[row.id] = put_in(bytes(row.raw), slots[row.id], contents)
        except MissingAttachment:
            continue
    return found, shut
