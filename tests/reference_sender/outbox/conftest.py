"""Outboxes on every kind of database, made once for each module; servers take their time over that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import metadata, outbox_schema
from reference_sender.outbox.store import Store
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.databases import KINDS, database


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A database with the tables in it: made once, because servers take their time over that."""
    with database(request.param, tmp_path_factory.mktemp(request.param)) as url:
        store = Store(open_engine(url))
        store.create()
        yield store
        store.engine.dispose()


@pytest.fixture
def outbox(place: Store) -> SqlBench:
    with place.engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not outbox_schema:
                connection.execute(table.delete())
        for statement in _COUNT_ANEW[place.engine.dialect.name]:
            connection.execute(text(statement))
    # A store of its own: what it remembers of its last looks is of the test before.
    return SqlBench(Store(place.engine))


_COUNT_ANEW = {
    "sqlite": ("DELETE FROM sqlite_sequence",),
    "postgresql": (
        "ALTER SEQUENCE outgoing_email_id_seq RESTART",
        "ALTER SEQUENCE email_attempt_id_seq RESTART",
    ),
    "mysql": (
        "ALTER TABLE outgoing_email AUTO_INCREMENT = 1",
        "ALTER TABLE email_attempt AUTO_INCREMENT = 1",
    ),
}


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlBench]:
    """An outbox whose tables a test may change."""
    with database(request.param, tmp_path) as url:
        store = Store(open_engine(url))
        store.create()
        yield SqlBench(store)
        store.engine.dispose()


@pytest.fixture
def loose(tmp_path: Path) -> Iterator[SqlBench]:
    """An outbox with three mails on the database that does not know kinds."""
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    bench = SqlBench(store)
    for number in range(3):
        bench.put(f"order-{number}")
    yield bench
    store.engine.dispose()


@pytest.fixture
def store(outbox: SqlBench) -> Store:
    return outbox.store
