"""Tests of the profiles: each is something the simulator and the sender take."""

from __future__ import annotations

import pytest

from reference_sender import wiring
from scenarios.model import VARIANTS
from scenarios.simulation.profiles import BATCHED, BY_ID, HEARING, LIMITED, PROFILES, TIMES, Profile
from simulator.config import read_plan


@pytest.mark.parametrize("profile", BY_ID.values(), ids=lambda profile: profile.id)
def test_the_simulator_takes_the_profile(profile: Profile) -> None:
    """Its keys are keys of a plan."""
    assert read_plan(dict(profile.provider), "test").plan.rules == ()


@pytest.mark.parametrize("profile", BY_ID.values(), ids=lambda profile: profile.id)
def test_the_sender_takes_the_profile(profile: Profile) -> None:
    """Its options pass the checks of the sender, above all: an attempt ends before its lease does."""
    options = wiring.options_from(
        {"transport": profile.wire, "provider_url": "http://provider", **TIMES, **profile.sender}
    )

    assert options.settings.total_timeout_s < options.settings.lease_s


@pytest.mark.parametrize("profile", BY_ID.values(), ids=lambda profile: profile.id)
def test_each_profile_has_its_variant_in_the_model(profile: Profile) -> None:
    """The same design is judged with and without its code."""
    assert profile.variant in {variant.id for variant in VARIANTS}


def test_ids_are_unique() -> None:
    """An id names one profile."""
    assert len(BY_ID) == len(PROFILES) + len(LIMITED) + len(BATCHED) + len(HEARING)
