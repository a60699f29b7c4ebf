"""docs/plans.md documents every word of a line, every plan that comes along and every magic address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator.config import PlanError, read_plan, shipped_plans
from simulator.config.magic import MAGIC_KEYS
from simulator.config.modifiers import MODIFIERS
from simulator.config.whats import SPECIAL
from simulator.provider.magic import FORMS, TRICKS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "plans.md").read_text(encoding="utf-8")
LINES = PAGE.split("## Rules in one line")[1].split("\n## ")[0]


@pytest.mark.parametrize("word", sorted({*MODIFIERS, *SPECIAL}))
def test_every_word_of_a_line_is_documented(word: str) -> None:
    assert re.search(rf"`[^`]*\b{word.replace(' ', '[ -]')}\b", LINES), word


def test_every_plan_that_comes_along_is_documented_in_its_own_words() -> None:
    part = PAGE.split("## Plans that come along")[1].split("\n## ")[0]

    assert dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", part, re.MULTILINE)) == shipped_plans()


def test_what_the_page_says_of_a_line_that_is_wrong_is_what_is_said() -> None:
    with pytest.raises(PlanError) as caught:
        read_plan({"rules": ["503 frist 2"]}, "p")
    assert str(caught.value).removeprefix("p: rule 1: ") in PAGE


def test_every_magic_address_is_documented_in_its_own_words() -> None:
    part = PAGE.split("## Magic addresses")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `([a-z<>-]+)` \| (.+) \|$", part, re.MULTILINE))

    assert rows == {name: trick.says for name, trick in TRICKS.items()} | {
        written: says for _, written, says, _ in FORMS
    }
    for key in MAGIC_KEYS:
        assert f"\n{key} = " in part
