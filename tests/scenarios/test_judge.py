"""The judge is judged by the thousand: no false alarm on good histories, no corruption that it does not see."""

from __future__ import annotations

import random
from itertools import count

import pytest

from scenarios import checks
from scenarios.checks import Policy
from scenarios.history import History
from simulator.provider.obligations import Reported
from tests.scenarios.histories import CORRUPTIONS, good_history

SHARES = 4
#: How many histories: in each run of the tests, and where a run may be long.
GOOD = [2_000, pytest.param(10_000, marks=pytest.mark.long)]
SPOILED = [200, pytest.param(1_000, marks=pytest.mark.long)]


@pytest.mark.parametrize("number", GOOD)
@pytest.mark.parametrize("share", range(SHARES))
def test_a_good_history_is_not_accused(share: int, number: int) -> None:
    """Thousands of them, and not one finding."""
    accused = {
        seed: [finding.sentence for finding in found]
        for seed in range(share, number, SHARES)
        if (found := checks.thoroughly(*good_history(seed)))
    }

    assert accused == {}


@pytest.mark.parametrize("number", SPOILED)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_spoiled_history_is_seen_as_what_it_is(name: str, number: int) -> None:
    """Hundreds of histories with this one thing wrong: each is accused of it, and nobody else in it of anything."""
    spoil, kind = CORRUPTIONS[name]
    seen = 0
    for seed in count():
        history, policy = good_history(seed)
        spoiled = spoil(random.Random(seed), history, policy)
        if spoiled is None:
            continue
        found = checks.thoroughly(spoiled.history, policy)
        assert (kind, spoiled.recipient.lower()) in {(each.kind, each.recipient.lower()) for each in found}, (
            seed
        )
        assert {each.recipient.lower() for each in found} == {spoiled.recipient.lower()}, seed
        seen += 1
        if seen == number:
            break


def test_each_kind_that_a_history_can_show_is_spoiled_in_some_way() -> None:
    """Others need to be told what had to arrive and when, who was asked to stop, or what was said to everybody."""
    told = {"given up", "abandoned", "pressed", "flooded", "too fast", "late"}
    assert set(checks.KINDS) - {kind for _, kind in CORRUPTIONS.values()} == told


def test_the_good_ones_are_of_every_sort() -> None:
    """A generator that never loses an answer would prove little."""
    states: set[Reported | None] = set()
    policies: set[Policy] = set()
    sorts: set[str] = set()
    for seed in range(2_000):
        history, policy = good_history(seed)
        policies.add(policy)
        states |= {owed.state for owed in history.obligations}
        sorts |= set(_sorts(history))

    assert policies == set(Policy)
    assert states == set(Reported) - {Reported.PENDING, Reported.SENDING}
    assert sorts == {
        "crash",
        "two crashes",
        "doubt",
        "second copy",
        "replay",
        "retry after",
        "refusal",
        "three attempts",
        "four mails",
        "nobody named",
        "parked and accepted",
        "parked and not accepted",
    }


def _sorts(history: History) -> list[str]:
    parked = [owed for owed in history.obligations if owed.state is Reported.UNKNOWN]
    shown = {
        "crash": history.crashes > 0,
        "two crashes": history.crashes > 1,
        "doubt": any(each.in_doubt for each in history.attempts),
        "second copy": any(len(history.copies_for(owed.recipient)) > 1 for owed in history.obligations),
        "replay": any("replayed" in each.answer for each in history.attempts),
        "retry after": any(each.retry_after_s for each in history.attempts),
        "refusal": any(checks.refused_for_good(each) for each in history.attempts),
        "three attempts": any(len(history.tries_for(owed.recipient)) > 2 for owed in history.obligations),
        "four mails": len(history.obligations) == 4,
        "nobody named": any(not each.recipients for each in history.attempts),
        "parked and accepted": any(history.copies_for(owed.recipient) for owed in parked),
        "parked and not accepted": any(not history.copies_for(owed.recipient) for owed in parked),
    }
    return [name for name, true in shown.items() if true]
