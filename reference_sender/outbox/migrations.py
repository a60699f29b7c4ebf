"""The versions of the tables, and the way from each version to the next. `reference-sender init` goes it.

Plain steps, no Alembic: the outbox lives in somebody else's database, whose own migrations must not meet ours, and
must come up with one command and no project folder. Each step only adds, and drops no more than an index that another
one stands in for, so that workers of the version before go on while it is taken; what it adds is frozen here and never
read from `schema`, which is always the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.schema import CreateColumn
from sqlalchemy.types import TypeEngine

from reference_sender.outbox.columns import UtcDateTime
from reference_sender.outbox.engine import StoreTrouble
from reference_sender.outbox.schema import SPELLED, metadata, outbox_schema, outgoing_email

_Id = BigInteger().with_variant(Integer, "sqlite")
_Words = Text().with_variant(Text(2**24 - 1), "mysql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From the version before to this one."""

    version: int
    what: str
    columns: tuple[tuple[str, str, TypeEngine[Any]], ...] = ()
    """(table, column, type); each may be null, because there are rows already."""
    filled: tuple[tuple[str, str, TypeEngine[Any], str], ...] = ()
    """(table, column, type, default); the rows that are there get the default, and so does who does not know it."""
    tables: tuple[Table, ...] = ()
    indexes: tuple[tuple[str, str, tuple[str, ...], str], ...] = ()
    """(table, name, columns, only): an index of the rows for which `only` holds, or of all where there is no such."""
    partial: tuple[tuple[str, str, str, str], ...] = ()
    """(table, index, columns, rows that are in it); only where the database has indexes of some rows."""
    by_state: tuple[tuple[str, str, str, str], ...] = ()
    """(table, index, columns, state): an index of the rows in it; elsewhere the state is its first column."""
    stored: tuple[tuple[str, str, str], ...] = ()
    """(table, parameter, value): how PostgreSQL keeps the table; what somebody has said himself stays."""
    dropped: tuple[tuple[str, str], ...] = ()
    """(table, index) that another one of this step stands in for."""


_frozen = MetaData()

_Id = BigInteger().with_variant(Integer, "sqlite")
_Bytes = LargeBinary(2**32 - 1)
# What foreign keys lead to; only its number is needed to make them.
_mail = Table("outgoing_email", _frozen, Column("id", _Id, primary_key=True))
_attachment = Table(
    "email_attachment",
    _frozen,
    Column("digest", String(64), primary_key=True),
    Column("content", _Bytes, nullable=False),
    Column("octets", BigInteger, nullable=False),
    Column("used_at", UtcDateTime, nullable=False),
    **SPELLED,
)
_event = Table(
    "webhook_event",
    _frozen,
    Column("id", _Id, primary_key=True),
    Column("source", String(32), nullable=False),
    Column("event_id", String(255), nullable=False),
    Column("raw", _Bytes, nullable=False),
    Column("received_at", UtcDateTime, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", _Words),
    Column("looks", Integer, nullable=False),
    Column("next_look_at", UtcDateTime, index=True),
    Column("email_id", _Id, index=True),
    Column("settled_at", UtcDateTime, index=True),
    UniqueConstraint("source", "event_id", name="webhook_event_once"),
    **SPELLED,
)

STEPS: tuple[Step, ...] = (
    Step(
        version=2,
        what="templates are kept by name, with their parameters; the tables know their version",
        columns=(
            ("outgoing_email", "template", String(255)),
            ("outgoing_email", "parameters", _Words),
        ),
        tables=(
            Table(
                "outbox_schema",
                _frozen,
                Column("version", Integer, primary_key=True, autoincrement=False),
                **SPELLED,
            ),
        ),
    ),
    Step(
        version=3,
        what="classes of mail, providers and what is known of them, attachments by reference, suppression, dependencies, "
        "order, superseding, campaigns, what the provider tells afterwards",
        columns=(
            ("outgoing_email", "provider", String(64)),
            ("email_attempt", "provider", String(64)),
            ("outgoing_email", "attachments", _Words),
            ("outgoing_email", "depends_on", String(255)),
            ("outgoing_email", "ordering_key", String(255)),
            ("outgoing_email", "slot", String(255)),
            ("outgoing_email", "campaign", String(80)),
            ("outgoing_email", "hold_until", UtcDateTime()),
            ("outgoing_email", "last_event_at", UtcDateTime()),
            ("outgoing_email", "traceparent", String(64)),
            ("outgoing_email", "content_hash", String(64)),
            ("outgoing_email", "erased_at", UtcDateTime()),
        ),
        filled=(("outgoing_email", "mail_class", String(32), "confirmation"),),
        partial=(
            ("outgoing_email", "outgoing_email_failed", "queued_at", "state = 'failed'"),
            ("outgoing_email", "outgoing_email_dead", "queued_at", "state = 'dead'"),
        ),
        tables=(
            Table(
                "outbox_gate",
                _frozen,
                Column("provider", String(64), primary_key=True),
                Column("position", String(16), nullable=False),
                Column("in_a_row", Integer, nullable=False),
                Column("good", Integer, nullable=False),
                Column("bad", Integer, nullable=False),
                Column("since", UtcDateTime),
                Column("until", UtcDateTime),
                Column("trips", Integer, nullable=False),
                Column("probes", Integer, nullable=False),
                Column("passed", Integer, nullable=False),
                Column("throttles", Integer, nullable=False),
                Column("paused_until", UtcDateTime),
                Column("well_since", UtcDateTime),
                Column("reason", _Words),
                Column("updated_at", UtcDateTime, nullable=False),
                **SPELLED,
            ),
            Table(
                "operator_access",
                _frozen,
                Column("id", _Id, primary_key=True),
                Column("at", UtcDateTime, nullable=False, index=True),
                Column("operator", String(64), nullable=False),
                Column("action", String(32), nullable=False),
                Column("email_id", _Id, index=True),
                Column("detail", _Words),
                **SPELLED,
            ),
            Table(
                "outbox_bucket",
                _frozen,
                Column("name", String(64), primary_key=True),
                Column("tokens", Double, nullable=False),
                Column("at", UtcDateTime, nullable=False),
                **SPELLED,
            ),
            _attachment,
            Table(
                "email_attachment_use",
                _frozen,
                Column("email_id", _Id, ForeignKey(_mail.c.id, ondelete="CASCADE"), primary_key=True),
                Column("digest", String(64), ForeignKey(_attachment.c.digest), primary_key=True, index=True),
                **SPELLED,
            ),
            Table(
                "ordering_lane",
                _frozen,
                Column("ordering_key", String(255), primary_key=True),
                Column("enqueued_at", UtcDateTime, nullable=False),
                **SPELLED,
            ),
            Table(
                "suppression",
                _frozen,
                Column("address", String(320), primary_key=True),
                Column("kind", String(16), primary_key=True),
                Column("reason", String(32), nullable=False),
                Column("source", String(255), nullable=False),
                Column("since", UtcDateTime, nullable=False),
                Column("until", UtcDateTime),
                **SPELLED,
            ),
            Table(
                "campaign",
                _frozen,
                Column("name", String(80), primary_key=True),
                Column("state", String(16), nullable=False),
                Column("sender", _Words, nullable=False),
                Column("mail_class", String(32), nullable=False),
                Column("template", String(255), nullable=False),
                Column("parameters", _Words, nullable=False),
                Column("audience", _Words, nullable=False),
                Column("page_rows", Integer, nullable=False),
                Column("gap_s", Double, nullable=False),
                Column("begins_at", UtcDateTime, nullable=False),
                Column("ends_at", UtcDateTime),
                Column("cursor", _Words),
                Column("next_at", UtcDateTime, nullable=False),
                Column("pages", Integer, nullable=False),
                Column("members", Integer, nullable=False),
                Column("enqueued", Integer, nullable=False),
                Column("known", Integer, nullable=False),
                Column("suppressed", Integer, nullable=False),
                Column("refused", Integer, nullable=False),
                Column("created_at", UtcDateTime, nullable=False),
                Column("updated_at", UtcDateTime, nullable=False),
                **SPELLED,
            ),
            _event,
            Table(
                "delivery_fact",
                _frozen,
                Column("id", _Id, primary_key=True),
                Column("email_id", _Id, ForeignKey(_mail.c.id, ondelete="CASCADE"), nullable=False),
                Column("kind", String(16), nullable=False),
                Column("happened_at", UtcDateTime, nullable=False),
                Column("provider_id", String(255)),
                Column("detail", _Words),
                Column("recorded_at", UtcDateTime, nullable=False),
                UniqueConstraint("email_id", "kind", "happened_at", name="delivery_fact_once"),
                **SPELLED,
            ),
        ),
        indexes=(
            ("outgoing_email", "outgoing_email_slot", ("slot", "id"), "slot IS NOT NULL"),
            (
                "outgoing_email",
                "outgoing_email_ordering_key",
                ("ordering_key", "state"),
                "ordering_key IS NOT NULL",
            ),
            ("outgoing_email", "outgoing_email_hold_until", ("hold_until",), "hold_until IS NOT NULL"),
            ("outgoing_email", "outgoing_email_campaign", ("campaign", "state"), "campaign IS NOT NULL"),
        ),
    ),
    Step(
        version=4,
        what="an erasure finds what the provider told of a person by an index",
        columns=(("webhook_event", "named_at", UtcDateTime()),),
        tables=(
            Table(
                "event_address",
                _frozen,
                Column("digest", String(64), primary_key=True),
                Column(
                    "event_id", _Id, ForeignKey(_event.c.id, ondelete="CASCADE"), primary_key=True, index=True
                ),
                **SPELLED,
            ),
        ),
        indexes=(("webhook_event", "webhook_event_unnamed", ("named_at", "id"), "named_at IS NULL"),),
    ),
    Step(
        version=5,
        what="a claim reads the mails that are due in its order, however many there are",
        by_state=(
            ("outgoing_email", "outgoing_email_next", "priority DESC, next_attempt_at, id", "pending"),
        ),
        dropped=(("outgoing_email", "outgoing_email_due"),),
    ),
    Step(
        version=6,
        what="a mail that was lost with its worker again and again goes alone",
        columns=(("outgoing_email", "losses", Integer()),),
        indexes=(("outgoing_email", "outgoing_email_losses", ("losses", "state"), "losses IS NOT NULL"),),
    ),
    Step(
        version=7,
        what="PostgreSQL clears up behind claims and events as often with a long history as with none",
        stored=tuple(
            (table, parameter, value)
            for table in ("outgoing_email", "webhook_event")
            for parameter, value in (
                ("autovacuum_vacuum_scale_factor", "0"),
                ("autovacuum_vacuum_threshold", "20000"),
                ("vacuum_index_cleanup", "on"),
            )
        ),
    ),
)

VERSION = STEPS[-1].version

#: Any number will do; it only has to be the same for everybody who brings tables up.
_LOCK = 0x6D707266


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtUp:
    """What had to be done."""

    created: tuple[str, ...] = ()
    """Tables, where there was no outbox."""
    steps: tuple[Step, ...] = ()
    """Steps that were taken, where there was an older one."""


def version_of(connection: Connection) -> int | None:
    """Return the version of the tables in this database. None: there is no outbox."""
    database = inspect(connection)
    if not database.has_table(outgoing_email.name):
        return None
    if not database.has_table(outbox_schema.name):
        return 1  # The first version did not yet know that it was one.
    return connection.execute(select(func.max(outbox_schema.c.version))).scalar() or 1


def bring_up(connection: Connection) -> BroughtUp:
    """Make the tables, or bring older ones to this version; the mails in them stay. Raises `StoreTrouble`.

    Doing it again does nothing. Two that do it at once wait for each other.
    """
    with _alone(connection):
        return _bring_up(connection)


def _bring_up(connection: Connection) -> BroughtUp:
    found = version_of(connection)
    if found is None:
        there = set(inspect(connection).get_table_names())
        metadata.create_all(connection)
        connection.execute(insert(outbox_schema), {"version": VERSION})
        return BroughtUp(created=tuple(name for name in metadata.tables if name not in there))
    check_version_of_tables(found, older_will_do=True)
    steps = tuple(step for step in STEPS if step.version > found)
    for step in steps:
        _take(connection, step)
    return BroughtUp(steps=steps)


def check_version_of_tables(found: int, *, older_will_do: bool = False) -> None:
    """Raise `StoreTrouble` for tables that this program does not know (or not yet)."""
    if found > VERSION:
        raise StoreTrouble(
            f"the outbox has version {found} of its tables and this program knows up to {VERSION}: "
            "it is older than the one that made them; run the newer one"
        )
    if found < VERSION and not older_will_do:
        raise StoreTrouble(
            f"the outbox has version {found} of its tables and this program wants {VERSION}; "
            "run `reference-sender init`, which brings them up and keeps every mail"
        )


def _take(connection: Connection, step: Step) -> None:
    # Each thing by itself only if it is missing: MySQL commits every change of a table at once, so that a step which
    # broke off in the middle is there by half.
    database = inspect(connection)
    preparer = connection.dialect.identifier_preparer
    columns = [(table_name, Column(name, kind)) for table_name, name, kind in step.columns]
    columns += [
        (table_name, Column(name, kind, nullable=False, server_default=default))
        for table_name, name, kind, default in step.filled
    ]
    for table_name, column in columns:
        if column.name not in {each["name"] for each in database.get_columns(table_name)}:
            spelled = CreateColumn(column).compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {preparer.quote(table_name)} ADD COLUMN {spelled}"))
    for table in step.tables:
        table.create(connection, checkfirst=True)
    for table_name, name, names, only in step.indexes:
        if name not in {each["name"] for each in database.get_indexes(table_name)}:
            where = "" if connection.dialect.name == "mysql" else f" WHERE {only}"
            connection.execute(text(f"CREATE INDEX {name} ON {table_name} ({', '.join(names)}){where}"))
    if connection.dialect.name != "mysql":
        for table_name, index, indexed, only in step.partial:
            connection.execute(
                text(f"CREATE INDEX IF NOT EXISTS {index} ON {table_name} ({indexed}) WHERE {only}")
            )
    for table_name, name, indexed, state in step.by_state:
        if name not in {each["name"] for each in database.get_indexes(table_name)}:
            spelled_index = (
                f"({indexed}) WHERE state = '{state}'"
                if connection.dialect.name != "mysql"
                else f"(state, {indexed})"
            )
            connection.execute(text(f"CREATE INDEX {name} ON {table_name} {spelled_index}"))
    if connection.dialect.name == "postgresql":
        for table_name, parameter, value in step.stored:
            if parameter not in _said_of(connection, table_name):
                connection.execute(text(f"ALTER TABLE {table_name} SET ({parameter} = {value})"))
    for table_name, name in step.dropped:
        if name in {each["name"] for each in database.get_indexes(table_name)}:
            on = f" ON {table_name}" if connection.dialect.name == "mysql" else ""
            connection.execute(text(f"DROP INDEX {name}{on}"))
    connection.execute(insert(outbox_schema), {"version": step.version})


def _said_of(connection: Connection, table_name: str) -> set[str]:
    """The storage parameters of a table that are not PostgreSQL's own."""
    query = text("SELECT coalesce(reloptions, '{}') FROM pg_class WHERE oid = CAST(:name AS regclass)")
    said: list[str] = connection.execute(query, {"name": table_name}).scalar_one()
    return {each.partition("=")[0] for each in said}


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Let one at a time through; SQLite's transaction has locked the file already."""
    match connection.dialect.name:
        case "postgresql":
            # Given back by the end of the transaction.
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            yield
        case "mysql":
            key = {"key": f"mailproof-{_LOCK}"}
            if connection.execute(text("SELECT GET_LOCK(:key, 30)"), key).scalar() != 1:
                raise StoreTrouble(
                    "somebody else has been changing these tables for half a minute; try again"
                )
            try:
                yield
            finally:
                connection.execute(text("SELECT RELEASE_LOCK(:key)"), key)
        case _:
            yield
