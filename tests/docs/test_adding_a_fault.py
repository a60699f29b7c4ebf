"""docs/adding-a-fault.md does what it says: its faults are added to the table, planned, and met on both wires."""

from __future__ import annotations

import re
import smtplib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from simulator.config import PlanError, explain, read_plan
from simulator.provider.faults import table
from tests.simulator.running import running

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "adding-a-fault.md").read_text(encoding="utf-8")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The classes of the page, in the table of faults."""
    names: dict[str, Any] = {"__name__": __name__}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/adding-a-fault.md", "exec", dont_inherit=True), names)
    found = {each.name: each for each in (names["DoNothing"], names["Yawn"])}
    for name, fault in found.items():
        monkeypatch.setitem(table.FAULTS, name, fault)
    return found


def test_the_rule_of_the_page_can_be_planned_and_strikes_on_both_wires(faults: dict[str, Any]) -> None:
    plan = tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
    with running(plan) as simulator, simulator.control() as control:
        for number in range(3):
            with smtplib.SMTP(*simulator.smtp) as client:
                client.sendmail("s@example.org", [f"r{number}@example.com"], "Subject: hi\r\n\r\nhi\r\n")
        (rule,) = control.plan()["rules"]
        assert (rule["seen"], rule["fired"]) == (3, 2)
        assert len(control.messages()) == 3
        assert [len(each["rules"]) for each in control.attempts()] == [1, 1, 0]


def test_a_parameter_is_a_key_of_the_rule(faults: dict[str, Any]) -> None:
    setup = read_plan({"rule": [{"fault": "yawn", "delay_s": 0.5}, {"fault": "yawn"}]}, "the page")
    assert [rule.fault for rule in setup.plan.rules] == [faults["yawn"](delay_s=0.5), faults["yawn"]()]
    assert [
        seconds in explain(rule) for seconds, rule in zip(("0.5 s", "0.25 s"), setup.plan.rules, strict=True)
    ]


def test_a_stage_that_is_not_its_own_is_refused(faults: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="stage"):
        read_plan({"rule": [{"fault": "nothing", "stage": "quit"}]}, "the page")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:simulator|scenarios|tests)/[\w/.]+)`", PAGE))))
def test_every_place_it_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()
