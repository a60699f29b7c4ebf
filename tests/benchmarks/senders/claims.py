"""What a claim costs beside a long history, and what a long queue costs in memory."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from rich.table import Table
from sqlalchemy import text

from reference_sender.clock import SystemClock
from reference_sender.life import Parcel, State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision, Ended
from reference_sender.policy.gate import Gate, GateRules
from reference_sender.policy.routes import Mine
from tests.benchmarks.senders import filling
from tests.reference_sender.outbox.databases import KINDS, database
from tests.reference_sender.outbox.plans import analyse
from tests.reference_sender.outbox.readings import cpu_us, leave_alone, reading

_ROUNDS = 40
_WARM = 10  # rounds that do not count: plans are made, pages are read from the disk
_ROWS = 20
_MINE = Mine(provider="main", providers=("main",))
_CLOCK = SystemClock()
#: (what is done, what is counted) → how much of it, round by round.
_Samples = dict[tuple[str, str], list[float]]


def cost(history: int) -> Table:
    """What is read and computed by claim, settlement and the reconciler's look, with and without so many finished rows."""
    head = (
        "least, with none",
        f"with {history:,}",
        "ratio",
        "median, with none",
        f"with {history:,}",
        "ratio",
    )
    table = Table(
        "database", "what", "counted", *head, caption="aim: a claim with them at most 1.2 × one with none"
    )
    for kind in KINDS:
        try:
            without, beside = _measured(kind, history)
        except pytest.skip.Exception as no_server:
            table.add_row(kind, str(no_server))
            continue
        for (what, counted), few in without.items():
            cells = []
            for measure in (min, statistics.median):
                one, other = measure(few), measure(beside[what, counted])
                cells += [f"{one:,.0f}", f"{other:,.0f}", f"{other / one:.2f}" if one else "-"]
            table.add_row(kind, what, counted, *cells)
    return table


def _measured(kind: str, history: int) -> tuple[_Samples, _Samples]:
    """Two outboxes on one server take turns, so that what else the machine does meets both."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stores = []
        for name, count in (("without", 0), ("beside", history)):
            (folder / name).mkdir()
            url = stack.enter_context(database(kind, folder / name))
            stores.append(_filled(url, count))
            stack.callback(stores[-1].engine.dispose)
        found: tuple[_Samples, _Samples] = ({}, {})
        for number in range(_WARM + _ROUNDS):
            for store, samples in zip(stores, found, strict=True):
                _round(store, samples if number >= _WARM else {})
        return found


def _filled(url: str, history: int, *, waiting: int = 2 * (_WARM + _ROUNDS) * _ROWS) -> Store:
    store = Store(open_engine(url))
    store.create()
    leave_alone(store.engine, "outgoing_email", "email_attempt")
    if history:
        filling.finished(url, history)
    filling.waiting(url, waiting)
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if store.engine.dialect.name == "postgresql":
            connection.execute(text("VACUUM outgoing_email"))
        analyse(connection, "outgoing_email")
    return store


def _round(store: Store, samples: _Samples) -> None:
    """Once counted, and once timed: to count each step of SQLite takes time itself."""
    for measure in (_count, _time):
        held: list[Parcel] = []
        for what, act in (
            (f"claim of {_ROWS}", lambda held=held: held.extend(_claim(store))),
            (f"settlement of {_ROWS}", lambda held=held: _settle(store, held)),
            ("reconciler's look", lambda: _look(store)),
        ):
            for counted, amount in measure(store, act).items():
                samples.setdefault((what, counted), []).append(amount)


def _count(store: Store, act: Callable[[], object]) -> dict[str, float]:
    return {name: float(count) for name, count in reading(store.engine, act)[1].items()}


def _time(store: Store, act: Callable[[], object]) -> dict[str, float]:
    took: list[float] = []

    def timed() -> None:
        began = time.perf_counter()
        act()
        took.append((time.perf_counter() - began) * 1e6)

    cpu = cpu_us(store.engine, timed)
    return ({} if cpu is None else {"CPU, µs": cpu}) | {"clock, µs": took[0]}


def _claim(store: Store) -> list[Parcel]:
    parcels = store.claim(now=_CLOCK.now(), limit=_ROWS, lease_s=60, dedupes=True, gate=Gate(GateRules()))
    assert len(parcels) == _ROWS
    return parcels


def _settle(store: Store, parcels: list[Parcel]) -> None:
    accepted = Decision(state=State.ACCEPTED, reason="accepted", provider_id="p-1")
    ended = [Ended(docket=parcel, decision=accepted, evidence=None, started_at=None) for parcel in parcels]
    assert all(store.settle_all(ended, now=_CLOCK.now()))


def _look(store: Store) -> None:
    store.has_doubts(now=_CLOCK.now(), dedupes=False, mine=_MINE)
    store.doubtful(now=_CLOCK.now(), limit=100, mine=_MINE)


def behind(mails: int) -> Table:
    """What a claim reads on PostgreSQL when so many mails have gone through since the last vacuum, and after one."""
    table = Table(
        "mails since the last vacuum",
        "claim, pages",
        "CPU, µs",
        "after a vacuum, pages",
        "CPU, µs",
        caption="least",
    )
    for count in (0, mails // 10, mails):
        try:
            with tempfile.TemporaryDirectory() as folder, database("postgresql", Path(folder)) as url:
                store = _filled(url, 0, waiting=count + 4 * (_WARM + _ROUNDS) * _ROWS)
                # Claimed and settled, as far as the dead entries go that this leaves.
                for change in (
                    "state = 'sending', next_attempt_at = NULL, lease_until = now() - interval '1 hour'",
                    "state = 'accepted', lease_until = NULL",
                ):
                    with store.engine.begin() as connection:
                        connection.execute(text(f"UPDATE outgoing_email SET {change} WHERE id <= {count}"))
                cells = _least_of_claims(store)
                with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                    connection.execute(text("VACUUM outgoing_email"))
                cells += _least_of_claims(store)
                store.engine.dispose()
        except pytest.skip.Exception as no_server:
            table.add_row("postgresql", str(no_server))
            break
        table.add_row(f"{count:,}", *cells)
    return table


def _least_of_claims(store: Store) -> list[str]:
    samples: dict[str, list[float]] = {"pages": [], "CPU, µs": []}
    for number in range(_WARM + _ROUNDS):
        for measure in (_count, _time):
            for name, amount in measure(store, partial(_claim, store)).items():
                if number >= _WARM and name in samples:
                    samples[name].append(amount)
    return [f"{min(each):,.0f}" if each else "-" for each in samples.values()]


def memory(waiting: int) -> Table:
    """How much a process grows by claiming out of a short and out of a long queue; each in a process of its own."""
    claims, rows = 50, 75
    table = Table("database", "waiting rows", "after the first claim, MiB", f"after {claims} more, MiB")
    for kind in KINDS:
        for count in (2 * claims * rows, waiting):
            try:
                with tempfile.TemporaryDirectory() as folder, database(kind, Path(folder)) as url:
                    Store(open_engine(url)).create()
                    filling.waiting(url, count)
                    # A new program: the peak of a process that was forked begins with its parent's.
                    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                        before, after = process.submit(_grown, url, claims, rows).result()
            except pytest.skip.Exception as no_server:
                table.add_row(kind, str(no_server))
                break
            table.add_row(kind, f"{count:,}", f"{before:.1f}", f"{after:.1f}")
    return table


def _grown(url: str, claims: int, rows: int) -> tuple[float, float]:
    store = Store(open_engine(url))
    peaks = []
    for many in (1, claims):
        for _ in range(many):
            gate = Gate(GateRules())
            taken = store.claim(now=_CLOCK.now(), limit=rows, lease_s=60, dedupes=True, gate=gate)
            assert len(taken) == rows
        peaks.append(_peak_mib())
    store.engine.dispose()
    return peaks[0], peaks[1]


def _peak_mib() -> float:
    """The most memory that this process has had in use."""
    status = Path("/proc/self/status")
    if status.exists():
        # Of this program alone; what `resource` tells goes back to before it was started.
        (line,) = (each for each in status.read_text().splitlines() if each.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    import resource  # late: Windows has none

    unit = 2**20 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
