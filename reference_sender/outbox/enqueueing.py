"""Putting mail into the outbox, inside the caller's transaction: frozen bytes, one row per recipient.

Must not hold: anything a worker does with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import Connection, select

from reference_sender.attachments import read, take_out, written
from reference_sender.clock import SystemClock
from reference_sender.life import State
from reference_sender.message import (
    InvalidMail,
    Mail,
    Mailbox,
    check_event_key,
    check_moment,
    check_name,
    idempotency_key_for,
    message_id_for,
    render,
    single,
)
from reference_sender.outbox import attachments, waiting
from reference_sender.outbox.engine import as_it_is_now, telling, time_of
from reference_sender.outbox.putting import put
from reference_sender.outbox.room import QueueCap
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.suppression import suppressions_of
from reference_sender.policy.classes import MANNERS, MailClass, ends_at
from reference_sender.templates import frozen
from reference_sender.tracing import check_traceparent, current_traceparent

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
    suppressed: tuple[str, ...] = ()
    """Recipients that must not be written to; their rows say so and are not sent."""
    differs: bool = False
    """A row was there already, and its mail is another one than this. What is there stays and is sent."""


#: What the column `priority` holds on every database: 32 bits.
LEAST_PRIORITY, MOST_PRIORITY = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a mail is to be treated, besides what it says."""

    mail_class: MailClass = MailClass.CONFIRMATION
    priority: int | None = None
    """Higher goes first. None: that of the class."""
    expires_at: datetime | None = None
    """After it the mail is not worth sending. None: that of the class."""
    not_before: datetime | None = None
    depends_on: str | None = None
    """The event key of a mail that must be accepted before this one goes."""
    ordering_key: str | None = None
    """Mails with the same one go one after the other, in the order of their enqueues."""
    slot: str | None = None
    """Of mails with the same one only the newest is worth sending, like of login codes for one user."""
    campaign: str | None = None

    def __post_init__(self) -> None:
        if self.mail_class not in MANNERS:
            raise InvalidMail(
                f"there is no mail class {str(self.mail_class)!r}; there are {', '.join(sorted(MANNERS))}"
            )
        object.__setattr__(self, "mail_class", MailClass(self.mail_class))  # also where it came as a text

    def check(self, key: str) -> None:
        """Raise `InvalidMail` for names that are none, a priority beyond its column, times without a zone, and a mail that would wait for itself."""
        if self.priority is not None and not LEAST_PRIORITY <= self.priority <= MOST_PRIORITY:
            raise InvalidMail(
                f"priority is {self.priority}; it must be from {LEAST_PRIORITY} to {MOST_PRIORITY}"
            )
        for what, name in (("depends_on", self.depends_on), ("ordering_key", self.ordering_key)):
            check_name(name, what)
        for what, moment in (("expires_at", self.expires_at), ("not_before", self.not_before)):
            check_moment(moment, what)
        check_name(self.slot, "slot")
        check_name(self.campaign, "campaign", most=80)
        if self.depends_on == key:
            raise InvalidMail(f"depends_on is {key!r}, the mail itself; name the mail that must go before it")


def enqueue(
    connection: Connection | _Session,
    mail: Mail,
    *,
    key: str,
    now: datetime | None = None,
    mail_class: MailClass | str = MailClass.CONFIRMATION,
    priority: int | None = None,
    expires_at: datetime | None = None,
    not_before: datetime | None = None,
    depends_on: str | None = None,
    ordering_key: str | None = None,
    slot: str | None = None,
    campaign: str | None = None,
    template: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    key_for: Callable[[str, str], str] = idempotency_key_for,
    cap: QueueCap | None = None,
    traceparent: str | None = None,
) -> Enqueued:
    """Put the mail into the outbox, inside the caller's transaction: it is sent if and only if that commits.

    `key` names the business event (`order-1234-confirmation`). The same key again changes nothing and returns the
    same rows. `template` and `parameters` say what the mail was rendered from, for people; what `depends_on`,
    `ordering_key`, `slot` and the others mean stands in `Manner`. `traceparent` is the trace that its attempts belong
    to; without it the span that is open here, if there is one. Takes a Connection or an ORM Session; sends one
    INSERT of mail and two SELECTs, and more only for attachments, order, dependencies and a cap.
    Raises `InvalidMail`, and `QueueFull` where a `cap` leaves no room for the class.
    """
    db = connection if isinstance(connection, Connection) else connection.connection()
    at = now if now is not None else SystemClock().now()
    manner = Manner(
        mail_class=mail_class,  # type: ignore[arg-type] # checked there
        priority=priority,
        expires_at=expires_at,
        not_before=not_before,
        depends_on=depends_on,
        ordering_key=ordering_key,
        slot=slot,
        campaign=campaign,
    )
    rows, contents = rows_and_contents(
        mail, key=key, now=at, manner=manner, template=template, parameters=parameters, key_for=key_for
    )
    if traceparent is not None:
        check_traceparent(traceparent)
    for row in rows:
        row["traceparent"] = traceparent or current_traceparent()
    if cap is not None:
        cap.check(db, manner.mail_class, at)
    suppressed = _suppress(db, rows, manner, at)
    _hold(db, rows, key, manner, at)
    if contents:
        attachments.keep(db, contents, at)
    backend = db.dialect.name
    if now is None and time_of(backend) is not None:
        _go_by_clock_of(backend, rows, manner, at)
    inserted = put(db, rows)
    # Read back by key: the database has decided who was first, not a look before the leap.
    keys = [row["idempotency_key"] for row in rows]
    asked = select(_row.id, _row.idempotency_key, _row.message_id, _row.attachments).where(
        _row.idempotency_key.in_(keys)
    )
    if inserted:
        asked = telling(backend, asked)
    found = {row.idempotency_key: row for row in db.execute(as_it_is_now(backend, asked))}
    if contents and inserted:
        attachments.name(db, _new_uses(db, list(found.values())))
    return Enqueued(
        created=inserted > 0,
        ids=tuple(found[k].id for k in keys),
        idempotency_keys=tuple(keys),
        message_ids=tuple(found[k].message_id for k in keys),
        suppressed=suppressed,
        differs=inserted < len(found) and _differs(db, mail, rows),
    )


def rows_of(mail: Mail, *, key: str, now: datetime, **more: Any) -> list[dict[str, Any]]:
    """What an enqueue writes: one row of `outgoing_email` per recipient, without its number; `more` as there."""
    return rows_and_contents(mail, key=key, now=now, manner=manner_from(more), **more)[0]


def manner_from(more: dict[str, Any]) -> Manner:
    """Take what makes a `Manner` out of the arguments of an enqueue."""
    told = {each.name: more.pop(each.name, None) for each in fields(Manner)}
    return Manner(**{name: value for name, value in told.items() if value is not None})


def rows_and_contents(
    mail: Mail,
    *,
    key: str,
    now: datetime,
    manner: Manner | None = None,
    template: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    key_for: Callable[[str, str], str] = idempotency_key_for,
) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """One row per recipient, and the contents of attachments that they name, by digest."""
    check_event_key(key)
    check_moment(now, "now")
    check_name(template, "the name of the template")
    manner = manner or Manner()
    manner.check(key)
    # Who plans ahead does not want the wait to count as age.
    due = now if manner.not_before is None else max(now, manner.not_before)
    priority = MANNERS[manner.mail_class].priority if manner.priority is None else manner.priority
    by_address = {Mailbox.parse(r, "recipient").address: r for r in mail.recipients}
    rows: list[dict[str, Any]] = []
    contents: dict[str, bytes] = {}
    for address, recipient in by_address.items():
        idempotency_key = key_for(key, address)
        message_id = message_id_for(idempotency_key, mail.sender)
        frame = take_out(render(single(mail, recipient), message_id, now), mail.attachments)
        contents |= frame.contents
        rows.append(
            {
                "dedupe_key": key,
                "idempotency_key": idempotency_key,
                "message_id": message_id,
                "sender": Mailbox.parse(mail.sender, "sender").address,
                "recipient": address,
                "raw": frame.raw,
                "attachments": written(frame.slots),
                "template": template,
                "parameters": None if parameters is None else frozen(parameters),
                "mail_class": manner.mail_class.value,
                "priority": priority,
                "expires_at": ends_at(manner.mail_class, manner.expires_at, due),
                "depends_on": manner.depends_on,
                "ordering_key": manner.ordering_key,
                "slot": manner.slot,
                "campaign": manner.campaign,
                "hold_until": None,
                "created_at": now,
                "queued_at": due,
                "state": State.PENDING,
                "attempts": 0,
                "tries": 0,
                "next_attempt_at": due,
                "token": 0,
                "in_doubt": False,
                "may_repeat": False,
                "last_error": None,
                "updated_at": now,
            }
        )
    return rows, contents


def suppress_rows(rows: Sequence[dict[str, Any]], addresses: Sequence[str]) -> tuple[str, ...]:
    """Let the rows of these recipients say that they must not be written to; who they are."""
    barred = [row for row in rows if row["recipient"].lower() in addresses]
    for row in barred:
        row |= {
            "state": State.SUPPRESSED,
            "next_attempt_at": None,
            "last_error": "the recipient was on the suppression list at enqueue",
        }
    return tuple(row["recipient"] for row in barred)


def hold_rows(rows: Sequence[dict[str, Any]], *, all_wait: bool, one_by_one: bool) -> None:
    """Let rows wait for other mail: all of them, or all behind the first that is to be sent."""
    to_send = [row for row in rows if row["state"] is State.PENDING]
    for number, row in enumerate(to_send):
        if all_wait or (one_by_one and number):
            row |= {
                "hold_until": waiting.hold_until(row["queued_at"], row["expires_at"]),
                "next_attempt_at": None,
            }


def _suppress(
    db: Connection, rows: Sequence[dict[str, Any]], manner: Manner, now: datetime
) -> tuple[str, ...]:
    entries = suppressions_of(db, [row["recipient"].lower() for row in rows])
    barred = [
        address
        for address, found in entries.items()
        if any(each.covers(manner.mail_class, now) for each in found)
    ]
    return suppress_rows(rows, barred) if barred else ()


def _go_by_clock_of(backend: str, rows: Sequence[dict[str, Any]], manner: Manner, at: datetime) -> None:
    """Due, aged and expired by the clock that the workers go by: ours may be minutes ahead, or behind."""
    moments = {at: time_of(backend)}
    after_s = MANNERS[manner.mail_class].expires_after_s
    if manner.expires_at is None and after_s is not None:
        moments[at + timedelta(seconds=after_s)] = time_of(backend, after_s=after_s)
    for row in rows:
        for name in ("queued_at", "next_attempt_at", "expires_at", "hold_until"):
            row[name] = moments.get(row[name], row[name])


def _hold(db: Connection, rows: Sequence[dict[str, Any]], key: str, manner: Manner, now: datetime) -> None:
    all_wait = False
    if manner.ordering_key is not None:
        all_wait = waiting.enter_lane(db, manner.ordering_key, now)
    if manner.depends_on is not None:
        if waiting.depends_in_a_circle(db, key, manner.depends_on):
            raise InvalidMail(
                f"{key!r} would depend on {manner.depends_on!r}, which depends on it; one of them must go first"
            )
        all_wait = all_wait or not waiting.has_come_about(db, manner.depends_on)
    hold_rows(rows, all_wait=all_wait, one_by_one=manner.ordering_key is not None)


def _new_uses(db: Connection, rows: Sequence[Any]) -> list[tuple[int, str]]:
    """Which row names which content, of the rows that name theirs nowhere yet."""
    known = attachments.names_of(db, [row.id for row in rows])
    return sorted({(row.id, slot.digest) for row in rows for slot in read(row.attachments)} - known)


def _differs(db: Connection, mail: Mail, rows: Sequence[dict[str, Any]]) -> bool:
    """Whether a row that was there holds another mail than this one.

    Rendered as of then, the same mail is the same bytes.
    """
    by_address = {Mailbox.parse(r, "recipient").address: r for r in mail.recipients}
    recipients = {row["idempotency_key"]: by_address[row["recipient"]] for row in rows}
    stored = select(_row.idempotency_key, _row.message_id, _row.created_at, _row.raw, _row.attachments)
    for row in db.execute(stored.where(_row.idempotency_key.in_(list(recipients)))):
        raw = render(single(mail, recipients[row.idempotency_key]), row.message_id, row.created_at)
        frame = take_out(raw, mail.attachments)
        if (frame.raw, written(frame.slots)) != (bytes(row.raw), row.attachments):
            return True
    return False
