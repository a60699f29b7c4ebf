"""Putting mail into the outbox, inside the caller's transaction: frozen bytes, one row per recipient.

Must not hold: anything a worker does with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import Connection, select

from reference_sender.clock import SystemClock
from reference_sender.life import State
from reference_sender.message import (
    Mail,
    Mailbox,
    check_event_key,
    idempotency_key_for,
    message_id_for,
    render,
    single,
)
from reference_sender.outbox.engine import as_it_is_now, insert_unless_there
from reference_sender.outbox.schema import outgoing_email
from reference_sender.policy.classes import MailClass
from reference_sender.templates import frozen

_row = outgoing_email.c


class _Session(Protocol):
    """An ORM session, as far as we need it."""

    def connection(self) -> Connection: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What an enqueue left behind: the rows of this event, whether this call made them or an earlier one did."""

    created: bool
    ids: tuple[int, ...]
    idempotency_keys: tuple[str, ...]
    message_ids: tuple[str, ...]


def enqueue(
    connection: Connection | _Session,
    mail: Mail,
    *,
    key: str,
    now: datetime | None = None,
    priority: int = 0,
    expires_at: datetime | None = None,
    template: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    key_for: Callable[[str, str], str] = idempotency_key_for,
) -> Enqueued:
    """Put the mail into the outbox, inside the caller's transaction: it is sent if and only if that commits.

    `key` names the business event (`order-1234-confirmation`). The same key again changes nothing and returns the
    same rows. `template` and `parameters` say what the mail was rendered from, for people. Takes a Connection or an ORM Session; sends one INSERT and one SELECT.
    """
    db = connection if isinstance(connection, Connection) else connection.connection()
    at = now if now is not None else SystemClock().now()
    rows = rows_of(
        mail,
        key=key,
        now=at,
        priority=priority,
        expires_at=expires_at,
        template=template,
        parameters=parameters,
        key_for=key_for,
    )
    backend = db.dialect.name
    inserted = db.execute(
        insert_unless_there(backend, rows), execution_options={"preserve_rowcount": True}
    ).rowcount
    # Read back by key: the database has decided who was first, not a look before the leap.
    keys = [row["idempotency_key"] for row in rows]
    found = {
        row.idempotency_key: row
        for row in db.execute(
            as_it_is_now(
                backend,
                select(_row.id, _row.idempotency_key, _row.message_id).where(_row.idempotency_key.in_(keys)),
            )
        )
    }
    return Enqueued(
        created=inserted > 0,
        ids=tuple(found[k].id for k in keys),
        idempotency_keys=tuple(keys),
        message_ids=tuple(found[k].message_id for k in keys),
    )


def rows_of(
    mail: Mail,
    *,
    key: str,
    now: datetime,
    priority: int = 0,
    expires_at: datetime | None = None,
    template: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    key_for: Callable[[str, str], str] = idempotency_key_for,
) -> list[dict[str, Any]]:
    """What an enqueue writes: one row of `outgoing_email` per recipient, without its number."""
    check_event_key(key)
    by_address = {Mailbox.parse(r, "recipient").address: r for r in mail.recipients}
    rows: list[dict[str, Any]] = []
    for address, recipient in by_address.items():
        idempotency_key = key_for(key, address)
        message_id = message_id_for(idempotency_key, mail.sender)
        rows.append(
            {
                "dedupe_key": key,
                "idempotency_key": idempotency_key,
                "message_id": message_id,
                "sender": Mailbox.parse(mail.sender, "sender").address,
                "recipient": address,
                "raw": render(single(mail, recipient), message_id, now),
                "template": template,
                "parameters": None if parameters is None else frozen(parameters),
                "mail_class": MailClass.CONFIRMATION.value,
                "priority": priority,
                "expires_at": expires_at,
                "created_at": now,
                "queued_at": now,
                "state": State.PENDING,
                "attempts": 0,
                "tries": 0,
                "next_attempt_at": now,
                "token": 0,
                "in_doubt": False,
                "may_repeat": False,
                "updated_at": now,
            }
        )
    return rows
