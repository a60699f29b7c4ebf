"""Storms are plans: each is something the simulator takes, and several are one plan."""

from __future__ import annotations

import pytest

from scenarios.simulation.profiles import BY_ID, HEARING
from scenarios.simulation.storms import BY_NAME, FATES, STORMS, Storm, plan_of, webhooks_of
from simulator.config import read_plan, warnings


@pytest.mark.parametrize("profile", [profile.id for profile in HEARING])
@pytest.mark.parametrize("storm", STORMS, ids=lambda storm: storm.name)
def test_a_storm_is_a_plan(storm: Storm, profile: str) -> None:
    """Without a warning, on both wires; with a rule for each fate and the storm's own, each by its name."""
    plan = plan_of(BY_ID[profile], (storm.name,))
    assert warnings(read_plan(plan, "test")) == []
    own = [rule["name"] for rule in plan["rule"][len(FATES) :]]
    assert own == [f"{number}: {storm.name}" for number in range(1, len(storm.rules) + 1)]


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(STORMS)


def test_of_two_storms_the_later_one_has_the_last_word_on_settings() -> None:
    batched, plain = BY_NAME["in batches"], BY_NAME["twice"]
    assert webhooks_of(plain, batched)["batch"] == webhooks_of(batched, plain)["batch"] == 10
    assert "batch" not in webhooks_of(plain)
    both = plan_of(HEARING[0], ("twice", "in batches", "late"))
    assert [rule["fault"] for rule in both["rule"]][-2:] == ["webhook_duplicate", "webhook_late"]
