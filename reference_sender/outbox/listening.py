"""Wake-ups from PostgreSQL itself: `enqueue` says NOTIFY in its transaction, workers LISTEN and look at once.

A notification is a hint. One that is lost – the line was down, a pooler in between swallowed it – costs a poll, and no
worker waits for one. It is delivered by the commit, so whoever looks finds the row.
Must not hold: what a worker does when it is woken.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from reference_sender.log import Log, cause_of, quiet
from reference_sender.outbox.engine import CHANNEL

_TURN_S = 0.5
"""The longest that it waits before it looks whether it is to stop."""
_PAUSE_S = 2.0


class Listener:
    """A thread with a connection of its own, which it mends by itself. `wake` is called from that thread."""

    def __init__(self, engine: Engine, wake: Callable[[], None], *, log: Log = quiet) -> None:
        self._engine = engine
        self._wake = wake
        self._log = log
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="database wake-ups", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait for it."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(2 * _TURN_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except Exception as error:
                # Polling goes on without us.
                self._log("listen_failed", error=type(error).__name__, cause=cause_of(error))
                self._closing.wait(_PAUSE_S)

    def _listen(self) -> None:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # Before the next line: whoever has left the pool is not told any more what the driver calls it.
            driver: Any = connection.connection.driver_connection
            connection.detach()  # it must not go back into the pool as one that listens
            connection.exec_driver_sql(f"LISTEN {CHANNEL}")
            schema = connection.exec_driver_sql("SELECT current_schema()").scalar()
            self._wake()  # for what was said while nobody listened
            try:
                while not self._closing.is_set():
                    for told in driver.notifies(timeout=_TURN_S, stop_after=1):
                        if told.payload in ("", schema):
                            self._wake()
            finally:
                with contextlib.suppress(DBAPIError):
                    connection.exec_driver_sql("UNLISTEN *")
