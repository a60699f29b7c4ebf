"""Wake-ups from PostgreSQL: they come with the commit, and only then."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from reference_sender.outbox.engine import CHANNEL, open_engine
from reference_sender.outbox.listening import Listener
from reference_sender.outbox.store import Store, enqueue
from tests.reference_sender.outbox.databases import database
from tests.reference_sender.samples import MAIL


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with database("postgresql", tmp_path_factory.mktemp("listening")) as url:
        store = Store(open_engine(url))
        store.create()
        yield store
        store.engine.dispose()


class Woken:
    """Counts wake-ups."""

    def __init__(self) -> None:
        self._some = threading.Semaphore(0)

    def __call__(self) -> None:
        self._some.release()

    def within(self, seconds: float) -> bool:
        return self._some.acquire(timeout=seconds)


@pytest.fixture
def woken(store: Store) -> Iterator[Woken]:
    woken = Woken()
    listener = Listener(store.engine, woken)
    listener.start()
    assert woken.within(20), "it wakes once it listens, for what was said before"
    yield woken
    listener.close()


def test_a_commit_wakes_and_a_rollback_does_not(store: Store, woken: Woken) -> None:
    with store.engine.connect() as connection:
        enqueue(connection, MAIL, key="order-1")
        connection.rollback()
        enqueue(connection, MAIL, key="order-2")
        assert not woken.within(0)
        connection.commit()
    assert woken.within(20)
    # One for the commit, none for the rollback before it.
    assert not woken.within(0)
    assert [each.key for each in store.standings()] == ["order-2"]


def test_a_neighbours_outbox_wakes_nobody_here_and_a_line_that_breaks_is_mended(
    store: Store, woken: Woken
) -> None:
    with store.engine.begin() as connection:
        connection.execute(text(f"SELECT pg_notify('{CHANNEL}', 'somebody_else')"))
    with store.engine.begin() as connection:
        connection.execute(text(f"SELECT pg_notify('{CHANNEL}', '')"))
    assert woken.within(20)
    assert not woken.within(0)
    with store.engine.begin() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE 'SELECT current_schema%' AND pid <> pg_backend_pid() "
                "AND application_name = current_setting('application_name')"
            )
        )
    assert woken.within(20)
