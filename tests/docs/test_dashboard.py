"""reference_sender/dashboard.json is what Grafana documents for its classic JSON model, and asks for metrics that there are.

Grafana itself is not asked: whether it draws what it loads is not seen here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from reference_sender.intake_metrics import INTAKE_METRICS
from reference_sender.metrics import METRICS
from tests.docs.queries import PLACEHOLDER, families, kept, wrong
from tests.house.places import ROOT

FILE = ROOT / "reference_sender" / "dashboard.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
VARIABLES: list[dict[str, Any]] = DASHBOARD["templating"]["list"]
DRAWN = [panel for panel in PANELS if panel["type"] != "row"]

#: Every query goes to the Prometheus that a person chose above the panels.
_SOURCE = {"const": {"type": "prometheus", "uid": "${datasource}"}}
_TARGET = {
    "type": "object",
    "required": ["refId", "expr", "datasource"],
    "additionalProperties": False,
    "properties": {
        "refId": {"type": "string", "pattern": "^[A-Z]$"},
        "expr": {"type": "string"},
        "datasource": _SOURCE,
        "legendFormat": {"type": "string"},
        "instant": {"type": "boolean"},
        "format": {"enum": ["time_series", "table", "heatmap"]},
    },
}
_SPOT = {
    "type": "object",
    "required": ["x", "y", "w", "h"],
    "additionalProperties": False,
    "properties": {
        "x": {"type": "integer", "minimum": 0, "maximum": 23},
        "w": {"type": "integer", "minimum": 1, "maximum": 24},
        "y": {"type": "integer", "minimum": 0},
        "h": {"type": "integer", "minimum": 1},
    },
}
_STEPS = {
    "type": "array",
    "minItems": 1,
    # The first is the base, which has no value of its own.
    "prefixItems": [{"type": "object", "properties": {"value": {"type": "null"}}}],
    "items": {"type": "object", "properties": {"value": {"type": "number"}}},
}
_FIELDS = {
    "type": "object",
    "required": ["defaults", "overrides"],
    "properties": {
        "overrides": {"type": "array"},
        "defaults": {
            "type": "object",
            "properties": {
                "unit": {"enum": ["s", "short", "ops", "percentunit", "bytes"]},
                "thresholds": {
                    "type": "object",
                    "required": ["mode", "steps"],
                    "properties": {"mode": {"enum": ["absolute", "percentage"]}, "steps": _STEPS},
                },
            },
        },
    },
}
_PANEL = {
    "type": "object",
    "required": ["id", "type", "title", "gridPos"],
    "properties": {"id": {"type": "integer", "minimum": 1}, "gridPos": _SPOT},
    "if": {"properties": {"type": {"const": "row"}}},
    "then": {
        "required": ["collapsed", "panels"],
        # What lies in a row that is open stands beside it; only a closed one holds its panels.
        "properties": {"collapsed": {"const": False}, "panels": {"maxItems": 0}},
    },
    "else": {
        "required": ["targets", "fieldConfig", "options", "datasource", "description"],
        "properties": {
            "type": {"enum": ["timeseries", "stat", "heatmap"]},
            "datasource": _SOURCE,
            "fieldConfig": _FIELDS,
            "targets": {"type": "array", "minItems": 1, "items": _TARGET},
        },
    },
}
_VARIABLE = {
    "type": "object",
    "required": ["name", "label", "type", "query", "hide", "refresh", "current"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-zA-Z0-9_]+$"},
        "type": {"enum": ["datasource", "query"]},
        "hide": {"enum": [0, 1, 2]},
        "refresh": {"enum": [0, 1, 2]},
        "sort": {"type": "integer", "minimum": 0, "maximum": 8},
        "multi": {"type": "boolean"},
        "includeAll": {"type": "boolean"},
    },
}
_SPAN = {"type": "string", "pattern": "^now(-[1-9][0-9]*[smhdwMy])?$"}
_SCHEMA = {
    "type": "object",
    "required": ["id", "uid", "title", "schemaVersion", "panels", "templating", "time", "annotations"],
    "properties": {
        "id": {"type": "null"},  # given by Grafana; another number would overwrite somebody's dashboard
        "uid": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{8,40}$"},
        "title": {"type": "string", "minLength": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "timezone": {"enum": ["browser", "utc"]},
        "editable": {"type": "boolean"},
        "graphTooltip": {"enum": [0, 1, 2]},
        "refresh": {"type": "string", "pattern": "^[1-9][0-9]*[smhd]$"},
        # Older ones are brought up when they are loaded; with 36 names of data sources became objects, above 42 we know none.
        "schemaVersion": {"type": "integer", "minimum": 36, "maximum": 42},
        "version": {"type": "integer"},
        "time": {"type": "object", "required": ["from", "to"], "properties": {"from": _SPAN, "to": _SPAN}},
        "annotations": {"type": "object", "required": ["list"]},
        "templating": {
            "type": "object",
            "required": ["list"],
            "properties": {"list": {"type": "array", "items": _VARIABLE}},
        },
        "panels": {"type": "array", "items": _PANEL},
    },
}


def test_the_dashboard_is_one_that_grafana_loads() -> None:
    jsonschema_rs.validate(_SCHEMA, DASHBOARD)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("id",), 3),
        (("uid",), "short"),
        (("schemaVersion",), "39"),
        (("panels", 1, "datasource", "uid"), "P1809F7CD0C75ACF3"),
        (("panels", 1, "targets", 0, "datasource"), "Prometheus"),
        (("panels", 1, "targets", 0, "query"), "up"),
        (("panels", 1, "fieldConfig", "defaults", "unit"), "seconds"),
        (("panels", 1, "gridPos", "x"), 24),
        (("panels", 0, "collapsed"), True),
        (("templating", "list", 0, "name"), "data source"),
    ],
    ids=str,
)
def test_the_schema_sees_what_is_wrong(place: tuple[str | int, ...], value: object) -> None:
    told = json.loads(FILE.read_text(encoding="utf-8"))
    *way, last = place
    part = told
    for step in way:
        part = part[step]
    part[last] = value
    assert not jsonschema_rs.is_valid(_SCHEMA, told)


def test_every_id_and_every_letter_is_there_once() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(ids) == len(set(ids))
    for panel in DRAWN:
        letters = [target["refId"] for target in panel["targets"]]
        assert len(letters) == len(set(letters)), panel["title"]


def test_thresholds_rise() -> None:
    for panel in DRAWN:
        steps = panel["fieldConfig"]["defaults"].get("thresholds", {"steps": []})["steps"]
        values = [step["value"] for step in steps[1:]]
        assert values == sorted(set(values)), panel["title"]


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


def words(part: Any) -> Iterator[str]:
    """Every string in it."""
    match part:
        case str():
            yield part
        case list():
            for each in part:
                yield from words(each)
        case dict():
            for each in part.values():
                yield from words(each)


def test_every_variable_is_declared_before_it_is_used_and_used() -> None:
    """Grafana leaves the name of a variable that it does not know in the query, and the panel is empty."""
    used = {
        name
        for word in words(DASHBOARD)
        for name in re.findall(r"\$\{?(\w+)", word)
        if not name.startswith("__")
    }
    assert used == {each["name"] for each in VARIABLES}


def test_the_variables_are_a_prometheus_and_the_jobs_in_it() -> None:
    source, job = VARIABLES
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert (job["name"], job["type"], job["datasource"]) == ("job", "query", _SOURCE["const"])
    assert job["query"]["query"] == job["definition"]
    asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", job["definition"])
    assert asked is not None
    metric, label = asked.groups()
    assert label in families()[metric][1]


@pytest.mark.parametrize("panel", DRAWN, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_there_is(panel: dict[str, Any]) -> None:
    """Its queries can be read and name metrics and labels that there are; a line is called by a label that it has."""
    for target in panel["targets"]:
        assert list(wrong(target["expr"])) == []
        assert 'job=~"$job"' in target["expr"], "it asks the jobs that were chosen"
        named = set(PLACEHOLDER.findall(target.get("legendFormat", "")))
        assert named <= kept(target["expr"]), "of a label that is not there, its name would be drawn"
    assert panel["description"].endswith(".")


def test_every_metric_is_on_the_dashboard() -> None:
    asked = FILE.read_text(encoding="utf-8")
    missing = {row.name for row in (*METRICS, *INTAKE_METRICS) if row.name not in asked}
    assert missing == {"outbox_queues_unreadable"}, "it is an alarm, there is nothing to draw"
