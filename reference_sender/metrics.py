"""What a running sender counts, in the words of Prometheus. `METRICS` is the whole list; docs/operating-the-sender.md shows it.

Fed in two ways: `Metrics` is a log and hears what the worker and the reconciler say anyway; queues are looked up in the
database when somebody asks, and not more often than every `CACHE_S`. Loaded only where `--metrics` is given.
Must not hold: SQL, sockets, rules of sending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reference_sender import __version__
from reference_sender.counting import Counting, Described
from reference_sender.life import State
from reference_sender.outbox.depths import DEEP, Depth, EventDepth
from reference_sender.policy.breaker import Position

#: A look at the queues serves everybody who asks within so many seconds: ten scrapers cost the database one.
CACHE_S = 10.0
#: From a fast answer to the patience that RFC 5321 asks for, in seconds.
ATTEMPT_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 660.0)
#: From the business event to the acceptance: a login code is late after seconds, a receipt after hours.
WAIT_BOUNDS_S = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)

#: What the log says when something is wrong with us, with the database, or with a lease.
TROUBLE = (
    "claim_failed",
    "mark_failed",
    "renew_failed",
    "settle_failed",
    "reconcile_failed",
    "hear_failed",
    "group_failed",
    "unexpected",
    "fenced_out",
    "lease_over",
    "clock_skew",
    "broker_away",
    "listen_failed",
    "alarm_failed",
)
#: States that an attempt can lead to.
ENDS = (
    State.ACCEPTED,
    State.PENDING,
    State.UNKNOWN,
    State.FAILED,
    State.DEAD,
    State.EXPIRED,
    State.SUPPRESSED,
)


METRICS: tuple[Described, ...] = (
    Described(
        name="outbox_mails",
        kind="gauge",
        says="Mails that are not done or want a person, by state.",
        labels=("state", "class"),
    ),
    Described(
        name="outbox_oldest_age_seconds",
        kind="gauge",
        says="How long the oldest of them has been in the outbox (since a person requeued it, if one did).",
        labels=("state", "class"),
    ),
    Described(
        name="outbox_overdue_seconds",
        kind="gauge",
        says="How long the pending mail that has waited longest for a worker has been due.",
        labels=("class",),
    ),
    Described(
        name="outbox_breaker",
        kind="gauge",
        says="1 for where the circuit breaker of a provider stands: closed, open, half-open; it is the same for all workers.",
        labels=("provider", "position"),
    ),
    Described(
        name="outbox_pause_seconds",
        kind="gauge",
        says="How long nobody asks the provider yet, because it said so or the breaker is open.",
        labels=("provider",),
    ),
    Described(
        name="outbox_events_waiting",
        kind="gauge",
        says="What the provider told afterwards and nobody has dealt with yet.",
    ),
    Described(
        name="outbox_events_oldest_seconds", kind="gauge", says="How long the oldest of it has been waiting."
    ),
    Described(
        name="outbox_seconds_since_event",
        kind="gauge",
        says="How long ago the provider last told anything; missing where it never did.",
    ),
    Described(
        name="outbox_queues_unreadable",
        kind="gauge",
        says="1 while what is above cannot be looked up; it is missing then.",
    ),
    Described(
        name="outbox_decisions_total",
        kind="counter",
        says="Attempts and mails not worth one, by the state they led to: accepted is the throughput, pending the retries.",
        labels=("state",),
    ),
    Described(
        name="outbox_answers_total",
        kind="counter",
        says="Attempts by the provider's code; `none` where no complete answer came.",
        labels=("wire", "code"),
    ),
    Described(
        name="outbox_attempt_seconds",
        kind="histogram",
        says="How long attempts took, from the claim to the answer.",
        labels=("wire",),
        bounds=ATTEMPT_BOUNDS_S,
    ),
    Described(
        name="outbox_acceptance_seconds",
        kind="histogram",
        says="From the business event to the acceptance.",
        bounds=WAIT_BOUNDS_S,
    ),
    Described(
        name="outbox_reconciled_total",
        kind="counter",
        says="Unknown mails that evidence or the policy has moved on, by where to.",
        labels=("state",),
    ),
    Described(
        name="outbox_parked_total",
        kind="counter",
        says="Mails of lost workers that became unknown.",
    ),
    Described(
        name="outbox_trouble_total",
        kind="counter",
        says="What went wrong with us, with the database or with a lease, by the name of the line in the log.",
        labels=("event",),
    ),
    Described(name="outbox_in_flight", kind="gauge", says="Mails that are under way now."),
    Described(name="outbox_concurrency", kind="gauge", says="Mails that may be under way at a time."),
    Described(
        name="outbox_seconds_since_look",
        kind="gauge",
        says="How long ago the worker last looked for mail. It grows when the loop is dead or the database away.",
    ),
    Described(
        name="outbox_info", kind="gauge", says="Always 1; the version is in the label.", labels=("version",)
    ),
)

_BY_NAME = {row.name: row for row in METRICS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What is looked up when somebody asks."""

    depths: Callable[[], Iterable[Depth]]
    """The queues, from the database; may raise, like the two below."""
    events: Callable[[], EventDepth]
    gates: Callable[[], Mapping[str, tuple[str, float]]]
    """Of each provider: where its breaker stands, and seconds until somebody may ask again."""
    in_flight: Callable[[], int]
    concurrency: Callable[[], int]
    seconds_since_look: Callable[[], float]
    monotonic: Callable[[], float]


class Metrics(Counting):
    """Counts what it is told as a log, and adds what it looks up."""

    def __init__(self, readings: Readings) -> None:
        super().__init__(METRICS, trouble="outbox_trouble_total", troubles=(*TROUBLE, "late"))
        self._histograms = {
            row.name: Histogram(row.name, row.says, row.labels, buckets=row.bounds, registry=self.registry)
            for row in METRICS
            if row.kind == "histogram"
        }
        # As with trouble: these series are there from the first moment, too.
        for state in ENDS:
            self.counters["outbox_decisions_total"].labels(state.value)
            self.counters["outbox_reconciled_total"].labels(state.value)
        self.registry.register(_Lookups(readings))
        self.hears |= {
            "decided": self._decided,
            # It changed nothing, but the provider was asked.
            "late": self._attempted,
            "reconciled": self._reconciled,
            "parked": self._parked,
        }

    def _decided(self, facts: Mapping[str, Any]) -> None:
        self.counters["outbox_decisions_total"].labels(facts["state"]).inc()
        self._attempted(facts)
        if facts["state"] == State.ACCEPTED and facts.get("waited_s") is not None:
            self._histograms["outbox_acceptance_seconds"].observe(facts["waited_s"])

    def _attempted(self, facts: Mapping[str, Any]) -> None:
        if facts.get("phase") is None:
            return  # nothing was tried
        wire = facts.get("wire", "")
        self.counters["outbox_answers_total"].labels(wire, _code(facts.get("code"))).inc()
        if facts.get("seconds") is not None:
            self._histograms["outbox_attempt_seconds"].labels(wire).observe(facts["seconds"])

    def _reconciled(self, facts: Mapping[str, Any]) -> None:
        self.counters["outbox_reconciled_total"].labels(facts["state"]).inc()

    def _parked(self, _facts: Mapping[str, Any]) -> None:
        self.counters["outbox_parked_total"].inc()


def _code(code: object) -> str:
    # A provider that invents numbers must not invent series without end.
    if code is None:
        return "none"
    return str(code) if isinstance(code, int) and 100 <= code <= 599 else "odd"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One look into the database."""

    depths: tuple[Depth, ...]
    events: EventDepth
    gates: dict[str, tuple[str, float]]


class _Lookups(Collector):
    """What is true at the moment of the question."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._seen: _Seen | None = None
        self._looked_at: float | None = None
        self._classes: set[str] = set()
        self._one_looks = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        # Without this the registry would look into the database when it is put together.
        return [_gauge(row.name) for row in METRICS if row.kind == "gauge"]

    def collect(self) -> Iterable[Metric]:
        readings = self._readings
        yield from self._queues()
        yield _gauge("outbox_in_flight", readings.in_flight())
        yield _gauge("outbox_concurrency", readings.concurrency())
        yield _gauge("outbox_seconds_since_look", readings.seconds_since_look())
        info = _gauge("outbox_info")
        info.add_metric([__version__], 1)
        yield info

    def _queues(self) -> Iterable[Metric]:
        seen = self._look()
        yield _gauge("outbox_queues_unreadable", 1 if seen is None else 0)
        if seen is None:
            return
        depths = seen.depths
        found = {(each.state, each.mail_class): each for each in depths}
        # A queue that was seen once stays, at nought: an alarm that only sees it vanish would not know.
        self._classes |= {each.mail_class for each in depths}
        mails, oldest = _gauge("outbox_mails"), _gauge("outbox_oldest_age_seconds")
        overdue = _gauge("outbox_overdue_seconds")
        for mail_class in sorted(self._classes):
            for state in DEEP:
                depth = found.get((state, mail_class))
                labels = [state.value, mail_class]
                mails.add_metric(labels, depth.count if depth else 0)
                oldest.add_metric(labels, depth.oldest_s if depth else 0)
            waiting = found.get((State.PENDING, mail_class))
            overdue.add_metric([mail_class], waiting.overdue_s if waiting else 0)
        yield from (mails, oldest, overdue)
        yield _gauge("outbox_events_waiting", seen.events.waiting)
        yield _gauge("outbox_events_oldest_seconds", seen.events.oldest_s)
        if seen.events.last_s is not None:
            yield _gauge("outbox_seconds_since_event", seen.events.last_s)
        breaker, pause = _gauge("outbox_breaker"), _gauge("outbox_pause_seconds")
        for provider, (stands, pause_s) in sorted(seen.gates.items()):
            for position in Position:
                breaker.add_metric([provider, position.value], 1 if position == stands else 0)
            pause.add_metric([provider], pause_s)
        yield from (breaker, pause)

    def _look(self) -> _Seen | None:
        """What the database says, at most `CACHE_S` old. None: it cannot be asked."""
        with self._one_looks:
            now = self._readings.monotonic()
            if self._looked_at is None or now - self._looked_at >= CACHE_S:
                self._looked_at = now
                try:
                    self._seen = _Seen(
                        depths=tuple(self._readings.depths()),
                        events=self._readings.events(),
                        gates=dict(self._readings.gates()),
                    )
                except Exception:
                    # Whatever it is, the worker meets it too, and says it. The counters must not vanish with it.
                    self._seen = None
            return self._seen


def _gauge(name: str, value: float | None = None) -> GaugeMetricFamily:
    row = _BY_NAME[name]
    if value is not None:
        return GaugeMetricFamily(row.name, row.says, value=value)
    return GaugeMetricFamily(row.name, row.says, labels=row.labels)
