"""What a running service counts, in the words of Prometheus. `METRICS` is the whole list; docs/operating.md shows it.

Counters are fed with the records that were kept, so that a restart begins at nought and a mail counts once. Names of
accounts are no labels: a test run makes thousands of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from simulator import __version__
from simulator.provider.ledger import Attempt, AttemptState, Booked, Decided, Tried
from simulator.provider.provider import Record

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

#: As Prometheus wants it for its text format 0.0.4.
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: So many rules have a line of their own; what comes after them counts as `(others)`.
MAX_RULES = 200
OTHERS = "(others)"
#: From a fast answer on this machine to a tarpit, in seconds.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A row of the table."""

    name: str
    kind: str
    says: str
    labels: tuple[str, ...] = ()


METRICS: tuple[Described, ...] = (
    Described(
        name="simulator_attempts_total",
        kind="counter",
        says="Attempts that have ended, by what became of the mail and by how much of the answer went out.",
        labels=("dialect", "outcome", "sent"),
    ),
    Described(
        name="simulator_attempt_seconds",
        kind="histogram",
        says="How long attempts took, from their first word to their end, by the provider's clock.",
        labels=("dialect",),
    ),
    Described(
        name="simulator_mails_accepted_total", kind="counter", says="Mails accepted.", labels=("dialect",)
    ),
    Described(
        name="simulator_recipients_accepted_total",
        kind="counter",
        says="Recipients of the mails accepted.",
        labels=("dialect",),
    ),
    Described(
        name="simulator_accepted_bytes_total",
        kind="counter",
        says="Bytes of the mails accepted.",
        labels=("dialect",),
    ),
    Described(
        name="simulator_refusals_total",
        kind="counter",
        says="Refusals of the provider's own, no rule needed; `rate_limited` are those that were throttled.",
        labels=("dialect", "reason"),
    ),
    Described(
        name="simulator_faults_total",
        kind="counter",
        says="How often a rule struck, by its name and the stage.",
        labels=("rule", "stage"),
    ),
    Described(
        name="simulator_connections", kind="gauge", says="Connections that are open now.", labels=("wire",)
    ),
    Described(
        name="simulator_connections_total",
        kind="counter",
        says="Connections there have been.",
        labels=("wire",),
    ),
    Described(
        name="simulator_deliveries_total",
        kind="counter",
        says="Webhooks and returned mails that are over, by what became of them.",
        labels=("channel", "outcome"),
    ),
    Described(
        name="simulator_delivery_attempts_total",
        kind="counter",
        says="Attempts at delivering them.",
        labels=("channel",),
    ),
    Described(
        name="simulator_deliveries_waiting",
        kind="gauge",
        says="Webhooks and returned mails that are still to be delivered.",
        labels=("channel",),
    ),
    Described(name="simulator_held_answers", kind="gauge", says="Answers that wait for their release."),
    Described(name="simulator_accounts", kind="gauge", says="Accounts there are."),
    Described(
        name="simulator_ledger_mails",
        kind="gauge",
        says="Mails booked in the ledger since the last reset, of all accounts.",
    ),
    Described(
        name="simulator_ledger_waiting_records",
        kind="gauge",
        says="Records that were decided and are not durable yet: how far the ledger lags behind.",
    ),
    Described(
        name="simulator_ledger_failing", kind="gauge", says="1 while the ledger cannot be written, else 0."
    ),
    Described(name="simulator_stream_readers", kind="gauge", says="Readers of `GET stream`."),
    Described(name="simulator_info", kind="gauge", says="Always 1.", labels=("version",)),
)

Labels = tuple[str, ...]
#: What is read when somebody asks: values by their labels.
Readings = Mapping[str, Callable[[], Mapping[Labels, float]]]


class Metrics:
    """The counters of one service. They belong to the loop that runs it: counting is adding to a number."""

    def __init__(self, readings: Readings) -> None:
        """`readings` gives the values of those metrics that are looked up, not counted, by name."""
        self._attempts: Counter[Labels] = Counter()
        self._mails: Counter[Labels] = Counter()
        self._recipients: Counter[Labels] = Counter()
        self._bytes: Counter[Labels] = Counter()
        self._faults: Counter[Labels] = Counter()
        self._seconds: dict[Labels, Durations] = {}
        self._rules: set[str] = set()
        counted: Readings = {
            "simulator_attempts_total": lambda: self._attempts,
            "simulator_mails_accepted_total": lambda: self._mails,
            "simulator_recipients_accepted_total": lambda: self._recipients,
            "simulator_accepted_bytes_total": lambda: self._bytes,
            "simulator_faults_total": lambda: self._faults,
            "simulator_info": lambda: {(__version__,): 1},
        }
        self._readings = {**counted, **readings}

    def observe(self, records: Sequence[Record]) -> None:
        """Count what was kept."""
        for record in records:
            match record:
                case Tried(attempt=attempt):
                    if attempt.state is AttemptState.CLOSED:
                        self._ended(attempt)
                case Booked(acceptance=acceptance):
                    dialect = (acceptance.dialect,)
                    self._mails[dialect] += 1
                    self._recipients[dialect] += len(acceptance.recipients)
                    self._bytes[dialect] += acceptance.size_bytes
                case Decided(decision=decision):
                    for rule in decision.rules:
                        self._faults[self._named(rule), decision.stage] += 1
                case _:
                    pass  # Nothing that is counted.

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        from prometheus_client.exposition import generate_latest

        return generate_latest(self._registry)

    @cached_property
    def _registry(self) -> CollectorRegistry:
        # For whoever asks: most services of a test never are, and importing it and looking around in /proc take time.
        from prometheus_client import CollectorRegistry
        from prometheus_client.process_collector import ProcessCollector

        from simulator.exposition import Table

        registry = CollectorRegistry()
        registry.register(Table(self._readings, self._seconds))
        ProcessCollector(registry=registry)
        return registry

    def _ended(self, attempt: Attempt) -> None:
        outcome = "accepted" if attempt.accepted else "refused"
        self._attempts[attempt.dialect, outcome, attempt.sent.value] += 1
        if attempt.closed_at is not None:
            took_s = max(0.0, (attempt.closed_at - attempt.opened_at).total_seconds())
            durations = self._seconds.get((attempt.dialect,))
            if durations is None:
                durations = self._seconds[(attempt.dialect,)] = Durations()
            durations.add(took_s)

    def _named(self, rule: str) -> str:
        if rule not in self._rules:
            if len(self._rules) >= MAX_RULES:
                return OTHERS
            self._rules.add(rule)
        return rule


@dataclass(slots=True)
class Durations:
    """How many took how long; the last count is of those beyond all bounds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, took_s: float) -> None:
        self.counts[bisect_left(BOUNDS_S, took_s)] += 1
        self.sum_s += took_s

    def cumulated(self) -> list[tuple[str, float]]:
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self.counts), strict=True)]
