"""Plans that come along are found by name, each says what it does, and a name that is none is helped."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.config import PlanError, explain, read_plan, read_plan_file, shipped_plans
from simulator.config.place import Place
from simulator.config.shipped import load_named, load_shipped

PROMISED = {
    "greylist",
    "outage-4-minutes",
    "flaky-1-percent",
    "lost-answers",
    "slow-then-dead",
    "throttled",
    "black-hole",
    "chaos",
}


def test_what_was_promised_comes_along_with_a_sentence_each() -> None:
    known = shipped_plans()

    assert set(known) >= PROMISED
    for says in known.values():
        assert len(says) > 20
        assert says.endswith(".")


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_each_of_them_does_something(name: str) -> None:
    setup = read_plan_file(name)

    assert setup.plan.rules or setup.throughput or setup.greylist
    assert all(explain(rule) for rule in setup.plan.rules)


def test_a_name_that_is_none_is_helped() -> None:
    with pytest.raises(PlanError, match='there is no plan "caos" that comes along; did you mean "chaos"'):
        load_shipped("caos", Place("p"))
    with pytest.raises(PlanError, match='neither a file nor one that comes along; did you mean "chaos"'):
        load_named("caos")
    with pytest.raises(PlanError, match="there is no such file"):
        load_named("./caos")


def test_a_file_is_read_by_its_path_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "chaos"
    path.write_text("seed = 77\n")

    assert load_named(path) == ({"seed": 77}, str(path))


def test_a_plan_may_take_along_others() -> None:
    """Its own rules come first, then theirs; what it says itself about anything else counts."""
    read = read_plan(
        {
            "plan": ["throttled", "greylist", "lost-answers"],
            "rules": ["hang"],
            "rule": [{"fault": "reset"}],
            "limits": {"burst": 3},
        },
        "p",
    )

    assert [rule.name for rule in read.plan.rules] == ["hang", "rule 2", "lose answers first 1 per mail"]
    assert read.greylist is not None
    assert (read.limits.burst, read.limits.rate_per_s) == (3, None)
    assert [limit.name for limit in read.limit] == ["domain"]
    assert read_plan({"plan": "chaos"}, "p") == read_plan_file("chaos")
