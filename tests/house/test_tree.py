"""The tree: its top level is fixed, tests mirror it, and the project speaks of itself only."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.house.places import ROOT, modules

TOP_LEVEL = {
    "pyproject.toml",
    "simulator",
    "reference_sender",
    "scenarios",
    "tests",
    "locustfiles",
    "README.md",
    "docs",
    "LICENSE",
    "CHANGELOG.md",
}

#: Modules that are tests, or that only say what a package is.
NOT_MIRRORED = ("__init__.py", "conftest.py")


def tracked() -> list[Path]:
    """Return the files git tracks, relative to the root; outside a checkout there is nothing to say."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout: there is no list of the project's files")
    return [Path(name) for name in done.stdout.split("\0") if name]


def test_the_top_level_holds_nothing_else() -> None:
    """What does not fit in a room of the house does not belong in it."""
    tops = {path.parts[0] for path in tracked()}

    assert {top for top in tops if not top.startswith(".")} - TOP_LEVEL == set()


@pytest.mark.parametrize(
    "module",
    [
        path
        for path in modules()
        if path.name not in NOT_MIRRORED
        and not path.name.startswith("test_")
        # Each of these is run against the whole suite by tests/scenarios/senders/test_known_bad.py.
        and "known_bad" not in path.parts
    ],
    ids=str,
)
def test_every_module_has_its_test_file(module: Path) -> None:
    """`a/b/c.py` is tested by `tests/a/b/test_c.py`, so that a stranger finds the test from the name."""
    name = "test_main.py" if module.name == "__main__.py" else f"test_{module.name}"

    assert (ROOT / "tests" / module.parent / name).is_file()


@pytest.mark.parametrize("module", list(modules()), ids=str)
def test_every_module_says_what_lives_in_it(module: Path) -> None:
    """The first thing a reader meets is a docstring."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))

    assert ast.get_docstring(tree), f"{module} begins without saying what it is"


def test_no_word_of_any_workplace() -> None:
    """No path of a machine, no host of a package index: the project stands on its own."""
    forbidden = re.compile(
        "|".join(
            (
                "/wo" + r"rk/(main|shared)",
                "/ro" + "ot/",
                "py" + r"pi\.org",
                "python" + r"hosted",
                r"\.\./sha" + "red",
            )
        )
    )
    found = []
    for path in tracked():
        file = ROOT / path
        if file.is_file():
            text = file.read_bytes().decode("utf-8", "replace")
            found += [f"{path}: {match.group()}" for match in forbidden.finditer(text)]

    assert found == []


def test_constraints_are_names_and_versions_only() -> None:
    """A pinned file that names a download host would tie every user to it."""
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()

    wrong = [
        line
        for line in lines
        if line and not line.startswith("#") and not re.fullmatch(r"[A-Za-z0-9_.\-]+==[A-Za-z0-9_.+!]+", line)
    ]
    assert wrong == []
