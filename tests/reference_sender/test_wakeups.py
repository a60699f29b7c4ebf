"""Wake-ups: heard within a moment, harmless when they come twice or for nothing, and nobody waits for the broker."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from reference_sender.clock import SystemClock
from reference_sender.life import State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.evidence import Accepted, Evidence, Phase, Wire
from reference_sender.wakeups import BODY, EXCHANGE, BadBrokerUrl, Listener, Notifier, parameters_of
from reference_sender.worker import Worker
from tests.reference_sender.brokers import broker
from tests.reference_sender.samples import MAIL, settings

WAIT_S = 20


class Heard:
    """Counts wake-ups; a test waits for the next one.

    A listener wakes after every reconnection, too: who counts wake-ups asserts also that the line was calm, or one
    that breaks and comes back for ever would be as good as a notice.
    """

    def __init__(self) -> None:
        self.count = 0
        self.events: list[str] = []
        self._changed = threading.Condition()

    def wake(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def log(self, event: str, /, **_: object) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait_until(self, enough: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= enough, WAIT_S), self.count

    def assert_calm(self) -> None:
        with self._changed:
            assert "broker_away" not in self.events, self.events

    def wait_for(self, event: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: event in self.events, WAIT_S), self.events


@pytest.fixture(scope="module")
def url() -> str:
    return broker()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def listener(url: str, heard: Heard) -> Iterator[Listener]:
    made = Listener(url, heard.wake, log=heard.log)
    made.start()
    assert made.listening.wait(WAIT_S)
    heard.wait_until(1)  # the one for what nobody has heard before
    yield made
    made.close()
    heard.assert_calm()


@pytest.fixture
def notifier(url: str, heard: Heard) -> Iterator[Notifier]:
    made = Notifier(url, log=heard.log)
    yield made
    made.close()
    heard.assert_calm()


def test_a_notice_wakes(listener: Listener, notifier: Notifier, heard: Heard) -> None:
    notifier.notify()
    heard.wait_until(2)
    notifier.notify()
    heard.wait_until(3)


def test_everybody_who_listens_is_woken(
    url: str, listener: Listener, notifier: Notifier, heard: Heard
) -> None:
    other = Heard()
    with closing(Listener(url, other.wake, log=other.log)) as second:
        second.start()
        assert second.listening.wait(WAIT_S)
        other.wait_until(1)
        notifier.notify()
        heard.wait_until(2)
        other.wait_until(2)
    other.assert_calm()


def test_a_notice_at_the_very_end_is_still_said(url: str, listener: Listener, heard: Heard) -> None:
    """A program that commits and exits."""
    leaving = Notifier(url, log=heard.log)
    leaving.notify()
    leaving.close()
    heard.wait_until(2)


def test_a_commit_of_a_session_is_a_notice_and_a_rollback_is_none(
    listener: Listener, notifier: Notifier, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(notifier, "notify", lambda: said.append("notice"))
    engine = create_engine("sqlite://")
    with Session(engine) as session:
        notifier.after_commits_of(session)
        session.execute(text("SELECT 1"))
        session.rollback()
        assert said == []
        session.execute(text("SELECT 1"))
        session.commit()
    engine.dispose()
    assert said == ["notice"]


class Transport:
    """Accepts everything and remembers it."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    async def send(self, parcel: Any, *, key: str, point_of_no_return: Any) -> Evidence:
        self.sent.append(parcel.id)
        return Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200)


def test_a_worker_that_polls_once_an_hour_sends_at_once_and_once_however_often_it_is_told(
    url: str, tmp_path: Path, notifier: Notifier, heard: Heard
) -> None:
    """The table is the truth: forged, doubled and empty wake-ups cost a look each."""
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    transport, done = Transport(), asyncio.Event()

    def log(event: str, /, **facts: object) -> None:
        if event == "decided":
            done.set()

    async def steps() -> None:
        worker = Worker(
            store=store,
            transport=transport,
            settings=settings(poll_s=3600.0),
            clock=SystemClock(),
            rng=random.Random(1),
            classify=lambda _: Accepted(reason="accepted", provider_id="m1"),
            log=log,
        )
        loop = asyncio.get_running_loop()
        stop, ready = asyncio.Event(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(worker.wake)

        listener = Listener(url, wake, log=heard.log)
        working = asyncio.create_task(worker.run(stop, ready=ready.set))
        await asyncio.wait_for(ready.wait(), WAIT_S)
        listener.start()
        assert await asyncio.to_thread(listener.listening.wait, WAIT_S)
        with store.engine.begin() as connection:
            enqueue(connection, MAIL, key="order-1")
        notifier.notify()
        await asyncio.wait_for(done.wait(), WAIT_S)
        with closing(pika.BlockingConnection(parameters_of(url))) as stranger:
            for body in (BODY, BODY, b"", b"\xff" * 100_000):
                stranger.channel().basic_publish(EXCHANGE, "", body)
        done.clear()
        with store.engine.begin() as connection:
            enqueue(connection, MAIL, key="order-2")
        notifier.notify()
        await asyncio.wait_for(done.wait(), WAIT_S)
        stop.set()
        await working
        await asyncio.to_thread(listener.close)

    asyncio.run(steps())
    heard.assert_calm()
    assert transport.sent == [1, 2]
    assert [s.state for s in store.standings()] == [State.ACCEPTED, State.ACCEPTED]
    store.engine.dispose()


def test_a_line_that_breaks_comes_back_and_wakes_for_what_was_missed(url: str, heard: Heard) -> None:
    """A relay between the two ends is cut: the listener reconnects through the next one."""
    with Relay() as relay, closing(Listener(relay.url, heard.wake, log=heard.log)) as listener:
        listener.start()
        heard.wait_until(1)
        relay.cut()
        heard.wait_for("broker_away")
        heard.wait_until(2)


def test_without_a_broker_nobody_waits_and_nobody_fails(heard: Heard) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, not listening: refused
        nowhere = f"amqp://guest:guest@127.0.0.1:{unused.getsockname()[1]}/%2F?connection_attempts=1"
        out = Notifier(nowhere, log=heard.log, rng=random.Random(1))
        out.notify()
        heard.wait_for("broker_away")
        out.close()
        in_ = Listener(nowhere, heard.wake, log=heard.log, rng=random.Random(1))
        in_.start()
        in_.close()
    assert heard.count == 0


@pytest.mark.parametrize("url", ["localhost:5672", "http://x", "amqp://", "amqp://host:port", ""])
def test_a_url_that_names_no_broker_is_one_sentence(url: str) -> None:
    with pytest.raises(BadBrokerUrl, match=r"^the broker's URL is '.*'; write it like amqp://"):
        parameters_of(url)


def test_no_sentence_shows_a_password() -> None:
    with pytest.raises(BadBrokerUrl, match="is a URL with a password") as caught:
        parameters_of("amqp://me:secret@host:port/")
    assert "secret" not in repr((caught.value, caught.value.__cause__))


class Relay:
    """Passes bytes on to the broker until it is cut."""

    def __enter__(self) -> Relay:
        real = parameters_of(broker())
        self._behind = (real.host, real.port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"amqp://guest:guest@127.0.0.1:{self._door.getsockname()[1]}/%2F?socket_timeout=3"
        self._lines: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join(WAIT_S)
        self.cut()

    def _serve(self) -> None:
        while True:
            try:
                front, _ = self._door.accept()
            except OSError:
                return
            back = socket.create_connection(self._behind)
            self._lines += [front, back]
            for one, other in ((front, back), (back, front)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65_536):
                other.sendall(data)
        except OSError:
            return

    def cut(self) -> None:
        for line in self._lines:
            try:
                line.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # cut already
            line.close()
        self._lines.clear()
