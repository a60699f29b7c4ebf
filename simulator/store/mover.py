"""The thread that moves entries from the log into the tables, many at a time, behind the backs of those who wait.

Whoever appends never waits for it, unless it is far behind; whoever reads may wait until it has caught up.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from simulator.store import StoreError
from simulator.store.entries import Entry

#: How long entries gather before they are moved, in seconds: one large transaction is cheaper than many small ones.
GATHER_S = 0.2
#: So many entries, or so many bytes, are moved without waiting for more.
MANY = 2_048
#: So many entries, or bytes of them, may wait; then whoever appends waits too. Fewer than mails in the window.
MOST = 8_000
MOST_BYTES = 64 * 1024 * 1024
#: How long it rests between two pieces of a move, in seconds, while nobody waits for it: where both share a processor, the
#: loop has its turn then, and not when the kernel thinks that the mover has had enough.
BREATH_S = 0.0005
#: How long after a failure the next attempt is made, in seconds.
RETRY_S = 1.0

_log = logging.getLogger("simulator.store")


class Batch(NamedTuple):
    """What was appended at once, and where in the log it ends."""

    entries: Sequence[Entry]
    size_bytes: int
    file: int
    end: int


class Mover:
    """Calls `move` in a thread of its own with everything that was added, in order, until it succeeds."""

    def __init__(self, move: Callable[[Sequence[Batch]], bool], name: str) -> None:
        """`move` returns whether it wants to be called again soon; it raises `StoreError` when it fails."""
        self._move = move
        self._condition = threading.Condition()
        self._waiting: list[Batch] = []
        self._entries = 0
        self._bytes = 0
        self._added = 0
        self._moved = 0
        self._urgent = False
        self._closing = False
        self._asleep = True
        self.trouble: StoreError | None = None
        """What the last move failed of."""
        # A daemon: a ledger that nobody closed must not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._run, name=f"ledger of {name}", daemon=True)
        self._thread.start()

    def add(self, batch: Batch) -> None:
        """Hand over what is in the log now. Raises `StoreError` if there is no room because moving fails."""
        with self._condition:
            self._waiting.append(batch)
            self._added += 1
            self._entries += len(batch.entries)
            self._bytes += batch.size_bytes
            if self._asleep or self._entries >= MANY:
                self._asleep = False
                self._condition.notify_all()

    def make_room(self) -> None:
        """Wait while too much waits to be moved. Raises `StoreError` if that cannot end."""
        if self._entries < MOST and self._bytes < MOST_BYTES:
            return
        with self._condition:
            self._urgent = True
            self._condition.notify_all()
            self._condition.wait_for(
                lambda: (self._entries < MOST and self._bytes < MOST_BYTES) or self.trouble is not None
            )
            if self.trouble is not None and not (self._entries < MOST and self._bytes < MOST_BYTES):
                raise StoreError(str(self.trouble))

    def flush(self) -> None:
        """Return when everything added so far has been moved. Raises `StoreError` if it cannot be."""
        with self._condition:
            goal = self._added
            if self._moved >= goal:
                return
            self._urgent = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._moved >= goal or self.trouble is not None)
            if self._moved < goal:
                raise StoreError(str(self.trouble))

    def nudge(self) -> None:
        """See to it that `move` is called, even if there is nothing to be moved (time has passed)."""
        with self._condition:
            self._urgent = True
            self._condition.notify_all()

    def breathe(self) -> None:
        """Rest a moment. For `move`, between its pieces."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._urgent or self._closing or self._entries >= MOST // 2, BREATH_S
            )

    def close(self) -> None:
        """Move what is left, once, and end the thread."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        self._thread.join()

    def _run(self) -> None:
        again = False
        while True:
            with self._condition:
                if not again:
                    self._gather()
                batches, self._waiting = self._waiting, []
                self._urgent = False
                closing = self._closing
            if batches or again or not closing:
                again = self._attempt(batches)
            if closing and (self.trouble is not None or not self._waiting):
                return

    def _gather(self) -> None:
        """Wait until there is something, and then a little for more."""
        if not self._waiting and not self._urgent and not self._closing:
            self._asleep = True
            self._condition.wait_for(lambda: self._waiting or self._urgent or self._closing)
        self._condition.wait_for(
            lambda: self._urgent or self._closing or self._entries >= MANY,
            RETRY_S if self.trouble is not None else GATHER_S,
        )

    def _attempt(self, batches: list[Batch]) -> bool:
        again, trouble = False, None
        try:
            again = self._move(batches)
        except StoreError as problem:
            trouble = problem
        except Exception as problem:  # Whoever waits must not wait for ever because of a bug of ours.
            _log.exception("the ledger's log could not be moved")
            trouble = StoreError(f"the ledger cannot be written: {problem}")
        with self._condition:
            self._tell(trouble)
            if trouble is not None:
                self._waiting = batches + self._waiting
            else:
                self._moved += len(batches)
                self._entries -= sum(len(each.entries) for each in batches)
                self._bytes -= sum(each.size_bytes for each in batches)
            self._condition.notify_all()
        return again

    def _tell(self, trouble: StoreError | None) -> None:
        if trouble is not None and self.trouble is None:
            _log.error("%s; what is accepted stays in its log", trouble)
        elif trouble is None and self.trouble is not None:
            _log.warning("the ledger can be written again; nothing that was accepted is missing")
        self.trouble = trouble
