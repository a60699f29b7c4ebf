"""Wake-ups through RabbitMQ: after a commit one side says "there is mail", and workers look at once instead of at the next poll.

A wake-up is a hint and holds nothing. The table stays the truth: one that is lost costs a poll, one that comes twice, too
early or for nothing costs a look. That is why neither side ever waits for the broker, and why nothing that it does –
away, full, redelivering – is an error of a business transaction or of a worker.

Each side is a thread that owns one connection (pika's connections belong to one thread) and mends it by itself.
Must not hold: mails, the outbox.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from reference_sender.log import Log, cause_of, quiet
from reference_sender.policy.settings import InvalidSettings

#: A fanout exchange: every worker has a queue of its own and hears every wake-up.
EXCHANGE = "mailproof.outbox"
#: What is said; the content means nothing, and it must not.
BODY = b"{}"
#: The longest that an end waits for the broker before it looks whether it is to stop.
_TURN_S = 0.5
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
#: What a broken line or broker raises. OSError: name resolution and sockets.
_TROUBLE = (AMQPError, OSError)


# The library complains aloud about every broken line; we say it ourselves, in a line of our own log.
logging.getLogger("pika").addHandler(logging.NullHandler())


class BadBrokerUrl(InvalidSettings):
    """The URL cannot be one of a broker; the text is one sentence."""


def parameters_of(url: str) -> pika.URLParameters:
    """Read an AMQP URL. Raises `BadBrokerUrl`, whose sentence never repeats a password."""
    shown = "a URL with a password" if "@" in url else repr(url)
    wanted = "write it like amqp://user:password@host:5672/%2F or amqps://…"
    try:
        if urlsplit(url).scheme not in ("amqp", "amqps") or not urlsplit(url).hostname:
            raise ValueError(url)
        return pika.URLParameters(url)
    except (ValueError, TypeError) as error:
        # The error of the library shows the URL.
        raise BadBrokerUrl(f"the broker's URL is {shown}; {wanted}") from (None if "@" in url else error)


class _End(ABC):
    """One end of the line: a thread with a connection that comes back."""

    def __init__(self, url: str, *, name: str, log: Log, rng: random.Random) -> None:
        self._parameters = parameters_of(url)
        self._name = name
        self._log = log
        self._rng = rng
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = -1

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._pid = os.getpid()
        self._thread.start()

    def close(self, *, within_s: float = 5.0) -> None:
        """Stop, and wait for it so long at most."""
        self._closing.set()
        self._nudge()
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join(within_s)

    def _run(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                with contextlib.closing(pika.BlockingConnection(self._parameters)) as connection:
                    channel = connection.channel()
                    channel.exchange_declare(EXCHANGE, exchange_type="fanout", durable=True)
                    failures = 0
                    self._talk(connection, channel)
            except Exception as error:
                # Whatever it is, also in the library: a thread that died of it would never listen again.
                failures += 1
                self._log(
                    "broker_away",
                    end=self._name,
                    error=type(error).__name__,
                    cause=cause_of(error),
                    failures=failures,
                )
                # Jittered over its whole length: a broker that restarts must not meet everybody at once.
                longest_s = min(_FIRST_PAUSE_S * 2.0 ** min(failures - 1, 6), _LONGEST_PAUSE_S)
                self._closing.wait(self._rng.uniform(0, longest_s))

    @abstractmethod
    def _talk(self, connection: Any, channel: BlockingChannel) -> None:
        """Say or hear what this end is for, until it is to stop."""

    @abstractmethod
    def _nudge(self) -> None:
        """Make the thread look whether it is to stop."""


class Notifier(_End):
    """The side of the business: `notify()` after a commit.

    It returns at once and never raises. Many within a moment become one message. Safe to be made before a fork: the
    thread begins with the first `notify` of each process.
    """

    def __init__(self, url: str, *, log: Log = quiet, rng: random.Random | None = None) -> None:
        super().__init__(url, name="wake-ups out", log=log, rng=rng or random.Random())
        self._asked = False
        self._signal = threading.Event()
        self._starting = threading.Lock()

    def notify(self) -> None:
        """Say that something was committed."""
        self._asked = True
        self._signal.set()
        if self._pid != os.getpid() and not self._closing.is_set():
            with self._starting:
                if self._pid != os.getpid():
                    self._start()

    def after_commits_of(self, session: Any) -> None:
        """Notify after every commit of this SQLAlchemy session (or class of sessions, or sessionmaker)."""
        from sqlalchemy import event

        event.listen(session, "after_commit", lambda _session: self.notify())

    def _talk(self, connection: Any, channel: BlockingChannel) -> None:
        while True:
            self._signal.wait(_TURN_S)
            self._signal.clear()
            if self._asked:
                self._asked = False
                try:
                    # It says nothing that a restart of the broker would have to keep.
                    channel.basic_publish(EXCHANGE, routing_key="", body=BODY)
                except _TROUBLE:
                    self._asked = True  # said again over the next connection
                    raise
            if self._closing.is_set() and not self._asked:
                return
            connection.process_data_events(0)  # heartbeats, and news of a closed line

    def _nudge(self) -> None:
        self._signal.set()


class Listener(_End):
    """The side of a worker: calls `wake` (from a thread of its own) for every wake-up, and after every reconnection."""

    def __init__(
        self, url: str, wake: Callable[[], None], *, log: Log = quiet, rng: random.Random | None = None
    ) -> None:
        super().__init__(url, name="wake-ups in", log=log, rng=rng or random.Random())
        self._wake = wake
        self._connection: Any = None
        self.listening = threading.Event()
        """Set while the queue is bound: from here on nothing is missed."""

    def start(self) -> None:
        """Begin to listen. Whether the broker is there is not waited for."""
        self._start()

    def _talk(self, connection: Any, channel: BlockingChannel) -> None:
        # One message is as good as a thousand: what a busy worker has not heard yet does not pile up.
        queue = channel.queue_declare(
            "", exclusive=True, auto_delete=True, arguments={"x-max-length": 1, "x-overflow": "drop-head"}
        ).method.queue
        channel.queue_bind(queue, EXCHANGE)
        # Confirmed on delivery: one that is lost with us costs a poll.
        channel.basic_consume(queue, lambda *_: self._wake(), auto_ack=True)
        self._connection = connection
        self.listening.set()
        self._log("broker_listening")
        self._wake()  # for what was said while nobody listened
        try:
            while not self._closing.is_set():
                connection.process_data_events(_TURN_S)
        finally:
            self.listening.clear()

    def _nudge(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(*_TROUBLE):  # it is closed already
                self._connection.add_callback_threadsafe(lambda: None)
