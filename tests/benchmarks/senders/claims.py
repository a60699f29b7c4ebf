"""What a claim costs beside a long history, and what a long queue costs in memory."""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from rich.table import Table
from sqlalchemy import text

from reference_sender.clock import SystemClock
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
from tests.benchmarks.senders import filling
from tests.reference_sender.outbox.databases import KINDS, database

_CLAIMS = 60
_ROWS = 20


def cost(history: int) -> Table:
    """Milliseconds for the fastest claim of twenty rows, with and without so many finished ones in the table."""
    table = Table("database", "claim, ms", f"with {history:,} finished", "ratio", "target")
    for kind in KINDS:
        without, beside = _claims(kind, 0), _claims(kind, history)
        table.add_row(kind, f"{without:.2f}", f"{beside:.2f}", f"{beside / without:.2f}", "≤ 1.2")
    return table


def _claims(kind: str, history: int) -> float:
    with tempfile.TemporaryDirectory() as folder, database(kind, Path(folder)) as url:
        store = Store(open_engine(url))
        store.create()
        if history:
            filling.finished(url, history)
        filling.outbox(url, (_CLAIMS + 10) * _ROWS)
        if kind == "postgresql":
            with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM ANALYZE outgoing_email"))
        clock, times = SystemClock(), []
        # SQLite works in this thread, so its CPU time is all that a claim costs; a server works elsewhere.
        seconds = time.thread_time if kind == "sqlite" else time.perf_counter
        for number in range(_CLAIMS + 10):
            began = seconds()
            taken = store.claim(now=clock.now(), limit=_ROWS, lease_s=60, dedupes=True)
            if number >= 10:
                times.append(seconds() - began)
            assert len(taken) == _ROWS
        store.engine.dispose()
    # The fastest: what a claim reads is in each of them, what else the machine does is not.
    return min(times) * 1e3


def memory(waiting: int) -> Table:
    """How much this process grows by claiming out of a queue of so many."""
    table = Table("database", "waiting rows", "memory before, MiB", "after 50 claims, MiB")
    for kind in ("sqlite", "postgresql"):
        with tempfile.TemporaryDirectory() as folder, database(kind, Path(folder)) as url:
            filling.outbox(url, waiting)
            store = Store(open_engine(url))
            store.claim(now=SystemClock().now(), limit=75, lease_s=60, dedupes=True)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            for _ in range(50):
                store.claim(now=SystemClock().now(), limit=75, lease_s=60, dedupes=True)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            store.engine.dispose()
        table.add_row(kind, f"{waiting:,}", f"{before:.0f}", f"{after:.0f}")
    return table
