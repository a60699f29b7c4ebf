"""docs/operating-the-sender.md, the alarms and the dashboard speak of the metrics that there are, and of each other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from reference_sender.metrics import METRICS, TROUBLE
from tests.house.places import ROOT
from tests.house.test_links import anchors

PAGE = ROOT / "docs" / "operating-the-sender.md"
ALERTS = ROOT / "reference_sender" / "alerts.yml"
TESTS_OF_ALERTS = str(Path(__file__).with_name("alarms.yml"))
DASHBOARD = ROOT / "reference_sender" / "dashboard.json"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
PANELS: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]

_LABELS = {row.name: set(row.labels) for row in METRICS}
#: A metric in a query, with the part in braces.
_USED = re.compile(r"\b((?:outbox|process)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|=|!=|!~)\s*"')


def families() -> set[str]:
    """Every name that a query may use."""
    names = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
    for row in METRICS:
        names.add(row.name)
        if row.kind == "histogram":
            names |= {f"{row.name}_bucket", f"{row.name}_sum", f"{row.name}_count"}
    return names


def wrong(query: str) -> Iterator[str]:
    """What a query asks for that is not there."""
    used = _USED.findall(query)
    if not used:
        yield "no metric at all"
    for name, matchers in used:
        if name not in families():
            yield name
            continue
        known = _LABELS.get(re.sub(r"_(bucket|sum|count)$", "", name), set()) | {"job", "instance", "le"}
        yield from (f"{name}{{{label}}}" for label in _MATCHER.findall(matchers or "") if label not in known)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alarm_asks_for_what_there_is_and_says_what_to_do(rule: dict[str, Any]) -> None:
    assert list(wrong(rule["expr"])) == []
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["reason"].endswith(".")
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (ROOT / page, True) == (PAGE, anchor in anchors(PAGE))


def test_every_alarm_is_explained_on_the_page_and_no_other() -> None:
    part = PAGE.read_text(encoding="utf-8").split("## When an alarm rings\n")[1]
    assert set(re.findall(r"`(Outbox\w+)`", part)) == {rule["alert"] for rule in RULES}


def test_what_an_alarm_names_as_trouble_is_trouble() -> None:
    named = set()
    for rule in RULES:
        for words in re.findall(r'event=~?"([^"]+)"', rule["expr"]):
            named |= set(words.split("|"))
    assert named == {*TROUBLE, "late"}, "each kind of trouble rings, and nothing else"


def test_the_check_of_queries_sees_what_is_wrong() -> None:
    assert list(wrong('sum(outbox_mail{state="dead"})')) == ["outbox_mail"]
    assert list(wrong('sum(outbox_mails{colour="dead"})')) == ["outbox_mails{colour}"]
    assert list(wrong("up == 0")) == ["no metric at all"]


#: What Prometheus wants of a file of alarms, as far as ours uses it.
_DURATION = {"type": "string", "pattern": "^[1-9][0-9]*(s|m|h|d)$"}
_RULE = {
    "type": "object",
    "required": ["alert", "expr", "labels", "annotations"],
    "additionalProperties": False,
    "properties": {
        "alert": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "expr": {"type": "string", "minLength": 1},
        "for": _DURATION,
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_GROUP = {
    "type": "object",
    "required": ["name", "rules"],
    "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "rules": {"type": "array", "items": _RULE, "minItems": 1}},
}
_FILE = {
    "type": "object",
    "required": ["groups"],
    "additionalProperties": False,
    "properties": {"groups": {"type": "array", "items": _GROUP, "minItems": 1}},
}
#: A value of a series over time: `5`, `5x120`, `0+30x120`, `_x10`.
_VALUES = re.compile(r"(?:_|-?\d+(?:\.\d+)?(?:[+-]\d+(?:\.\d+)?)?)(?:x\d+)?")
_SERIES = re.compile(r'(\w+)(?:\{((?:\w+="[^"]*",?)*)\})?')
_PAIRS = {")": "(", "]": "[", "}": "{"}


def open_ends(text: str) -> str:
    """What is opened in it and not closed, or closed and not opened; quoted words hold neither."""
    left: list[str] = []
    for sign in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
        if sign in '([{"' or (sign in _PAIRS and (not left or left[-1] != _PAIRS[sign])):
            left.append(sign)
        elif sign in _PAIRS:
            left.pop()
    return "".join(left)


def test_the_check_of_brackets_sees_what_is_wrong() -> None:
    told = {"a(b[c]{d})": "", "(": "(", "a)": ")", "([)]": "([)]", 'a{b="("}': ""}
    assert {text: open_ends(text) for text in told} == told


def test_the_file_of_alarms_has_the_form_that_prometheus_wants() -> None:
    told = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    jsonschema_rs.validate(_FILE, told)
    groups = [group["name"] for group in told["groups"]]
    alerts = [rule["alert"] for rule in RULES]
    assert (len(set(groups)), len(set(alerts))) == (len(groups), len(alerts)), "each name once"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_the_words_of_an_alarm_can_be_filled_in(rule: dict[str, Any]) -> None:
    """Brackets are closed, and a placeholder names the value, or a label that the query keeps."""
    assert open_ends(rule["expr"]) == ""
    kept = [set(re.split(r",\s*", each)) for each in re.findall(r"\bby \(([^)]+)\)", rule["expr"])]
    for words in rule["annotations"].values():
        assert open_ends(words) == ""
        for filled in re.findall(r"\{\{(.*?)\}\}", words):
            what, _, how = (part.strip() for part in filled.partition("|"))
            assert how in {"", "humanize", "humanizeDuration", "humanizePercentage"}
            label = what.removeprefix("$labels.")
            assert what == "$value" or (what != label and all(label in each for each in kept)), what


def test_every_alarm_is_rung_and_kept_quiet_by_series_that_there_are() -> None:
    """What promtool plays, as far as it can be read without it."""
    told = yaml.safe_load(Path(TESTS_OF_ALERTS).read_text(encoding="utf-8"))
    assert [(Path(TESTS_OF_ALERTS).parent / each).resolve() for each in told["rule_files"]] == [ALERTS]
    rung, quiet = set(), set()
    for test in told["tests"]:
        for series in test["input_series"]:
            found = _SERIES.fullmatch(series["series"])
            assert found is not None, series
            assert list(wrong(series["series"])) == []
            assert all(_VALUES.fullmatch(each) for each in series["values"].split()), series
        quiet |= {each["alertname"] for each in test.get("alert_rule_test", ())}
        assert not any(each.get("exp_alerts") for each in test.get("alert_rule_test", ()))
        for asked in test.get("promql_expr_test", ()):
            assert open_ends(asked["expr"]) == ""
            rung |= set(re.findall(r'alertname="(\w+)"', f"{asked['expr']} {asked['exp_samples']}"))
    alerts = {rule["alert"] for rule in RULES}
    assert (rung, quiet) == (alerts, alerts)


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is not installed, so it is not seen here that Prometheus reads the alarms and rings them when it "
    "should; their form, names, labels and words are checked by the tests beside this one",
)
def test_prometheus_reads_the_alarms_and_they_ring_when_they_should() -> None:
    for command in (["check", "rules", str(ALERTS)], ["test", "rules", TESTS_OF_ALERTS]):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_of_metrics_is_the_one_of_the_code() -> None:
    rows = re.findall(r"^\| `(outbox_\w+)` \| (\w+) \| (.+?) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [
        (row.name, row.kind, ", ".join(f"`{label}`" for label in row.labels) or "–", row.says)
        for row in METRICS
    ]


def test_the_queries_of_the_page_ask_for_what_there_is() -> None:
    queries = re.findall(r"^\| [^|]+ \| `(.+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    asked = [query for query in queries if "(" in query]
    assert len(asked) >= 5
    assert [problem for query in asked for problem in wrong(query)] == []


#: What Grafana wants of a dashboard in its classic JSON model, as far as ours uses it.
_TARGET = {
    "type": "object",
    "required": ["refId", "expr", "datasource"],
    "properties": {"refId": {"type": "string", "pattern": "^[A-Z]$"}, "expr": {"type": "string"}},
}
_SPOT = {
    "type": "object",
    "required": ["x", "y", "w", "h"],
    "properties": {
        "x": {"type": "integer", "minimum": 0, "maximum": 23},
        "w": {"type": "integer", "minimum": 1, "maximum": 24},
        "y": {"type": "integer", "minimum": 0},
        "h": {"type": "integer", "minimum": 1},
    },
}
_SCHEMA = {
    "type": "object",
    "required": ["title", "uid", "schemaVersion", "panels", "templating", "time", "annotations", "id"],
    "properties": {
        "id": {"type": "null"},  # given by Grafana; another number would overwrite somebody's dashboard
        "uid": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,40}$"},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "templating": {
            "type": "object",
            "properties": {
                "list": {
                    "type": "array",
                    "items": {"type": "object", "required": ["name", "type", "query"]},
                }
            },
        },
        "panels": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "type", "title", "gridPos"],
                "properties": {"gridPos": _SPOT},
                "if": {"properties": {"type": {"const": "row"}}},
                "then": {"required": ["collapsed", "panels"]},
                "else": {
                    "required": ["targets", "fieldConfig", "options", "datasource", "description"],
                    "properties": {
                        "type": {"enum": ["timeseries", "stat", "heatmap"]},
                        "targets": {"type": "array", "minItems": 1, "items": _TARGET},
                    },
                },
            },
        },
    },
}


def test_the_dashboard_is_one_that_grafana_loads() -> None:
    jsonschema_rs.validate(_SCHEMA, json.loads(DASHBOARD.read_text(encoding="utf-8")))
    ids = [panel["id"] for panel in PANELS]
    assert len(ids) == len(set(ids))


def test_no_panel_lies_on_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        spot = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(spot["x"], spot["x"] + spot["w"])
            for y in range(spot["y"], spot["y"] + spot["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("panel", [p for p in PANELS if p["type"] != "row"], ids=lambda p: p["title"])
def test_a_panel_asks_for_what_there_is(panel: dict[str, Any]) -> None:
    assert [problem for target in panel["targets"] for problem in wrong(target["expr"])] == []
    assert panel["description"].endswith(".")


def test_every_metric_is_on_the_dashboard() -> None:
    asked = DASHBOARD.read_text(encoding="utf-8")
    missing = {row.name for row in METRICS if row.name not in asked}
    assert missing == {"outbox_queues_unreadable"}, "it is an alarm, there is nothing to draw"
