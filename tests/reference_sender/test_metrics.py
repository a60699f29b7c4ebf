"""Metrics: what the log says is counted once, queues are looked up now and then, and nothing is missing from the start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reference_sender.life import State
from reference_sender.metrics import CACHE_S, METRICS, TROUBLE, Metrics, Readings
from reference_sender.outbox.depths import Depth, EventDepth

DECIDED: dict[str, Any] = {
    "id": 1,
    "state": "accepted",
    "wire": "http",
    "phase": "answered",
    "code": 202,
    "seconds": 0.3,
    "waited_s": 4.0,
}


class Sender:
    """What metrics look up."""

    def __init__(self) -> None:
        self.queues: list[Depth] = []
        self.told = EventDepth(waiting=2, oldest_s=7.0, last_s=3.0)
        self.known = {"primary": ("closed", 0.0)}
        self.broken = False
        self.looks = 0
        self.now = 0.0

    def depths(self) -> Iterable[Depth]:
        self.looks += 1
        if self.broken:
            raise RuntimeError("the database is away")
        return self.queues

    def readings(self) -> Readings:
        return Readings(
            depths=self.depths,
            events=lambda: self.told,
            gates=lambda: self.known,
            in_flight=lambda: 3,
            concurrency=lambda: 8,
            seconds_since_look=lambda: 1.5,
            monotonic=lambda: self.now,
        )


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def metrics(sender: Sender) -> Metrics:
    return Metrics(sender.readings())


def values(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def depth(state: State, **more: Any) -> Depth:
    return replace(Depth(state=state, mail_class="code", count=2, due=2, oldest_s=9, overdue_s=0), **more)


def test_every_metric_of_the_table_is_there_and_no_other(metrics: Metrics, sender: Sender) -> None:
    sender.queues = [depth(State.PENDING)]
    metrics("decided", **DECIDED)
    metrics("reconciled", state="accepted")
    found = {
        family.name: (family.type, family.documentation)
        for family in text_string_to_metric_families(metrics.text().decode())
        if not family.name.startswith("process_") and not family.name.endswith("_created")
    }
    assert {row.name.removesuffix("_total"): (row.kind, row.says) for row in METRICS} == found


def test_nothing_that_an_alarm_looks_at_comes_from_nowhere(metrics: Metrics) -> None:
    now = values(metrics)
    assert now["outbox_decisions_total", "dead"] == now["outbox_trouble_total", "unexpected"] == 0
    assert now["outbox_trouble_total", "late"] == now["outbox_reconciled_total", "accepted"] == 0


def test_a_decision_is_counted_with_its_answer_and_its_time(metrics: Metrics) -> None:
    metrics("decided", **DECIDED)
    metrics("decided", **DECIDED | {"state": "pending", "code": 429, "seconds": 0.02})
    now = values(metrics)
    assert (now["outbox_decisions_total", "accepted"], now["outbox_decisions_total", "pending"]) == (1, 1)
    assert (now["outbox_answers_total", "202", "http"], now["outbox_answers_total", "429", "http"]) == (1, 1)
    assert now["outbox_attempt_seconds_count", "http"] == 2
    assert now["outbox_attempt_seconds_bucket", "0.025", "http"] == 1
    assert now["outbox_acceptance_seconds_sum",] == 4.0  # of the accepted one alone


def test_a_mail_that_was_not_tried_is_no_answer(metrics: Metrics) -> None:
    metrics("decided", id=1, state="expired", seconds=0.0, waited_s=1.0, phase=None)
    now = values(metrics)
    assert now["outbox_decisions_total", "expired"] == 1
    assert not [name for name in now if name[0].startswith(("outbox_answers", "outbox_attempt"))]


@pytest.mark.parametrize(
    ("code", "label"), [(None, "none"), (250, "250"), (7, "odd"), (1999, "odd"), ("x", "odd")]
)
def test_a_provider_cannot_invent_series_without_end(metrics: Metrics, code: object, label: str) -> None:
    metrics("decided", **DECIDED | {"code": code})
    assert values(metrics)["outbox_answers_total", label, "http"] == 1


def test_a_late_result_is_trouble_and_an_answer_but_no_decision(metrics: Metrics) -> None:
    metrics("late", **DECIDED)
    now = values(metrics)
    assert now["outbox_trouble_total", "late"] == now["outbox_answers_total", "202", "http"] == 1
    assert now["outbox_decisions_total", "accepted"] == 0


@pytest.mark.parametrize("event", TROUBLE)
def test_trouble_is_counted_by_its_name(metrics: Metrics, event: str) -> None:
    metrics(event, id=1, error="OSError")
    assert values(metrics)["outbox_trouble_total", event] == 1


def test_what_became_of_doubt_is_counted(metrics: Metrics) -> None:
    metrics("parked", id=1)
    metrics("reconciled", id=1, state="accepted")
    now = values(metrics)
    assert now["outbox_parked_total",] == now["outbox_reconciled_total", "accepted"] == 1


def test_an_event_that_nobody_counts_is_none(metrics: Metrics) -> None:
    before = values(metrics)
    metrics("draining", in_flight=1)
    assert {name for name, value in values(metrics).items() if before.get(name) != value} <= {
        name for name in before if name[0].startswith("process_")
    }


def test_queues_are_shown_by_state_and_class_and_stay_when_they_are_empty(
    metrics: Metrics, sender: Sender
) -> None:
    sender.queues = [depth(State.PENDING, overdue_s=4), depth(State.DEAD, mail_class="notice", count=1)]
    now = values(metrics)
    assert now["outbox_mails", "code", "pending"] == 2
    assert now["outbox_mails", "notice", "dead"] == 1
    assert now["outbox_oldest_age_seconds", "code", "pending"] == 9
    assert now["outbox_overdue_seconds", "code"] == 4
    sender.queues, sender.now = [], CACHE_S
    now = values(metrics)
    assert now["outbox_mails", "code", "pending"] == now["outbox_overdue_seconds", "code"] == 0


def test_where_a_breaker_stands_is_one_and_the_others_are_nought(metrics: Metrics, sender: Sender) -> None:
    sender.known = {"primary": ("open", 42.0), "other": ("closed", 0.0)}
    now = values(metrics)
    assert [now["outbox_breaker", position, "primary"] for position in ("closed", "open", "half-open")] == [
        0,
        1,
        0,
    ]
    assert (now["outbox_breaker", "closed", "other"], now["outbox_pause_seconds", "primary"]) == (1, 42)


def test_what_was_told_and_when_the_last_came(metrics: Metrics, sender: Sender) -> None:
    now = values(metrics)
    assert (
        now["outbox_events_waiting",],
        now["outbox_events_oldest_seconds",],
        now["outbox_seconds_since_event",],
    ) == (2, 7, 3)
    sender.told = EventDepth(waiting=0, oldest_s=0.0, last_s=None)
    sender.now = CACHE_S
    assert ("outbox_seconds_since_event",) not in values(metrics), "never is no number of seconds"


def test_a_look_serves_everybody_for_a_while(metrics: Metrics, sender: Sender) -> None:
    for _ in range(5):
        metrics.text()
    sender.now = CACHE_S - 0.1
    metrics.text()
    assert sender.looks == 1
    sender.now = CACHE_S
    metrics.text()
    assert sender.looks == 2


def test_a_database_that_is_away_takes_only_the_queues_with_it(metrics: Metrics, sender: Sender) -> None:
    metrics("decided", **DECIDED)
    sender.queues = [depth(State.PENDING)]
    assert values(metrics)["outbox_queues_unreadable",] == 0
    sender.broken, sender.now = True, CACHE_S
    now = values(metrics)
    assert now["outbox_queues_unreadable",] == now["outbox_decisions_total", "accepted"] == 1
    assert not [name for name in now if name[0] == "outbox_mails"]  # no old number that looks like a new one


def test_what_is_asked_for_is_of_this_moment(metrics: Metrics) -> None:
    now = values(metrics)
    assert (
        now["outbox_in_flight",],
        now["outbox_concurrency",],
        now["outbox_seconds_since_look",],
    ) == (3, 8, 1.5)
