"""Wake-ups from PostgreSQL: they come with the commit, and only then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from reference_sender.outbox.engine import CHANNEL, open_engine
from reference_sender.outbox.listening import Listener
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.evidence import Accepted, Evidence, Phase, Wire
from reference_sender.wiring import Parts, build, options_from
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
    """Counts wake-ups, and keeps what the listener complains of: it mends a line, and wakes whenever it has."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self._some = threading.Semaphore(0)

    def __call__(self) -> None:
        self._some.release()

    def log(self, event: str, /, **facts: object) -> None:
        self.complaints.append(f"{event}: {facts.get('cause')}")

    def within(self, seconds: float) -> bool:
        return self._some.acquire(timeout=seconds)


@pytest.fixture
def woken(store: Store) -> Iterator[Woken]:
    woken = Woken()
    listener = Listener(store.engine, woken, log=woken.log)
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
    # One for the commit, none for the rollback before it, and none because it had to begin anew.
    assert not woken.within(0)
    assert woken.complaints == []
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
    assert woken.complaints == []
    with store.engine.begin() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE 'SELECT current_schema%' AND pid <> pg_backend_pid() "
                "AND application_name = current_setting('application_name')"
            )
        )
    assert woken.within(20)


class Takes:
    """Accepts every mail."""

    async def send(self, parcel: Any, *, key: str, point_of_no_return: Any) -> Evidence:
        return Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200)

    async def close(self) -> None: ...


def test_a_sender_that_polls_once_an_hour_sends_at_the_commit(tmp_path: Path) -> None:
    """As it is wired: nobody has to say that the workers are to listen."""
    with database("postgresql", tmp_path) as url:
        asyncio.run(_sends_at_the_commit(url))


async def _sends_at_the_commit(url: str) -> None:
    said: list[str] = []
    decided = asyncio.Event()

    def log(event: str, /, **told: object) -> None:
        said.append(f"{event} {told.get('error', '')} {told.get('cause', '')}")
        if event == "decided":
            decided.set()

    sender = build(
        options_from({"database_url": url, "provider_url": "http://127.0.0.1:1", "poll_s": 3600.0}),
        Parts(
            transport=lambda _: Takes(),
            classify=lambda _: Accepted(reason="accepted", provider_id="m1"),
            log=log,
        ),
    )
    sender.store.create()
    stop, ready = asyncio.Event(), asyncio.Event()
    working = asyncio.create_task(sender.run(stop, ready=ready.set))
    await asyncio.wait_for(ready.wait(), 20)
    # The first may be found by the look with which listening begins, the others only by what their commits say.
    for key in ("order-1", "order-2", "order-3"):
        decided.clear()
        await asyncio.to_thread(_put, sender.store, key)
        await asyncio.wait_for(decided.wait(), 20)
    stop.set()
    await working
    # A listener that begins anew wakes as well, every few seconds: that is not what is meant.
    assert not [each for each in said if each.startswith("listen_failed")]


def _put(store: Store, key: str) -> None:
    with store.engine.begin() as connection:
        enqueue(connection, MAIL, key=key)
