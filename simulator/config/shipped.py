"""The plans that come along (`simulator/plans`): their names, what each does in one sentence, and how one is found."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from simulator.config.files import load, parse_toml
from simulator.config.place import Place, PlanError, did_you_mean, shown

_SUFFIX = ".toml"


def shipped_plans() -> dict[str, str]:
    """Return every plan that comes along: its name and the sentence it begins with."""
    found: dict[str, str] = {}
    for file in resources.files("simulator.plans").iterdir():
        if file.name.endswith(_SUFFIX):
            first = file.read_text(encoding="utf-8").partition("\n")[0]
            found[file.name.removesuffix(_SUFFIX)] = first.removeprefix("#").strip()
    return dict(sorted(found.items()))


def load_shipped(name: str, place: Place) -> dict[str, Any]:
    """Return what is in a plan that comes along. Raise `PlanError`."""
    known = shipped_plans()
    if name not in known:
        raise place.wrong(f"there is no plan {shown(name)} that comes along; {did_you_mean(name, known)}")
    text = resources.files("simulator.plans").joinpath(name + _SUFFIX).read_text(encoding="utf-8")
    return parse_toml(text, name)


def load_named(name: str | Path) -> tuple[Mapping[str, Any], str]:
    """Return a plan by name or by path, and what it is called in errors. Raise `PlanError`."""
    given = str(name)
    path = Path(given)
    if given in shipped_plans():
        return load_shipped(given, Place(given)), given
    if path.suffix or path.name != given or path.exists():
        return load(path), given
    raise PlanError(
        f"there is no plan {shown(given)}, neither a file nor one that comes along;"
        f" {did_you_mean(given, shipped_plans())}"
    )
