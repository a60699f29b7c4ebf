"""Several workers on one PostgreSQL outbox, killed at random while the provider misbehaves: does every mail arrive once?

    python -m tests.benchmarks.soak_outbox [--mails 20000] [--workers 4] [--kill-every 1.0] [--seed 1]

Real processes: `simulator serve` with a plan of random faults, `reference-sender work` several times. Every second one
worker is killed with SIGKILL and started again, until all mails are settled; the provider's ledger is the judge. Exit code 0:
every mail was accepted exactly once, every row says so, and no kill cost more repeats than it may. PostgreSQL at MAILPROOF_POSTGRES_URL or localhost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from reference_sender.life import State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.store import Store
from reference_sender.policy.suspects import LOST_TOGETHER
from simulator.client import ControlClient
from tests.benchmarks.senders import filling
from tests.reference_sender.outbox.databases import database

#: What the provider does to the senders: before it takes a mail, and behind it.
RULES: tuple[str, ...] = (
    "503 2%",
    "429 retry-after 1 1%",
    "lose answers 2%",
    "lose answers by reset 1%",
    "lose answers by truncate 1%",
    "lose answers by garble 1%",
    "slow 0.5 s 2%",
)
#: Mails that one worker has under way.
CONCURRENCY = 16
#: So many repeats a kill may cost, for each mail that its worker can have had under way.
REPEATS_PER_KILL = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """Attempts at mails whose attempt before met no fault: nobody was left to read its answer, or it came too late."""

    count: int
    longest_s: float
    """From such an attempt to the one that repeated it, at worst: how long a lost worker's mails wait."""
    longest_of_suspects_s: float = 0.0
    """The same of mails that were lost again and again: they wait for empty hands, which a storm of kills seldom leaves."""


def repeats_of(attempts: Iterable[Mapping[str, Any]], suspects: Container[str] = ()) -> Repeats:
    """What the provider's faults do not explain, of attempts as the control API lists them, oldest first.

    `suspects`: keys of mails that went alone at some time.
    """
    waits: dict[bool, list[float]] = {False: [], True: []}
    last: dict[str, Mapping[str, Any]] = {}
    for each in attempts:
        before = last.get(each["key"])
        last[each["key"]] = each
        # Who is slow answers all the same.
        if before is not None and all(rule.startswith("slow ") for rule in before["rules"]):
            wait = datetime.fromisoformat(each["opened_at"]) - datetime.fromisoformat(before["opened_at"])
            waits[each["key"] in suspects].append(wait.total_seconds())
    return Repeats(
        count=sum(map(len, waits.values())),
        longest_s=max(waits[False], default=0.0),
        longest_of_suspects_s=max(waits[True], default=0.0),
    )


def suspects_among(store: Store) -> set[str]:
    """Return the provider's keys of those mails that were lost with a worker so often that they went alone."""
    lost = (
        select(email_attempt.c.email_id)
        .where(email_attempt.c.decision == State.SENDING.value)
        .group_by(email_attempt.c.email_id)
        .having(func.count() >= LOST_TOGETHER)
    )
    with store.engine.connect() as connection:
        found = connection.execute(
            select(outgoing_email.c.idempotency_key).where(outgoing_email.c.id.in_(lost))
        )
        return set(found.scalars())


def longest_silence_s(attempts: Iterable[Mapping[str, Any]]) -> float:
    """The longest time without a new attempt of anybody, between the first and the last one."""
    began = sorted(datetime.fromisoformat(each["opened_at"]) for each in attempts)
    return max(((after - before).total_seconds() for before, after in pairwise(began)), default=0.0)


@dataclass
class Soak:
    """What came of it."""

    mails: int
    kills: int = 0
    seconds: float = 0.0
    states: dict[str, int] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    requests: int = 0
    repeats: Repeats = Repeats(count=0, longest_s=0.0)
    silent_s: float = 0.0
    """The longest time in which the provider saw no new attempt."""

    @property
    def most_repeats(self) -> float:
        """As many repeats as the kills may have cost."""
        return REPEATS_PER_KILL * CONCURRENCY * self.kills

    @property
    def holds(self) -> bool:
        """Whether every mail was accepted once, every row says so, and no more was repeated than may be."""
        return (
            self.repeats.count <= self.most_repeats
            and self.verdict.get("accepted_once") == self.mails
            and self.verdict.get("valid") is True
            and self.states == {State.ACCEPTED.value: self.mails}
        )

    def __str__(self) -> str:
        wrong = {
            name: len(self.verdict.get(name, []))
            for name in ("duplicated", "lost", "phantom", "misdirected", "parked", "open")
        }
        return (
            f"{self.mails:,} mails, {self.kills} kills, {self.seconds:.0f} s: "
            f"{self.verdict.get('accepted_once'):,} accepted exactly once, {wrong}; "
            f"{self.requests:,} attempts at the provider, {self.repeats.count:,} of them repeats that no fault explains "
            f"(at most {self.most_repeats:,.0f}); a lost worker's mail waited {self.repeats.longest_s:.1f} s at worst, "
            f"one that was lost again and again {self.repeats.longest_of_suspects_s:.1f} s, "
            f"the provider was left alone for {self.silent_s:.1f} s at worst; rows {self.states}"
        )


def soak(
    mails: int,
    *,
    workers: int,
    kill_every_s: float,
    seed: int,
    deadline_s: float,
    kind: str = "postgresql",
    kills: int | None = None,
    lease_s: float = 6.0,
    rules: Sequence[str] = RULES,
) -> Soak:
    """Play it. `kills`: no more than so many, then they are left alone."""
    dice = random.Random(seed)
    told = Soak(mails=mails)
    with tempfile.TemporaryDirectory() as folder, database(kind, Path(folder)) as place:
        filling.outbox(place, mails)
        store = Store(open_engine(place))
        provider, url = _provider(Path(folder), rules, seed)
        client = ControlClient(url)
        running = [_worker(place, url, lease_s, number) for number in range(workers)]
        began = time.monotonic()
        try:
            client.owe({"ref": f"order-{n}", "recipient": f"customer-{n}@example.com"} for n in range(mails))
            while time.monotonic() - began < deadline_s:
                time.sleep(kill_every_s)
                told.states = {tally.state.value: tally.count for tally in store.tallies()}
                if told.states == {State.ACCEPTED.value: mails}:
                    break
                if kills is None or told.kills < kills:
                    number = dice.randrange(workers)
                    running[number].send_signal(signal.SIGKILL)
                    running[number].wait()
                    running[number] = _worker(place, url, lease_s, number)
                    told.kills += 1
            told.seconds = time.monotonic() - began
            told.verdict = client.verdict(final=True)
            attempts = client.attempts()
            told.requests, told.repeats = len(attempts), repeats_of(attempts, suspects_among(store))
            told.silent_s = longest_silence_s(attempts)
        finally:
            for process in running:
                process.kill()
            for process in running:
                process.wait()
            client.close()
            provider.terminate()
            provider.wait(20)
            store.engine.dispose()
    return told


def _provider(folder: Path, rules: Sequence[str], seed: int) -> tuple[subprocess.Popen[bytes], str]:
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"rules": list(rules)}))
    ready = folder / "ready.json"
    words = ["serve", "--http", "127.0.0.1:0", "--smtp", "127.0.0.1:0", "--ledger", str(folder / "ledger.db")]
    words += ["--plan", str(plan), "--seed", str(seed), "--ready-file", str(ready)]
    process = subprocess.Popen(
        [sys.executable, "-c", "from simulator.cli import main; main()", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not ready.exists():
        assert process.poll() is None, "the provider did not start"
        time.sleep(0.05)
    return process, json.loads(ready.read_text())["http"]


def _worker(place: str, url: str, lease_s: float, number: int) -> subprocess.Popen[bytes]:
    told = {
        "OUTBOX_DATABASE_URL": place,
        "PROVIDER_URL": url,
        "OUTBOX_CONCURRENCY": str(CONCURRENCY),
        "OUTBOX_LEASE_S": f"{lease_s:g}",
        "OUTBOX_TOTAL_TIMEOUT_S": f"{lease_s / 2:g}",
        "OUTBOX_POLL_S": "0.2",
        "OUTBOX_RECONCILE_S": "1",
        "OUTBOX_BACKOFF_BASE_S": "0.2",
        "OUTBOX_BACKOFF_CAP_S": "2",
        "OUTBOX_MAX_ATTEMPTS": "100",
        "OUTBOX_SEED": str(number),
    }
    return subprocess.Popen(
        [sys.executable, "-c", "from reference_sender.cli import main; main()", "work"],
        env=os.environ | told,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mails", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kill-every", type=float, default=1.0)
    parser.add_argument("--database", default="postgresql", choices=("postgresql", "mysql", "sqlite"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=1800.0)
    told = parser.parse_args()
    outcome = soak(
        told.mails,
        workers=told.workers,
        kill_every_s=told.kill_every,
        seed=told.seed,
        deadline_s=told.deadline,
        kind=told.database,
    )
    sys.stdout.write(f"{outcome}\n")
    sys.exit(0 if outcome.holds else 1)


if __name__ == "__main__":
    main()
