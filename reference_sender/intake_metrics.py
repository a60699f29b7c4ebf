"""What a running intake counts, in the words of Prometheus. `INTAKE_METRICS` is the whole list; docs/operating-the-sender.md shows it.

`IntakeMetrics` is a log and hears what doors and processor say anyway. Queues of events are the sender's to show
(`metrics`). Loaded only where `--metrics` is given. Must not hold: sockets, databases, what an event means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import Gauge

from reference_sender.counting import Counting, Described
from reference_sender.events.kinds import Kind
from reference_sender.policy.hearing import Fate

#: What the log says when something is wrong with a door, the processor or the database behind them.
INTAKE_TROUBLE = (
    "webhook_not_kept",
    "report_not_kept",
    "report_too_large",
    "report_unreadable",
    "maildir_failed",
    "process_failed",
    "event_failed",
)
#: What the door for webhooks answers (`doors.http`).
ANSWERS = ("204", "401", "408", "413", "415", "503")

INTAKE_METRICS: tuple[Described, ...] = (
    Described(
        name="outbox_webhook_requests_total",
        kind="counter",
        says="Requests of the provider at the door for webhooks, by what they were answered: 401 is a wrong signature, or none.",
        labels=("answer",),
    ),
    Described(
        name="outbox_events_received_total",
        kind="counter",
        says="Events that were kept, by whether they were told for the first time (new) or again.",
        labels=("source", "told"),
    ),
    Described(
        name="outbox_events_settled_total",
        kind="counter",
        says="Looks at events, by what they came to (waiting ones are looked at again) and the kind of fact that was noted.",
        labels=("state", "kind"),
    ),
    Described(
        name="outbox_intake_trouble_total",
        kind="counter",
        says="What went wrong with the intake or with the database, by the name of the line in the log.",
        labels=("event",),
    ),
    Described(
        name="outbox_seconds_since_event_look",
        kind="gauge",
        says="How long ago the processor last looked for events. It grows when it is dead or the database away.",
    ),
)
_BY_NAME = {row.name: row for row in INTAKE_METRICS}


class IntakeMetrics(Counting):
    """Counts what it is told as a log."""

    def __init__(self, seconds_since_look: Callable[[], float]) -> None:
        super().__init__(INTAKE_METRICS, trouble="outbox_intake_trouble_total", troubles=INTAKE_TROUBLE)
        look = _BY_NAME["outbox_seconds_since_event_look"]
        Gauge(look.name, look.says, registry=self.registry).set_function(seconds_since_look)
        # As with trouble: these series are there from the first moment, too.
        for answer in ANSWERS:
            self.counters["outbox_webhook_requests_total"].labels(answer)
        for source in ("webhook", "mail"):
            for told in ("new", "again"):
                self.counters["outbox_events_received_total"].labels(source, told)
        self.hears |= {
            "webhook": self._webhook,
            "webhook_refused": self._refused,
            "webhook_not_kept": self._not_kept,
            "report": self._report,
            "event": self._settled,
        }

    def _answered(self, answer: str) -> None:
        self.counters["outbox_webhook_requests_total"].labels(answer).inc()

    def _kept(self, source: str, facts: Mapping[str, Any]) -> None:
        received = self.counters["outbox_events_received_total"]
        received.labels(source, "new").inc(facts["new"])
        # A batch that names one event twice has told it once, and once again.
        received.labels(source, "again").inc(max(facts["events"] - facts["new"], 0))

    def _webhook(self, facts: Mapping[str, Any]) -> None:
        self._answered("204")
        self._kept("webhook", facts)

    def _report(self, facts: Mapping[str, Any]) -> None:
        self._kept("mail", facts)

    def _refused(self, facts: Mapping[str, Any]) -> None:
        self._answered(str(facts["status"]))

    def _not_kept(self, _facts: Mapping[str, Any]) -> None:
        self._answered("503")

    def _settled(self, facts: Mapping[str, Any]) -> None:
        kind = facts.get("kind") or "none"
        assert facts["state"] in Fate.__members__.values(), facts
        assert kind == "none" or kind in Kind.__members__.values(), facts
        self.counters["outbox_events_settled_total"].labels(facts["state"], kind).inc()
