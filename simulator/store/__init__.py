"""Where the ledger is kept: in memory, or in a SQLite file that survives `kill -9` of the simulator.

A store keeps records in order and knows nothing of rules or wires. `committer` is the only way records get
into one: it lets everybody who waits share one write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from simulator.provider.provider import Record


class StoreError(Exception):
    """A store cannot be opened, read or written. The message is one sentence that says what would be right."""


class Store(Protocol):
    """What keeps the records of a provider. Methods block; they may be called from any thread."""

    def load(self) -> Iterable[Record]:
        """Yield what is kept, in an order `Provider.restore` understands; bodies may be left out (empty)."""
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Keep all of these, or none and raise `StoreError`; durable on return.

        Appending records again after a failure is harmless: whoever cannot know whether they were kept asks twice.
        """
        ...

    def raw(self, acceptance_id: str) -> bytes | None:
        """Return the bytes of an accepted mail, or None."""
        ...

    def close(self) -> None:
        """Let go of files and locks. May be called twice."""
        ...
