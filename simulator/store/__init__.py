"""Where the ledger is kept: in memory, in a SQLite file or in PostgreSQL; what was answered survives `kill -9`.

A store keeps records in order and knows nothing of rules or wires. `committer` is the only way records get
into one: it lets everybody who waits share one write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import Attempt, Decision
from simulator.provider.provider import Record
from simulator.provider.search import PAGE, AttemptSearch, Page, Search


class StoreError(Exception):
    """A store cannot be opened, read or written. The message is one sentence that says what would be right."""


class Durability(StrEnum):
    """What a yes survives."""

    NOTHING = "nothing"
    """The end of the process is the end of the ledger."""
    PROCESS = "process"
    """`kill -9` of the simulator: whatever was answered had been written before."""
    POWER = "power"
    """A power cut too: whatever was answered was on the disk before."""


class Store(Protocol):
    """What keeps the records of a provider. Methods block; they may be called from any thread."""

    name: str
    """What it is called in sentences; without a password."""
    durability: Durability
    is_quick: bool
    """`append` never waits for a disk or another program: an event loop may call it."""

    def load(self) -> Iterable[Record]:
        """Yield what a restart needs, in an order `Provider.restore` understands.

        That is all that is not history (clocks, plans, promises), and of the history the newest of each account.
        """
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Keep all of these, or none and raise `StoreError`; durable on return.

        Appending records again after a failure is harmless: whoever cannot know whether they were kept asks twice.
        """
        ...

    # --- look-ups by name, quick enough for an event loop; what was appended just now may be missing -------

    def get(self, account: str, id_: str) -> Acceptance | None:
        """Return the acceptance with this id."""
        ...

    def with_key(self, account: str, key: str) -> list[Acceptance]:
        """Return the acceptances with this idempotency key, oldest first."""
        ...

    def with_message_id(self, account: str, message_id: str) -> list[Acceptance]:
        """Return the acceptances with this Message-ID (angle brackets or not), oldest first."""
        ...

    # --- readings, which may take their time; everything that was appended before is in them --------------

    def messages(
        self,
        account: str,
        search: Search = Search(),
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
    ) -> Page[Acceptance]:
        """Return a page of acceptances, in the order of their numbers."""
        ...

    def attempts(
        self,
        account: str,
        search: AttemptSearch = AttemptSearch(),
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
    ) -> Page[Attempt]:
        """Return a page of attempts as they were when they were last recorded, in the order of their numbers."""
        ...

    def decisions(self, account: str, *, after: int | None = None, limit: int = PAGE) -> Page[Decision]:
        """Return a page of the decision log, oldest first."""
        ...

    def acceptances(self, account: str) -> Iterator[Acceptance]:
        """Yield every acceptance, oldest first, without holding all of them in memory."""
        ...

    def keys(self, account: str, after: str = "", limit: int = PAGE) -> list[str]:
        """Return idempotency keys behind `after`, in their order; those that were appended just now may be missing."""
        ...

    def copies(self, account: str, sha256s: Iterable[str]) -> dict[str, int]:
        """Return how many acceptances have each of these bodies (hex SHA-256)."""
        ...

    def mails(self) -> int:
        """Return how many acceptances there are in all accounts."""
        ...

    def body(self, account: str, id_: str) -> bytes | None:
        """Return the bytes that were handed in with an acceptance, or None."""
        ...

    def close(self) -> None:
        """Let go of files and locks. May be called twice."""
        ...
