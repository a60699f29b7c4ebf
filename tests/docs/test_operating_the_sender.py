"""docs/operating-the-sender.md and the alarms speak of the metrics that there are, and of each other."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from sqlalchemy import insert, text

from reference_sender.intake_metrics import INTAKE_METRICS
from reference_sender.metrics import METRICS, TROUBLE
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import outbox_gate
from reference_sender.outbox.store import Store
from reference_sender.policy.gate import Gate, GateRules
from tests.docs.queries import kept, parsed, unknown, wrong
from tests.house.places import ROOT
from tests.house.test_links import anchors
from tests.reference_sender.samples import NOW

PAGE = ROOT / "docs" / "operating-the-sender.md"
ALERTS = ROOT / "reference_sender" / "alerts.yml"
TESTS_OF_ALERTS = str(Path(__file__).with_name("alarms.yml"))
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]


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


def test_a_pause_that_was_a_mistake_ends_by_the_statement_of_the_page(tmp_path: Path) -> None:
    (statement,) = re.findall(r"```sql\n(UPDATE outbox_gate .*)\n```", PAGE.read_text(encoding="utf-8"))
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    counts = dict.fromkeys(("in_a_row", "good", "bad", "trips", "probes", "passed", "throttles"), 0)
    with store.engine.begin() as connection:
        connection.execute(
            insert(outbox_gate).values(
                provider="main",
                position="closed",
                paused_until=NOW + timedelta(days=1),
                updated_at=NOW,
                **counts,
            )
        )
    gate = Gate(GateRules())
    assert not gate.lets_in(store.gates()["main"], NOW)
    with store.engine.begin() as connection:
        connection.execute(text(statement))
    assert gate.lets_in(store.gates()["main"], NOW)
    store.engine.dispose()


def test_what_an_alarm_names_as_trouble_is_trouble() -> None:
    named = set()
    for rule in RULES:
        for words in re.findall(r'event=~?"([^"]+)"', rule["expr"]):
            named |= set(words.split("|"))
    assert named == {*TROUBLE, "late"}, "each kind of trouble rings, and nothing else"


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
    """Brackets are closed, and a placeholder names the value, or a label that the answer has."""
    for words in rule["annotations"].values():
        assert open_ends(words) == ""
        for filled in re.findall(r"\{\{(.*?)\}\}", words):
            what, _, how = (part.strip() for part in filled.partition("|"))
            assert how in {"", "humanize", "humanizeDuration", "humanizePercentage"}
            label = what.removeprefix("$labels.")
            assert what == "$value" or (what != label and label in kept(rule["expr"])), what


def test_every_alarm_is_rung_and_kept_quiet_by_series_that_there_are() -> None:
    """What promtool plays, as far as it can be read without it."""
    told = yaml.safe_load(Path(TESTS_OF_ALERTS).read_text(encoding="utf-8"))
    assert [(Path(TESTS_OF_ALERTS).parent / each).resolve() for each in told["rule_files"]] == [ALERTS]
    rung, quiet = set(), set()
    for test in told["tests"]:
        for series in test["input_series"]:
            found = _SERIES.fullmatch(series["series"])
            assert found is not None, series
            assert list(unknown(series["series"])) == []
            assert all(_VALUES.fullmatch(each) for each in series["values"].split()), series
        quiet |= {each["alertname"] for each in test.get("alert_rule_test", ())}
        assert not any(each.get("exp_alerts") for each in test.get("alert_rule_test", ()))
        for asked in test.get("promql_expr_test", ()):
            parsed(asked["expr"])  # or the parser says what is wrong
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
        for row in (*METRICS, *INTAKE_METRICS)
    ]


def test_the_queries_of_the_page_ask_for_what_there_is() -> None:
    queries = re.findall(r"^\| [^|]+ \| `(.+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    asked = [query for query in queries if "(" in query]
    assert len(asked) >= 5
    assert [problem for query in asked for problem in wrong(query)] == []
