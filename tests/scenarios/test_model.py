"""Tests of the model: every variant is guilty of exactly what it must be guilty of."""

from __future__ import annotations

import dataclasses

import pytest

from scenarios.model import VARIANTS, Budget, Policy, Variant, Violation, search


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.id)
def test_a_variant_violates_exactly_what_it_must(variant: Variant) -> None:
    """A good design has no counterexample; a bad one must have its own, or the search sees nothing."""
    assert variant.may_violate == search(variant).violations


def test_a_counterexample_is_a_shortest_one() -> None:
    """Over SMTP with resending, a slow worker and an expired lease are enough: no crash is needed."""
    variant = next(each for each in VARIANTS if each.id == "no-keys-at-least-once")

    path = search(variant).found[Violation.DUPLICATED]

    assert len(path) <= 6
    assert not any("kill" in step for step in path)


def test_the_marker_halves_nothing_but_what_needs_a_person() -> None:
    """With the marker a row is parked only behind the point of no return; without it at every lost lease."""
    parked = {
        policy: search(Variant(id="x", policy=policy, keys=False), Budget(faults=0, crashes=1)).found
        for policy in (Policy.PARK, Policy.MARK)
    }

    assert "commits the doubt marker" in " ".join(parked[Policy.MARK][Violation.PARKED])
    assert "begins to send" not in " ".join(parked[Policy.PARK][Violation.PARKED])


def test_without_faults_and_crashes_a_lease_that_holds_sends_once() -> None:
    """The calm world has nothing to find: one worker, no trouble, one acceptance."""
    for variant in VARIANTS:
        calm = search(dataclasses.replace(variant, patient=True), Budget(crashes=0, faults=0, workers=1))
        assert calm.violations == frozenset(), variant.id


def test_ids_are_unique() -> None:
    """An id binds the variant to the same scenario in the world and as a black box."""
    assert len({variant.id for variant in VARIANTS}) == len(VARIANTS)
