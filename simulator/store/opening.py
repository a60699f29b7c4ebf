"""Which store a name means: `memory`, the path of a SQLite file, or the URL of a PostgreSQL database."""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from simulator.provider.retention import FOR_EVER, Retention
from simulator.store import Durability, Store, StoreError
from simulator.store.memory import MemoryStore
from simulator.store.sqlite import SqliteStore

_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_log = logging.getLogger("simulator.store")


def open_store(
    ledger: str,
    *,
    now: Callable[[], datetime],
    durability: Durability = Durability.PROCESS,
    retention: Retention = FOR_EVER,
) -> Store:
    """Open the ledger of this name. Raises `StoreError`."""
    if ledger == "memory":
        if durability is Durability.POWER:
            raise StoreError("a ledger in memory survives no power cut; name a file, like simulator.db")
        return MemoryStore(now=now, retention=retention)
    scheme, separator, _ = ledger.partition("://")
    if not separator:
        store = SqliteStore(Path(ledger), now=now, durability=durability, retention=retention)
        # Only now: what is open is locked and known to be ours.
        _close_to_others(store.path)
        return store
    if scheme not in ("postgresql", "postgres"):
        raise StoreError(
            f"--ledger begins with {scheme}://; it must be memory, the path of a SQLite file, or"
            " postgresql://USER@HOST/DATABASE"
        )
    # Imported here: who keeps no ledger in PostgreSQL need not have its driver.
    from simulator.store.postgres import PostgresStore

    return PostgresStore(ledger, now=now, durability=durability, retention=retention)


def _close_to_others(path: Path) -> None:
    """Make the files of a ledger their owner's only: former versions made them readable for everybody."""
    if os.name != "posix":  # pragma: no cover - there a mode says nothing of others
        return
    closed: list[str] = []
    # What SQLite puts beside its file later follows the mode of that file; by its path, because to open and close it
    # would drop SQLite's own locks.
    for file in (path, *_beside(path)):
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & _OTHERS:
                file.chmod(mode & ~_OTHERS)
                closed.append(file.name)
        except FileNotFoundError:
            pass  # A log that has been moved meanwhile.
        except OSError as problem:
            _log.warning("the ledger %s stays open to others: %s", path, problem.strerror)
            return
    if closed:
        _log.warning(
            "the ledger %s was open to others; now only its owner may read it (%s)", path, ", ".join(closed)
        )


def _beside(path: Path) -> list[Path]:
    """Return what belongs to a ledger besides its file: SQLite's own files and the log. No links: they lead elsewhere."""
    ours = re.compile(re.escape(path.name) + r"(?:-wal|-shm|-log\.[0-9]+)")
    return sorted(
        each for each in path.parent.iterdir() if ours.fullmatch(each.name) and not each.is_symlink()
    )


_SURVIVES = {
    Durability.NOTHING: "forgotten at the end; durable: no",
    Durability.PROCESS: "durable: every yes survives kill -9",
    Durability.POWER: "durable: every yes survives a power cut",
}


def about(store: Store, retention: Retention) -> str:
    """Say of a ledger what people want to know of it: where it is, what a yes survives, how much is kept."""
    parts = [_SURVIVES[store.durability]]
    if store.durability is not Durability.NOTHING:
        mails = store.mails()
        parts.insert(0, f"{mails} mail{'' if mails == 1 else 's'} from before")
    bounds = [
        *([f"{_days(retention.age_s)}"] if retention.age_s is not None else []),
        *([f"{retention.count} mails"] if retention.count is not None else []),
        *([f"{retention.bytes} bytes"] if retention.bytes is not None else []),
    ]
    if bounds:
        parts.append(f"kept: {', '.join(bounds)}")
    return f"{store.name} ({'; '.join(parts)})"


def _days(seconds: float) -> str:
    return f"{seconds / 86_400:g} days" if seconds >= 86_400 else f"{seconds:g} s"
