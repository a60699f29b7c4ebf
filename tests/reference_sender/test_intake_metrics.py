"""Metrics of the intake: what doors and processor say is counted once, and nothing is missing from the start."""

from __future__ import annotations

import ast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reference_sender.intake_metrics import ANSWERS, INTAKE_METRICS, INTAKE_TROUBLE, IntakeMetrics
from tests.house.places import ROOT


def values(metrics: IntakeMetrics) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


@pytest.fixture
def metrics() -> IntakeMetrics:
    return IntakeMetrics(lambda: 1.5)


def test_what_an_alarm_looks_at_is_there_before_anything_happens(metrics: IntakeMetrics) -> None:
    now = values(metrics)
    assert {now["outbox_webhook_requests_total", each] for each in ANSWERS} == {0}
    assert {now["outbox_intake_trouble_total", each] for each in INTAKE_TROUBLE} == {0}
    assert now["outbox_events_received_total", "webhook", "new"] == 0
    assert now["outbox_seconds_since_event_look",] == 1.5


def test_requests_and_events_are_counted(metrics: IntakeMetrics) -> None:
    metrics("webhook", request_id="r", events=3, new=2)
    metrics("webhook_refused", status=401, reason="no signature")
    metrics("webhook_not_kept", error="OperationalError", cause="away")
    metrics("report", events=1, new=1)
    metrics("event", event_id="e", state="applied", kind="delivered")
    metrics("event", event_id="e", state="parked", kind=None)
    metrics("something_else", state=7)
    now = values(metrics)
    assert {each: now["outbox_webhook_requests_total", each] for each in ("204", "401", "503", "413")} == {
        "204": 1,
        "401": 1,
        "503": 1,
        "413": 0,
    }
    assert now["outbox_events_received_total", "webhook", "new"] == 2
    assert now["outbox_events_received_total", "webhook", "again"] == 1
    assert now["outbox_events_received_total", "mail", "new"] == 1
    assert now["outbox_events_settled_total", "delivered", "applied"] == 1
    assert now["outbox_events_settled_total", "none", "parked"] == 1
    assert now["outbox_intake_trouble_total", "webhook_not_kept"] == 1


def said_in(*files: str) -> set[str]:
    """The names of all lines that these modules log."""
    found = set()
    for file in files:
        for node in ast.walk(ast.parse((ROOT / "reference_sender" / file).read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "_log"
            ):
                found.add(str(ast.literal_eval(node.args[0])))
    return found


def test_every_line_of_the_intake_is_counted() -> None:
    """One that is new must be put somewhere, or it is wished for in the middle of an incident."""
    said = said_in("doors/http.py", "doors/maildir.py", "doors/reports.py", "webhooks.py")
    assert said == {*INTAKE_TROUBLE, "webhook", "webhook_refused", "report", "event"}


def statuses_of_the_door() -> set[str]:
    """What it says by `_refuse(401, …)` and `Response(status=204)`."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / "reference_sender" / "doors" / "http.py").read_text("utf-8"))):
        if isinstance(node, ast.Call):
            named = [each.value for each in node.keywords if each.arg == "status"]
            said = [*named, *node.args[:1]]
            found |= {
                str(each.value)
                for each in said
                if isinstance(each, ast.Constant) and isinstance(each.value, int)
            }
    return found


def test_every_answer_of_the_door_is_counted_from_the_start() -> None:
    assert set(ANSWERS) == statuses_of_the_door()


def test_each_is_described_once() -> None:
    assert len({row.name for row in INTAKE_METRICS}) == len(INTAKE_METRICS)
    assert all(row.says.endswith(".") for row in INTAKE_METRICS)
