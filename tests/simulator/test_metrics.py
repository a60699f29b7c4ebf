"""What is counted, and that nothing of it grows without bounds or names anybody."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from simulator import metrics as module
from simulator.metrics import METRICS, OTHERS, Metrics, Readings
from simulator.provider.ledger import Attempt, AttemptState, Decided, Decision, Sent, Tried
from tests.simulator.store.records import booked

DOCS = Path(__file__).parents[2] / "docs" / "operating.md"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
COUNTED = {
    "simulator_attempts_total",
    "simulator_attempt_seconds",
    "simulator_mails_accepted_total",
    "simulator_recipients_accepted_total",
    "simulator_accepted_bytes_total",
    "simulator_faults_total",
    "simulator_info",
}
READINGS: Readings = {
    row.name: lambda row=row: {tuple("x" for _ in row.labels): 2.0}  # type: ignore[misc] # the loop's row
    for row in METRICS
    if row.name not in COUNTED
}


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def attempt(**changes: object) -> Attempt:
    facts = {
        "id": "att_1",
        "number": 1,
        "account": "a",
        "dialect": "smtp",
        "connection": "c1",
        "peer": "127.0.0.1:1",
        "opened_at": NOW,
        "state": AttemptState.CLOSED,
        "sent": Sent.COMPLETE,
        "closed_at": NOW + timedelta(seconds=0.02),
    }
    return Attempt(**facts | changes)  # type: ignore[arg-type] # facts of an attempt


def test_attempts_count_when_they_end_by_outcome_and_by_what_went_out() -> None:
    """Accepted with the answer lost is a pair of labels, not a special case."""
    metrics = Metrics(READINGS)
    metrics.observe([Tried(attempt=attempt(state=AttemptState.OPEN, closed_at=None))])
    metrics.observe([Tried(attempt=attempt(accepted=("a@x",), sent=Sent.NOTHING)), Tried(attempt=attempt())])

    found = samples(metrics)
    assert found["simulator_attempts_total", ("smtp", "accepted", "nothing")] == 1
    assert found["simulator_attempts_total", ("smtp", "refused", "complete")] == 1
    assert found["simulator_attempt_seconds_count", ("smtp",)] == 2
    assert found["simulator_attempt_seconds_bucket", ("smtp", "0.01")] == 0
    assert found["simulator_attempt_seconds_bucket", ("smtp", "0.025")] == 2
    assert found["simulator_attempt_seconds_bucket", ("smtp", "+Inf")] == 2
    assert round(found["simulator_attempt_seconds_sum", ("smtp",)], 6) == 0.04


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    """The provider's clock is a machine's clock."""
    metrics = Metrics(READINGS)
    metrics.observe([Tried(attempt=attempt(closed_at=NOW - timedelta(hours=1)))])

    assert samples(metrics)["simulator_attempt_seconds_sum", ("smtp",)] == 0


def test_accepted_mail_counts_with_recipients_and_bytes() -> None:
    """Once each."""
    metrics = Metrics(READINGS)
    metrics.observe([booked(1), booked(2)])

    found = samples(metrics)
    assert found["simulator_mails_accepted_total", ("native",)] == 2
    assert found["simulator_recipients_accepted_total", ("native",)] == 4
    assert found["simulator_accepted_bytes_total", ("native",)] == 2 * booked().acceptance.size_bytes


def test_rules_count_by_name_but_not_without_end() -> None:
    """A run that names a rule per mail must not make a series per mail."""
    metrics = Metrics(READINGS)
    decision = Decision(number=1, account="a", attempt="att_1", stage="rcpt", rules=(), answer="450", at=NOW)
    metrics.observe(
        [
            Decided(decision=dataclasses.replace(decision, rules=(f"rule {number}", "rule 0")))
            for number in range(module.MAX_RULES + 5)
        ]
    )

    found = samples(metrics)
    assert found["simulator_faults_total", ("rule 0", "rcpt")] == module.MAX_RULES + 6
    assert found["simulator_faults_total", (OTHERS, "rcpt")] == 5


def test_what_is_looked_up_is_looked_up_when_asked() -> None:
    """Gauges are not kept in two places."""
    held = 0
    metrics = Metrics({**READINGS, "simulator_held_answers": lambda: {(): held}})
    held = 3

    assert samples(metrics)["simulator_held_answers", ()] == 3


def test_a_rule_may_be_called_anything() -> None:
    """Quotes, line breaks and backslashes in a name do not break the format."""
    metrics = Metrics(READINGS)
    name = 'a "b"\\\n# c'
    decision = Decision(number=1, account="a", attempt="x", stage="s", rules=(name,), answer="450", at=NOW)
    metrics.observe([Decided(decision=decision)])

    assert samples(metrics)["simulator_faults_total", (name, "s")] == 1


def documented() -> list[tuple[str, ...]]:
    row = r"^\| `(simulator_\w+)` \| (\w+) \| (.*?) \| (.*) \|$"
    return re.findall(row, DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_page_lists_every_metric() -> None:
    """Name, kind, labels and meaning, word for word."""
    expected = [
        (row.name, row.kind, ", ".join(f"`{label}`" for label in row.labels) or "–", row.says)
        for row in METRICS
    ]

    assert documented() == expected
    assert {row.name for row in METRICS} == COUNTED | set(READINGS)
