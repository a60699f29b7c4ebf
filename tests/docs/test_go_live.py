"""docs/go-live.md: every line of the checklist names what proves it, and that exists."""

from __future__ import annotations

import ast
import re

import pytest

from scenarios.promises import BY_NAME
from tests.house.places import ROOT

PAGE = (ROOT / "docs" / "go-live.md").read_text(encoding="utf-8")
LINES = [
    (line, proofs)
    for line, proofs in re.findall(r"^\| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
    if line not in ("before you go live",) and not set(line) <= {"-", "|"}
]
#: The checklist before going live has so many lines.
CHECKLIST = 12
_PROOF = re.compile(r"(promise|test) `([^`]+)`")


def exists(kind: str, name: str) -> bool:
    """Whether a promise or a test of this name is there."""
    if kind == "promise":
        return name in BY_NAME
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("line", "proofs"), LINES, ids=lambda text: text[:50])
def test_a_line_names_what_proves_it_and_that_is_there(line: str, proofs: str) -> None:
    named = _PROOF.findall(proofs)
    assert named, f"nothing proves: {line}"
    assert [name for kind, name in named if not exists(kind, name)] == []
    assert re.sub(r"[\s,]", "", _PROOF.sub("", proofs)) == "", "only names of proofs stand in this column"


def test_the_whole_checklist_is_there() -> None:
    part = PAGE.split("\n## ")[0]
    assert sum(line in part for line, _ in LINES) == CHECKLIST


def test_the_check_sees_a_proof_that_is_none() -> None:
    assert not exists("promise", "lost-answer.nothing")
    assert not exists("test", "tests/docs/test_go_live.py::test_nothing")
