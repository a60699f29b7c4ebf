"""From every version of the tables to this one: the mails stay, and the result is what a fresh outbox has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert, inspect, text

from reference_sender.life import State
from reference_sender.outbox.engine import StoreTrouble, open_engine
from reference_sender.outbox.migrations import STEPS, VERSION, BroughtUp
from reference_sender.outbox.schema import metadata, outbox_schema
from reference_sender.outbox.store import Store, enqueue
from tests.reference_sender.outbox.databases import KINDS, database
from tests.reference_sender.samples import MAIL, NOW

VERSIONS = Path(__file__).with_name("versions")

_V1_ROW = text(
    "INSERT INTO outgoing_email (dedupe_key, idempotency_key, message_id, sender, recipient, raw, priority, created_at, "
    "queued_at, state, attempts, tries, next_attempt_at, token, in_doubt, may_repeat, updated_at) VALUES "
    "(:key, :key, '<x@example.org>', 's@example.org', 'r@example.com', :raw, 0, :at, :at, 'pending', 0, 0, :at, 0, "
    ":no, :no, :at)"
)
_V1_FACTS = {"key": "order-0", "raw": b"To: r@example.com", "at": "2026-01-01 00:00:00.000000", "no": False}


@pytest.fixture(params=KINDS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An outbox of version 1 with one mail in it."""
    with database(request.param, tmp_path) as url:
        store = Store(open_engine(url))
        script = (VERSIONS / f"v1.{request.param}.sql").read_text(encoding="utf-8")
        with store.engine.begin() as connection:
            for statement in script.split(";\n"):
                if statement.strip():
                    connection.exec_driver_sql(statement)
            connection.execute(_V1_ROW, _V1_FACTS)
        yield store
        store.engine.dispose()


def shape(connection: Connection) -> dict[str, Any]:
    """The tables as the database knows them: columns with type and nullability, in no order, indexes, storage parameters."""
    database = inspect(connection)
    return {
        name: (
            {c["name"]: (str(c["type"]), c["nullable"]) for c in database.get_columns(name)},
            sorted(str(index["name"]) for index in database.get_indexes(name)),
            stored(connection, name),
        )
        for name in metadata.tables
    }


def stored(connection: Connection, table: str) -> list[str]:
    """How PostgreSQL was told to keep a table."""
    if connection.dialect.name != "postgresql":
        return []
    query = text("SELECT coalesce(reloptions, '{}') FROM pg_class WHERE oid = CAST(:name AS regclass)")
    return sorted(connection.execute(query, {"name": table}).scalar_one())


def test_versions_go_up_one_by_one() -> None:
    assert [step.version for step in STEPS] == list(range(2, VERSION + 1))


def test_an_older_outbox_says_what_to_do(old: Store) -> None:
    with pytest.raises(StoreTrouble, match=f"has version 1 .* wants {VERSION}; run `reference-sender init`"):
        old.check()


def test_a_mail_of_an_older_outbox_is_sent_by_this_program(old: Store) -> None:
    assert old.create() == BroughtUp(steps=STEPS)
    old.check()
    (parcel,) = old.claim(now=NOW.replace(year=NOW.year + 1), limit=10, lease_s=60.0, dedupes=True)
    assert (parcel.key, parcel.state, bytes(parcel.raw)) == (
        "order-0",
        State.SENDING,
        b"To: r@example.com",
    )
    assert old.create() == BroughtUp()


def test_what_was_brought_up_is_what_is_made_fresh(old: Store) -> None:
    old.create()
    with old.engine.connect() as connection:
        brought_up = shape(connection)
    old.create(recreate=True)
    with old.engine.connect() as connection:
        assert brought_up == shape(connection)


def test_a_step_that_broke_off_in_the_middle_is_taken_again(old: Store) -> None:
    _, name, _ = STEPS[0].columns[0]
    with old.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE outgoing_email ADD COLUMN {name} VARCHAR(255)"))
    assert old.create() == BroughtUp(steps=STEPS)
    old.check()


@pytest.mark.parametrize("old", ["postgresql"], indirect=True)
def test_what_somebody_has_said_of_a_table_stays(old: Store) -> None:
    with old.engine.begin() as connection:
        connection.execute(text("ALTER TABLE outgoing_email SET (autovacuum_vacuum_threshold = 5)"))
    old.create()
    with old.engine.connect() as connection:
        assert stored(connection, "outgoing_email") == [
            "autovacuum_vacuum_scale_factor=0",
            "autovacuum_vacuum_threshold=5",
            "vacuum_index_cleanup=on",
        ]


def test_a_worker_of_the_version_before_goes_on_meanwhile(old: Store) -> None:
    """What version 1 writes is still a whole row afterwards."""
    old.create()
    with old.engine.begin() as connection:
        connection.execute(_V1_ROW, _V1_FACTS | {"key": "order-1"})
        assert enqueue(connection, MAIL, key="order-2", now=NOW).created
    assert {each.key for each in old.standings()} == {"order-0", "order-1", "order-2"}


def test_a_newer_outbox_is_left_alone(tmp_path: Path) -> None:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    with store.engine.begin() as connection:
        connection.execute(insert(outbox_schema), {"version": VERSION + 1})
    for look in (store.create, store.check):
        with pytest.raises(StoreTrouble, match=f"has version {VERSION + 1} .* run the newer one"):
            look()
    store.engine.dispose()
