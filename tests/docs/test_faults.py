"""docs/faults.md documents every fault, spelling, stage, key and parameter, and no fault that is none."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from simulator.config import PARAMETERS, PLAN_KEYS, RULE_KEYS, STAGES
from simulator.config.limits import LIMIT_KEYS
from simulator.provider.api import ApiRules
from simulator.provider.batch import BatchRules
from simulator.provider.dress import Chunks, Flaw, Listing, Shape
from simulator.provider.faults import FAULTS, SPELLINGS
from simulator.provider.greylist import Greylist
from simulator.provider.idempotency import WAYS, Does, KeyRules
from simulator.provider.limits import Limits

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, str]:
    """Return the table rows under a heading, by the name in their first cell."""
    part = PAGE.split(f"# {heading}\n")[1].split("\n#")[0]
    return {
        found[1]: line
        for line in part.splitlines()
        if (found := re.match(r"\| `([a-z0-9_]+)` \|", line)) is not None
    }


SECTIONS = [rows(heading) for heading in ("Faults", "On SMTP only", "Under TLS", "On the way to a webhook")]
FAULT_ROWS = {name: row for section in SECTIONS for name, row in section.items()}


def test_every_fault_has_its_row_and_no_other() -> None:
    assert set(FAULT_ROWS) == {*FAULTS, *SPELLINGS}
    assert len(FAULT_ROWS) == sum(map(len, SECTIONS))


@pytest.mark.parametrize("name", FAULTS)
def test_a_faults_row_names_its_parameters(name: str) -> None:
    parameters = [field.name for field in dataclasses.fields(FAULTS[name])]

    assert [each for each in parameters if f"`{each}`" not in FAULT_ROWS[name]] == []


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_has_its_form(name: str) -> None:
    assert name in rows("Parameters")


@pytest.mark.parametrize("wire", STAGES)
def test_every_stage_is_explained_in_order(wire: str) -> None:
    table = PAGE.split(f"| {wire.upper()} stage | when |")[1].split("\n\n")[0]

    assert tuple(re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE)) == STAGES[wire]


@pytest.mark.parametrize("key", [*RULE_KEYS, *PLAN_KEYS])
def test_every_key_of_a_plan_is_documented(key: str) -> None:
    assert re.search(rf"`{key}`|^\[+{key}\]+$|(^|`){key} =", PAGE, re.MULTILINE), key


def test_every_key_of_a_limit_has_its_row() -> None:
    part = PAGE.split("| key of `[[limit]]` | meaning |")[1].split("\n\n")[0]
    keys = [
        key
        for row in re.findall(r"^\| (`[^|]+`) \|", part, re.MULTILINE)
        for key in re.findall(r"`(\w+)`", row)
    ]

    assert sorted(keys) == sorted(LIMIT_KEYS)


@pytest.mark.parametrize(
    "key",
    [
        field.name
        for kind in (KeyRules, Limits, ApiRules, BatchRules, Greylist)
        for field in dataclasses.fields(kind)
    ],
)
def test_every_setting_of_keys_and_limits_is_documented(key: str) -> None:
    assert re.search(rf"^{key} = |^\[http\.{key}\]", PAGE, re.MULTILINE), key


def test_every_way_of_keys_is_documented() -> None:
    """The table of what a second request meets has exactly the cells of the code's, with their statuses."""
    told: dict[str, dict[str, str]] = {}
    situation = ""
    for line in PAGE.split("| setting | situation |")[1].split("\n\n")[0].splitlines()[2:]:
        setting, _, value, sees = (cell.strip() for cell in line.strip("|").split("|"))
        situation = setting.strip("`") or situation
        told.setdefault(situation, {})[value.strip("`")] = sees

    assert {situation: set(row) for situation, row in told.items()} == {
        situation: set(row) for situation, row in WAYS.items()
    }
    for situation, row in WAYS.items():
        for value, way in row.items():
            assert way.code is None or str(way.code) in told[situation][value]
            assert way.reason is None or way.does is Does.WAIT or way.reason.value in told[situation][value]


def test_every_odd_body_is_explained() -> None:
    table = PAGE.split("| shape | the body is |")[1].split("\n\n")[0]
    named = [
        name
        for row in re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    ]

    assert sorted(named) == sorted(Shape)


@pytest.mark.parametrize(("kind", "name"), [(Flaw, "flaw"), (Chunks, "chunks"), (Listing, "listing")])
def test_every_form_is_named(kind: type[Flaw | Chunks | Listing], name: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))

    assert re.findall(r"`(\w+)`", row)[1:] == [str(each) for each in kind]
