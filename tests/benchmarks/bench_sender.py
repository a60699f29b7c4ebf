"""How fast the reference sender is, beside the raw loop and a queue, in one run; and what a kill -9 leaves behind.

    pip install 'mailproof[bench]'
    python -m tests.benchmarks.bench_sender [--mails 3000] [--rounds 3] [--concurrency 50] [--only rate,kill,claim,dead,memory]

Every contender is one process that hands over so many mails of 1 KB to the same Starlette route with a dictionary of keys;
rounds are interleaved. *raw loop*: bytes on 50 connections and no database; *client*: the sender's HTTP client and no
database. Rates are counted at the provider, from its first mail to its last. Loopback, everything shares the cores: read
the ratios; beside the ratio of rates stands that of CPU time a mail, which is steadier on a busy machine.
PostgreSQL at MAILPROOF_POSTGRES_URL or localhost.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console
from rich.table import Table

from tests.benchmarks.senders import claims, filling
from tests.reference_sender.outbox.databases import database

_RUNS = "tests.benchmarks.senders.runs"


@dataclass
class Contender:
    """One row of the table."""

    label: str
    run: str  # a name of `senders.runs`
    database: str = ""  # a kind of `databases`, or "" for none
    fill: Callable[[str, int], None] | None = None
    target: str = ""
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    repeats: int = 0
    missing: str = ""


@contextmanager
def sink() -> Iterator[str]:
    """A provider in a process of its own; its URL."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "port.json"
        process = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.senders.sink", str(file)])
        try:
            while not file.exists():
                time.sleep(0.05)
            yield f"http://127.0.0.1:{json.loads(file.read_text())['port']}"
        finally:
            process.terminate()
            process.wait(10)


@contextmanager
def filled(contender: Contender, count: int) -> Iterator[str]:
    """The URL of a database with so many mails in it."""
    if not contender.database:
        yield ""
        return
    with tempfile.TemporaryDirectory() as folder, database(contender.database, Path(folder)) as url:
        assert contender.fill is not None
        contender.fill(url, count)
        yield url


def play(contender: Contender, url: str, count: int, concurrency: int) -> None:
    """One round of one contender."""
    if contender.missing:
        return
    with ExitStack() as stack:
        try:
            place = stack.enter_context(filled(contender, count))
        except pytest.skip.Exception as no_server:
            contender.missing = str(no_server)
            return
        httpx.post(f"{url}/reset")
        done = subprocess.run(
            [sys.executable, "-m", _RUNS, contender.run, url, str(count), str(concurrency), place],
            stdout=subprocess.PIPE,
            check=True,
        )
        stats = httpx.get(f"{url}/stats").json()
    assert stats["keys"] == count, f"{contender.label} handed over {stats['keys']} of {count}"
    contender.repeats += stats["requests"] - count
    contender.rates.append((count - 1) / (stats["last"] - stats["first"]))
    contender.cpu_us.append(json.loads(done.stdout)["cpu_s"] / count * 1e6)


def missing_of(*packages: str) -> str:
    """One sentence about those of these packages that are not there; empty if all are."""
    gone = [package for package in packages if find_spec(package) is None]
    if not gone:
        return ""
    return f"{' and '.join(gone)} {'is' if len(gone) == 1 else 'are'} not installed: pip install 'mailproof[bench]'"


def contenders() -> list[Contender]:
    """Whom we compare."""
    queue = Contender(
        label="pgqueuer",
        run="pgqueuer",
        database="postgresql",
        fill=filling.pgqueuer,
        missing=missing_of("pgqueuer", "asyncpg"),
    )
    return [
        Contender(label="raw loop, no database", run="raw"),
        Contender(label="client, no database", run="client"),
        Contender(
            label="reference sender, SQLite",
            run="outbox",
            database="sqlite",
            fill=filling.outbox,
            target="≥ 0.5 × raw",
        ),
        Contender(
            label="reference sender, PostgreSQL",
            run="outbox",
            database="postgresql",
            fill=filling.outbox,
            target="≥ 0.45 × raw, ≥ 2 × pgqueuer",
        ),
        Contender(label="reference sender, MariaDB", run="outbox", database="mysql", fill=filling.outbox),
        queue,
    ]


def rates(console: Console, mails: int, rounds: int, concurrency: int) -> None:
    """Table 1."""
    rows = contenders()
    with sink() as url:
        for _ in range(rounds):
            for row in rows:
                play(row, url, mails, concurrency)
    raw, queue = rows[0], rows[-1]
    table = Table(
        "sender", "mails/s", "min-max", "x raw loop", "x pgqueuer", "CPU us/mail", "repeats", "target"
    )
    for row in rows:
        if row.missing:
            table.add_row(row.label, row.missing)
            continue
        rate = statistics.median(row.rates)
        against = f"{rate / statistics.median(queue.rates):.2f}" if queue.rates else "-"
        table.add_row(
            row.label,
            f"{rate:,.0f}",
            f"{min(row.rates):,.0f}-{max(row.rates):,.0f}",
            f"{statistics.median(a / b for a, b in zip(row.rates, raw.rates, strict=True)):.2f}",
            against,
            f"{statistics.median(row.cpu_us):,.0f}",
            str(row.repeats),
            row.target,
        )
    console.print(table)


def kills(console: Console, mails: int, concurrency: int, rounds: int) -> None:
    """Table 2: kill -9 at a third of the mails, started again at once."""
    lease_s = 3.0
    table = Table(
        "database", "kills", "lost", "repeats at the provider (each kill)", "longest silence, s", "target"
    )
    with sink() as url:
        for kind in ("sqlite", "postgresql"):
            repeats, silences, lost = [], [], 0
            try:
                for _ in range(rounds):
                    with tempfile.TemporaryDirectory() as folder, database(kind, Path(folder)) as place:
                        filling.outbox(place, mails)
                        httpx.post(f"{url}/reset")
                        stats = _killed_once(url, place, mails, concurrency, lease_s)
                        lost += mails - stats["keys"]
                        repeats.append(stats["requests"] - stats["keys"])
                        silences.append(stats["gap_s"])
            except pytest.skip.Exception as no_server:
                table.add_row(kind, str(no_server))
                continue
            table.add_row(
                kind,
                str(rounds),
                str(lost),
                ", ".join(map(str, repeats)),
                f"{max(silences):.1f}",
                f"0 lost, ≤ {1.5 * concurrency:.0f} repeats, ≤ {lease_s + 0.6:.1f} s",
            )
    console.print(table)


def _killed_once(url: str, place: str, mails: int, concurrency: int, lease_s: float) -> dict[str, Any]:
    worker = [sys.executable, "-c", "from reference_sender.cli import main; main()", "work"]
    environment = os.environ | {
        "OUTBOX_DATABASE_URL": place,
        "PROVIDER_URL": url,
        "OUTBOX_CONCURRENCY": str(concurrency),
        "OUTBOX_LEASE_S": str(lease_s),
        "OUTBOX_TOTAL_TIMEOUT_S": "2",
        "OUTBOX_POLL_S": "0.2",
    }

    def seen() -> dict[str, Any]:
        stats: dict[str, Any] = httpx.get(f"{url}/stats").json()
        return stats

    def until(count: int, deadline_s: float) -> None:
        end = time.monotonic() + deadline_s
        while seen()["keys"] < count and time.monotonic() < end:
            time.sleep(0.02)

    first = subprocess.Popen(worker, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(mails // 3, 120)
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = subprocess.Popen(worker, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(mails, 120)
    second.terminate()
    second.wait(40)
    return seen()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mails", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--finished", type=int, default=1_000_000, help="finished rows in the claim table")
    parser.add_argument("--only", default="rate,kill,claim,dead,memory")
    told = parser.parse_args()
    console, parts = Console(width=150), told.only.split(",")
    if "rate" in parts:
        rates(console, told.mails, told.rounds, told.concurrency)
    if "kill" in parts:
        kills(console, told.mails, told.concurrency, told.rounds)
    if "claim" in parts:
        console.print(claims.cost(told.finished))
    if "dead" in parts:
        console.print(claims.behind(100_000))
    if "memory" in parts:
        console.print(claims.memory(100_000))


if __name__ == "__main__":
    main()
