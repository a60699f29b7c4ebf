"""The table as the library wants it: every row once, values as they are when somebody asks."""

from __future__ import annotations

import subprocess
import sys

from simulator.exposition import Table
from simulator.metrics import METRICS, Durations, Readings


def test_values_are_those_of_the_moment_somebody_asks() -> None:
    accounts = 1
    readings: Readings = {row.name: dict for row in METRICS} | {
        "simulator_accounts": lambda: {(): accounts},
    }
    table = Table(readings, {})
    accounts = 7
    families = list(table.collect())
    assert len(families) == len(METRICS)
    (asked,) = (family for family in families if family.name == "simulator_accounts")
    assert [sample.value for sample in asked.samples] == [7]


def test_buckets_add_up() -> None:
    durations = Durations()
    for took_s in (0.0005, 0.002, 1_000.0):
        durations.add(took_s)
    table = Table({row.name: dict for row in METRICS}, {("smtp",): durations})
    histogram = next(family for family in table.collect() if family.name == "simulator_attempt_seconds")
    values = {
        (sample.name.rpartition("_")[2], sample.labels.get("le")): sample.value
        for sample in histogram.samples
    }
    assert values["bucket", "0.001"] == 1
    assert values["bucket", "300.0"] == 2
    assert values["bucket", "+Inf"] == values["count", None] == 3


def test_nobody_loads_the_library_to_serve() -> None:
    code = "import sys, simulator.servers.serve; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
