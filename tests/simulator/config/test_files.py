"""What is in a file of a plan is what TOML or JSON says it is. Broken files: tests/simulator/config/test_plan.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.config.files import load, parse_toml
from simulator.config.place import PlanError


def test_the_name_says_what_it_is(tmp_path: Path) -> None:
    toml, json = tmp_path / "p.toml", tmp_path / "p.JSON"
    toml.write_text("seed = 1\n")
    json.write_text('{"seed": 2}')

    assert (load(toml), load(json)) == ({"seed": 1}, {"seed": 2})


def test_a_broken_text_is_named_with_its_line() -> None:
    with pytest.raises(PlanError, match="p, line 2: this is not valid TOML"):
        parse_toml("a = 1\nb =\n", "p")
