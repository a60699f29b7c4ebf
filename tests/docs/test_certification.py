"""docs/certification.md says what is: promises, abilities, limits, placeholders, kinds of findings, options."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields

import pytest

from scenarios import checks, gate, hearing
from scenarios.certify import certify
from scenarios.promises import PROMISES
from scenarios.sender_file import _SHAPE, PLACEHOLDERS, Limits, Timing
from tests.house.places import ROOT

PAGE = (ROOT / "docs" / "certification.md").read_text(encoding="utf-8")
TABLES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_table_of_promises_is_the_one_of_the_code() -> None:
    """Every column, in the order of the table."""
    part = PAGE.split("## The promises\n")[1].split("\n## ")[0]
    written = re.findall(r"^\| `(.+?)` \| (\w+) \| (.+?) \| (.+?) \| (.+?) \| (.+) \|$", part, re.MULTILINE)
    assert written == [
        (
            each.name,
            each.level.value,
            ", ".join(each.profiles),
            ", ".join(each.presumes) or "–",
            each.requirement,
            each.source,
        )
        for each in PROMISES
    ]


def test_every_ability_is_explained_and_none_that_is_not_there() -> None:
    part = PAGE.split("### Abilities\n")[1].split("\n### ")[0]
    explained = set(re.findall(r"^\| `([\w-]+)` \|", part, re.MULTILINE))
    (others,) = re.findall(r"^(`.*?) may be declared, too; no promise presumes them yet", part, re.MULTILINE)
    named = set(re.findall(r"`([\w-]+)`", others))
    assert explained | named == set(_SHAPE["abilities"])
    presumed = {ability for each in PROMISES for ability in each.presumes}
    assert presumed <= explained
    assert not presumed & named


@pytest.mark.parametrize(("table", "kind"), [("limits", Limits), ("timing", Timing)])
def test_a_table_of_numbers_names_all_of_them(table: str, kind: type) -> None:
    shown: set[str] = set()
    for text in TABLES:
        if f"[{table}]" in text:
            shown |= set(tomllib.loads(text).get(table, {}))
    assert shown == {each.name for each in fields(kind)}


def test_every_placeholder_is_named() -> None:
    part = PAGE.split("**Placeholders**")[1].split("\n\n")[0]
    assert set(re.findall(r"`\{(\w+)\}`", part)) == set(PLACEHOLDERS)


def test_every_kind_of_finding_of_a_scenario_is_named() -> None:
    """Those that only the simulated world finds stand in docs/proof.md."""
    part = PAGE.split("Kinds of findings: ")[1].split("\n\n")[0]
    named = set(re.findall(r"`([a-z ]+)`", part))
    known = set(checks.KINDS) | set(gate.KINDS) | {"content changed", "did not stop"}
    assert named <= known | set(hearing.KINDS)
    assert set(gate.KINDS) | {"too fast", "pressed", "flooded", "late"} <= named


def test_every_option_of_the_examples_is_there() -> None:
    known = {option for parameter in certify.params for option in parameter.opts}
    examples = re.findall(r"^simulator certify(.*?)(?:#|$)", PAGE, re.MULTILINE)
    assert len(examples) >= 4
    assert {each for line in examples for each in re.findall(r"--[\w-]+", line)} <= known
