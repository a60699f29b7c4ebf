"""A store that forgets everything with its process: for tests, and for runs that need no ledger afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from simulator.provider.ledger import Booked, Wiped
from simulator.provider.provider import Record


class MemoryStore:
    """Keeps the bytes of mails only: everything else is in the provider already."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._raw: dict[str, tuple[str, bytes]] = {}

    def load(self) -> Iterable[Record]:
        """Yield nothing: nobody was here before."""
        return ()

    def append(self, records: Sequence[Record]) -> None:
        """Keep the bodies of these records."""
        with self._lock:
            for record in records:
                match record:
                    case Booked(acceptance=acceptance, raw=raw):
                        self._raw[acceptance.id] = (acceptance.account, raw)
                    case Wiped(account=account):
                        self._raw = {id_: kept for id_, kept in self._raw.items() if kept[0] != account}
                    case _:
                        pass  # The provider's own memory is as good as ours.

    def raw(self, acceptance_id: str) -> bytes | None:
        """Return the bytes of an accepted mail, or None."""
        with self._lock:
            kept = self._raw.get(acceptance_id)
        return None if kept is None else kept[1]

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._raw.clear()
