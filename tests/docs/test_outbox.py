"""docs/outbox.md speaks of files, names and settings that are there."""

from __future__ import annotations

import ast
import re

import pytest

from reference_sender.option_table import OPTIONS
from tests.house.places import ROOT

PAGE = (ROOT / "docs" / "outbox.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "reference_sender"
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
WORDS = re.findall(r"`([^`\n]+)`", _CODE.sub("", PAGE))

FILES = sorted({word for word in WORDS if re.fullmatch(r"(?:\w+/)*\w+\.py", word)})
DOTTED = sorted({word for word in WORDS if re.fullmatch(r"[A-Z]\w*\.\w+", word)})
SETTINGS = sorted(set(re.findall(r"\b(?:OUTBOX|PROVIDER|SMTP)_[A-Z0-9_]+[A-Z0-9]\b", PAGE)))
COMMANDS = sorted(set(re.findall(r"`?reference-sender ([a-z]+)\b", PAGE)))


def trees() -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_there(name: str) -> None:
    """By its path, or by its name alone where the page has just named the folder."""
    assert (ROOT / name).is_file() or any(PACKAGE.rglob(name))


def test_a_method_is_there() -> None:
    """Also where a class has it from its parents: the name stands somewhere in the package."""
    classes, names = set(), set()
    for tree in trees():
        for node in ast.walk(tree):
            match node:
                case ast.ClassDef(name=name):
                    classes.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names.add(name)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    names.add(name)
                case ast.Assign(targets=[ast.Name(id=name)]):
                    names.add(name)
    assert [word for word in DOTTED if word.split(".")[0] not in classes] == []
    assert [word for word in DOTTED if word.split(".")[1] not in names] == []


def test_a_setting_is_one_that_something_reads() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    read = {option.envvar for option in OPTIONS}
    assert [name for name in SETTINGS if name not in read and f'"{name}"' not in source] == []


def test_a_command_is_there() -> None:
    from reference_sender.cli import cli

    with cli.make_context("reference-sender", ["init", "--help"], resilient_parsing=True) as context:
        there = set(cli.list_commands(context))
    assert set(COMMANDS) - there == set()


def test_there_is_something_to_check() -> None:
    assert len(FILES) > 10
    assert "Store.claim" in DOTTED
    assert "OUTBOX_LEASE_S" in SETTINGS
