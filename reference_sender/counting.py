"""A log that counts what it hears, in the words of Prometheus: what the sender (`metrics`) and the intake (`intake_metrics`) share.

Loaded only where `--metrics` is given. Must not hold: which lines there are, and what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector

Hears = Callable[[Mapping[str, Any]], None]
"""What is done about a line of the log, given its facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A row of the table of what is counted."""

    name: str
    kind: str
    says: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


class Counting:
    """Counts what it is told as a log. Whoever is one adds to `hears` what lines mean, by their names."""

    def __init__(self, rows: Iterable[Described], *, trouble: str, troubles: Collection[str]) -> None:
        """`trouble`: the row that counts the lines `troubles` by their names, in its label `event`."""
        self.registry = CollectorRegistry()
        self.counters = {
            row.name: Counter(row.name, row.says, row.labels, registry=self.registry)
            for row in rows
            if row.kind == "counter"
        }
        self.hears: dict[str, Hears] = {}
        self._trouble = self.counters[trouble]
        self._troubles = frozenset(troubles)
        # Every series that an alarm looks at is there from the first moment: an increase from nowhere is none.
        for event in troubles:
            self._trouble.labels(event)
        ProcessCollector(registry=self.registry)

    def __call__(self, event: str, /, **facts: object) -> None:
        """Hear a line of the log."""
        if event in self._troubles:
            self._trouble.labels(event).inc()
        hear = self.hears.get(event)
        if hear is not None:
            hear(facts)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)
