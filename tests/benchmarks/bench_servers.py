"""How fast the provider accepts, beside what it is built on, in one run.

    python -m tests.benchmarks.bench_servers [--seconds 3] [--rounds 3] [--mails 100000] [--only calls|smtp|http|peers|faults|ledger|memory|soak]

Loopback; server and load on a CPU each, where there are two: read the ratios, not the rates. Each row is the median of
interleaved rounds; beside the ratio of rates stands that of CPU time a mail in the fastest round, which is steadier on a
busy machine: what others do can only make it longer. SMTP:
10 sessions, 4 KB mails, with `smtp-source` where it is installed. HTTP: 20 connections, 1 KB JSON with an idempotency
key, with `wrk` where it is installed. Ledger: a SQLite file, durable = process, unless said otherwise.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.servers import load, peers
from tests.benchmarks.servers.contenders import Contender, aiosmtpd, served, simulator, smtp_sink, starlette
from tests.benchmarks.servers.counted import measure_calls
from tests.benchmarks.servers.grown import measure_ledger, measure_memory
from tests.benchmarks.servers.load import Measured
from tests.benchmarks.servers.soaked import measure_soak

#: 100 rules that stand where every mail passes, and none of which it meets.
HUNDRED = (
    [{"fault": "reply", "code": 451, "recipient": f"customer-{n}@example.net"} for n in range(60)]
    + [{"fault": "slow", "delay_s": 1, "sender": f"*@shop-{n}.example.net"} for n in range(20)]
    + [{"fault": "hang_up", "key": f"order-{n}-*", "dialect": "native"} for n in range(10)]
    + [{"fault": "reply", "code": 550, "recipient": f"*@sink-{n}.example.net"} for n in range(10)]
)
FAULTY = [{"fault": "hang", "stage": "mail", "sender": "faulty@example.org"}]


@dataclass
class Row:
    """One line of a table: a server under a load, over several rounds."""

    contender: Callable[[], Contender]
    wire: str
    load: load.Load
    label: str = ""
    target: str = ""
    runs: list[Measured] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        contender = self.contender()
        self.label = self.label or contender.name
        if contender.missing is not None:
            return
        with served(contender, self.wire) as (started, port):
            self.load(port, min(1.0, seconds))
            before = started.cpu_s()
            measured = self.load(port, seconds)
            self.runs.append(measured)
            self.cpu_us.append((started.cpu_s() - before) / (measured.mails + measured.more) * 1e6)

    def median(self, of: Callable[[Measured], float | None]) -> float:
        return statistics.median(value for run in self.runs if (value := of(run)) is not None)


def play(title: str, rows: Sequence[Row], seconds: float, rounds: int) -> None:
    """Run the rows, round by round, and print them beside the first one."""
    for _ in range(rounds):
        for row in rows:
            row.run(seconds)
    table = Table(title, "mails/s", "× first", "CPU µs/mail", "× first (CPU)", "p50 ms", "p99 ms", "target")
    base = next((row for row in rows if row.runs), None)
    for row in rows:
        if not row.runs or base is None:
            table.add_row(row.label, "not installed", *[""] * 6)
            continue
        rate, cpu = row.median(lambda run: run.rate), min(row.cpu_us)
        base_cpu = min(base.cpu_us)
        times = [row.median(of) for of in (lambda run: run.p50_ms, lambda run: run.p99_ms)] if row.runs[0].p50_ms else []  # fmt: skip
        table.add_row(
            row.label,
            f"{rate:,.0f}",
            f"{rate / base.median(lambda run: run.rate):.2f}",
            f"{cpu:,.0f}",
            f"{base_cpu / cpu:.2f}" if cpu else "",
            *(f"{each:.2f}" for each in times or ()),
            *([] if times else ["", ""]),
            row.target,
        )
    Console(width=150).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mails", type=int, default=100_000, help="how large the ledger grows")
    parser.add_argument(
        "--only", choices=["calls", "smtp", "http", "peers", "faults", "ledger", "memory", "soak"]
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        numbers = itertools.count()

        def ledger() -> str:
            return str(Path(folder) / f"{next(numbers)}.db")

        def ours(name: str, plan: dict[str, Any] | None = None) -> Contender:
            return simulator(name, ledger(), plan)

        def stock() -> Contender:
            return aiosmtpd(ledger())

        if given.only in (None, "calls"):
            measure_calls(Path(folder))
        if given.only in (None, "smtp"):
            for how, one, target in (("one", load.smtp_one, "≥ 0.40"), ("many", load.smtp_many, "≥ 0.33")):
                rows = [
                    Row(smtp_sink, "smtp", one),
                    Row(partial(ours, "simulator"), "smtp", one, target=f"{target}; ≥ 4 × the last"),
                    Row(partial(aiosmtpd, None), "smtp", one),
                    Row(stock, "smtp", one),
                ]
                play(f"SMTP, {how} mail a connection", rows, given.seconds, given.rounds)
        if given.only in (None, "http"):
            rows = [
                Row(starlette, "http", load.http),
                Row(partial(ours, "simulator"), "http", load.http, target="≥ 1.2, p99 ≤ 3 × p50"),
                Row(
                    partial(ours, "simulator, empty plan", {"rules": []}),
                    "http",
                    load.http,
                    target="≥ 0.97 × no plan",
                ),
                Row(
                    partial(ours, "simulator, 100 rules", {"rules": HUNDRED}),
                    "http",
                    load.http,
                    target="≥ 0.8 × no plan",
                ),
            ]
            play("HTTP", rows, given.seconds, given.rounds)
        if given.only in (None, "peers"):
            for how, one in (("one", load.smtp_one), ("many", load.smtp_many)):
                rows = [
                    Row(partial(ours, "simulator"), "smtp", one),
                    Row(peers.fakesmtpd, "smtp", one, target="≤ 1/2" if how == "one" else ""),
                    Row(peers.maildev, "smtp", one, target="≤ 1/8" if how == "one" else ""),
                ]
                play(f"Peers over SMTP, {how} mail a connection", rows, given.seconds, given.rounds)
            rows = [
                Row(partial(ours, "simulator"), "http", load.http),
                Row(peers.mountebank, "http", load.http, target="≤ 1/2.4"),
                Row(peers.ses_local, "http", peers.ses, target="≤ 1/5"),
                Row(peers.moto, "http", peers.ses_verified, target="≤ 1/35"),
            ]
            play("Peers over HTTP", rows, given.seconds, given.rounds)
        if given.only in (None, "faults"):
            healthy = partial(load.beside_faults, faulty=0)
            beside = partial(load.beside_faults, faulty=2)
            rows = [
                Row(partial(ours, "all sessions healthy", {"rules": FAULTY}), "smtp", healthy),
                Row(
                    partial(ours, "faults on 10 % of sessions", {"rules": FAULTY}),
                    "smtp",
                    beside,
                    target="≥ 0.95",
                ),
            ]
            play("SMTP, healthy sessions", rows, given.seconds, given.rounds)
        if given.only in (None, "memory"):
            measure_memory(Path(folder), given.mails)
        if given.only == "soak":
            measure_soak(Path(folder), given.mails)
        if given.only in (None, "ledger"):
            measure_ledger(Path(folder), given.mails, given.seconds)


if __name__ == "__main__":
    main()
