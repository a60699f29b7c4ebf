"""The benchmark of the sender says in a sentence what it cannot compare with, and compares the others."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from rich.console import Console

from tests.benchmarks import bench_sender
from tests.benchmarks.senders import claims


@pytest.mark.parametrize(
    ("gone", "says"),
    [
        ({"asyncpg"}, "asyncpg is not installed: pip install 'mailproof[bench]'"),
        ({"asyncpg", "pgqueuer"}, "pgqueuer and asyncpg are not installed: pip install 'mailproof[bench]'"),
        (set(), ""),
    ],
)
def test_a_package_that_is_missing_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, gone: set[str], says: str
) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name in gone else ModuleSpec(name, None)

    monkeypatch.setattr(bench_sender, "find_spec", find)
    assert bench_sender.contenders()[-1].missing == says


def test_a_server_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def nobody(kind: str, folder: Path) -> Iterator[str]:
        pytest.skip(f"no {kind} answers")
        yield ""

    @contextmanager
    def sink() -> Iterator[str]:
        yield "http://127.0.0.1:1"

    row = bench_sender.Contender(
        label="sender", run="outbox", database="postgresql", fill=lambda url, count: None
    )
    monkeypatch.setattr(bench_sender, "database", nobody)
    monkeypatch.setattr(bench_sender, "sink", sink)
    monkeypatch.setattr(bench_sender, "contenders", lambda: [row, row])
    monkeypatch.setattr(claims, "database", nobody)
    console = Console(width=150, file=io.StringIO(), record=True)
    bench_sender.rates(console, mails=1, rounds=1, concurrency=1)
    bench_sender.kills(console, mails=1, concurrency=1, rounds=1)
    console.print(claims.cost(1), claims.behind(1), claims.memory(1))
    shown = console.export_text()
    assert [shown.count(f"no {kind} answers") for kind in ("postgresql", "sqlite", "mysql")] == [6, 3, 2]


def test_what_a_claim_costs_is_counted_on_either_outbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "KINDS", ("sqlite",))
    monkeypatch.setattr(claims, "_WARM", 1)
    monkeypatch.setattr(claims, "_ROUNDS", 2)
    table = claims.cost(100)
    columns = {str(column.header): list(column.cells) for column in table.columns}
    assert columns["counted"].count("steps") == 3
    steps = [
        pair for pair in zip(columns["least, with none"], columns["with 100"], strict=True) if "-" not in pair
    ]
    assert len(steps) == table.row_count == 9


def test_a_short_and_a_long_queue_are_claimed_from_by_processes_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claims, "KINDS", ("sqlite",))
    table = claims.memory(8_000)
    assert [list(column.cells)[:2] for column in table.columns][1] == ["7,500", "8,000"]
    before, after = (
        [float(str(cell)) for cell in column.cells] for column in (table.columns[2], table.columns[3])
    )
    # Where modules were compiled first, that was the peak. Linux adds up the pages of threads now and then only, so it may
    # tell a little less the second time: within a MiB, of which fifty claims take two where nothing was compiled.
    assert all(0 < one < other + 1 for one, other in zip(before, after, strict=True))
