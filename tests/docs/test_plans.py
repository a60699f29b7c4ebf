"""docs/plans.md documents every word of a line and every plan that comes along."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator.config import PlanError, read_plan, shipped_plans
from simulator.config.lines import _MODIFIERS, _SPECIAL

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "plans.md").read_text(encoding="utf-8")
LINES = PAGE.split("## Rules in one line")[1].split("\n## ")[0]


@pytest.mark.parametrize("word", sorted({*_MODIFIERS, *_SPECIAL}))
def test_every_word_of_a_line_is_documented(word: str) -> None:
    assert re.search(rf"`[^`]*\b{word.replace(' ', '[ -]')}\b", LINES), word


def test_every_plan_that_comes_along_is_documented_in_its_own_words() -> None:
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", PAGE, re.MULTILINE))

    assert {name: says for name, says in rows.items() if name in shipped_plans()} == shipped_plans()


def test_what_the_page_says_of_a_line_that_is_wrong_is_what_is_said() -> None:
    with pytest.raises(PlanError) as caught:
        read_plan({"rules": ["503 frist 2"]}, "p")
    assert str(caught.value).removeprefix("p: rule 1: ") in PAGE
