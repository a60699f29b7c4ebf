"""Tests of the suppression list."""

from __future__ import annotations

from simulator.provider.suppression import Suppression, Suppressions, suppression_from
from tests.simulator.provider.mails import BOB, NOW, after


def entry(address: str = BOB, reason: str = "hard_bounce", since_s: float = 0) -> Suppression:
    return Suppression(address=address, reason=reason, since=after(since_s))


def test_an_address_is_suppressed_from_its_moment_on_whatever_its_case() -> None:
    suppressions = Suppressions()
    assert suppressions.add(entry(since_s=5))

    assert suppressions.reason(BOB, after(4)) is None
    assert suppressions.reason(BOB.upper(), after(5)) == "hard_bounce"
    assert suppressions.reason("somebody@example.org", after(5)) is None
    assert list(suppressions.at(after(4))) == []
    assert list(suppressions.at(after(5))) == [entry(since_s=5)]


def test_the_earliest_entry_counts() -> None:
    """A later reason does not give the address a pause."""
    suppressions = Suppressions()

    assert suppressions.add(entry(since_s=5))
    assert not suppressions.add(entry(reason="complaint", since_s=6))
    assert suppressions.add(entry(reason="complaint", since_s=1))
    assert suppressions.reason(BOB, after(2)) == "complaint"


def test_an_address_can_be_taken_off() -> None:
    suppressions = Suppressions()
    suppressions.add(entry())

    assert suppressions.lift(BOB.upper())
    assert not suppressions.lift(BOB)
    assert suppressions.reason(BOB, NOW) is None


def test_an_entry_can_be_written_and_read() -> None:
    assert suppression_from(BOB, entry(since_s=1.5).facts()) == entry(since_s=1.5)
