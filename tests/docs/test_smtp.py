"""docs/smtp.md documents every setting and every keyword of EHLO, and its examples are plans."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from simulator.config import read_plan
from simulator.provider.smtp import KEYWORDS, SmtpRules

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "smtp.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("setting", [field.name for field in dataclasses.fields(SmtpRules)])
def test_every_setting_is_in_the_example(setting: str) -> None:
    assert re.search(rf"^{setting} = ", PAGE, re.MULTILINE)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_every_keyword_has_its_row(keyword: str) -> None:
    assert f"| `{keyword}` |" in PAGE


def test_every_example_is_a_plan() -> None:
    examples = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

    assert examples
    for example in examples:
        read_plan(tomllib.loads(example), "docs/smtp.md")
