"""A ledger that has grown: does taking mail in, looking it up, listing it and memory stay as they were?"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from simulator.client import ControlClient
from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import Attempt, AttemptState, Booked, Sent, Tried
from simulator.provider.provider import Record
from simulator.store.sqlite import SqliteStore
from tests.benchmarks.servers import load
from tests.benchmarks.servers.contenders import served, simulator

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _records(number: int) -> list[Record]:
    body = b"Subject: mail %d\r\n\r\n" % number + b"z" * 1_000
    at = _BEGIN + timedelta(milliseconds=20 * number)
    common: dict[str, Any] = {"account": "default", "dialect": "smtp", "sender": "shop@example.org"}
    recipients, id_ = (f"customer-{number}@example.com",), f"msg_{sha256(b'%d' % number).hexdigest()[:20]}"
    attempt = Attempt(
        id=f"att_{number}",
        number=number,
        connection=f"c{number // 50}",
        peer="127.0.0.1:5000",
        opened_at=at,
        closed_at=at,
        state=AttemptState.CLOSED,
        stage="reply",
        recipients=recipients,
        accepted=recipients,
        answer="250 2.0.0 OK",
        sent=Sent.COMPLETE,
        **common,
    )
    acceptance = Acceptance(
        id=id_,
        number=number,
        attempt=attempt.id,
        accepted_at=at,
        recipients=recipients,
        message_id=f"<{number}@example.org>",
        key=f"order-{number}",
        fingerprint="f" * 64,
        subject=f"mail {number}",
        size_bytes=len(body),
        sha256=sha256(body).hexdigest(),
        headers=(("Subject", f"mail {number}"), ("X-Order", str(number))),
        **common,
    )
    return [Tried(attempt=attempt), Booked(acceptance=acceptance, raw=body)]


def fill(path: Path, mails: int) -> None:
    """Write a ledger of so many mails."""
    store = SqliteStore(path)
    for begin in range(1, mails + 1, 500):
        store.append(
            [each for number in range(begin, min(begin + 500, mails + 1)) for each in _records(number)]
        )
        if begin % 50_000 == 1:
            sys.stderr.write(f"\rfilling: {begin:,} of {mails:,} ")
    store.close()
    sys.stderr.write("\r")


def _ms(act: Callable[[int], object], times: int = 30) -> float:
    took = []
    for number in range(times):
        began = time.perf_counter()
        act(number)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


def measure_ledger(folder: Path, mails: int, seconds: float) -> None:
    """Fill a ledger and print what that changes."""
    full, empty = folder / "full.db", folder / "empty.db"
    fill(full, mails)
    rates: dict[str, list[float]] = {"full": [], "empty": []}
    for _ in range(3):
        for name, path in (("empty", empty), ("full", full)):
            with served(simulator(name, str(path)), "http") as (_, port):
                load.http(port, 1.0)
                rates[name].append(load.http(port, seconds).rate)
    table = Table(f"ledger of {mails:,} mails", "measured", "target")
    ratio = statistics.median(rates["full"]) / statistics.median(rates["empty"])
    table.add_row("accept, × an empty one", f"{ratio:.2f}", "≥ 0.9")
    store = SqliteStore(full)
    step = max(1, mails // 31)
    table.add_row("look-up by key", f"{_ms(lambda n: store.with_key('default', f'order-{n * step + 1}')):.2f} ms", "≤ 2 ms")  # fmt: skip
    store.close()
    with served(simulator("full", str(full)), "http") as (started, port):
        with ControlClient(f"http://127.0.0.1:{port}/_simulator/v1") as control:
            for label, query in _QUERIES.items():
                took = _ms(lambda n, query=query: control._json("GET", "messages", query=query), 10)  # type: ignore[misc]
                table.add_row(
                    f"page of 100 messages{label}", f"{took:.1f} ms", "≤ 50 ms" if not label else ""
                )
        before = started.rss_mib()
        load.http(port, 5 * seconds)
        table.add_row(
            "memory, before and after more mail", f"{before:.0f} → {started.rss_mib():.0f} MiB", "flat"
        )
    table.add_row("file", f"{full.stat().st_size / mails:,.0f} bytes a mail", "")
    Console(width=110).print(table)


def measure_memory(folder: Path, mails: int) -> None:
    """Hand over so many mails and print what the server holds meanwhile; what it keeps of the newest is full early on."""
    table = Table("memory while mail comes in (HTTP)", "mails", "resident, MiB")
    with served(simulator("memory", str(folder / "memory.db")), "http") as (started, port):
        table.add_row("0", f"{started.rss_mib():.0f}")
        taken = load.http(port, 1.0).mails
        while taken < 10_000:
            taken += load.http(port, 1.0).mails
        for quarter in range(5):
            while taken < quarter * mails / 4:
                taken += load.http(port, 2.0).mails
            table.add_row(f"{taken:,}", f"{started.rss_mib():.0f}")
    Console(width=110).print(table)


_QUERIES: dict[str, dict[str, object]] = {
    "": {},
    ", newest first": {"newest_first": True},
    ", by recipient": {"to": "customer-7@example.com"},
    ", since a time": {"since": "2026-01-01T00:10:00Z"},
    ", a part of the subject": {"subject": "mail 77", "newest_first": True},
    ", a part that none has": {"q": "nobody has this"},
}
