"""Batches in the world: real requests with several mails, a provider that says of them what it likes, and crashes.

What the matrix plays of `http-batches` are faults of one attempt; here a provider speaks of batches in its own way for good.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from scenarios.simulation.cell import Cell, Outcome, play
from scenarios.simulation.crashes import points
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender, quick_disk
from simulator.provider.obligations import Reported

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")


def odd(listing: str) -> dict[str, Any]:
    return {
        "rule": [
            {
                "name": "odd results",
                "dialect": "http",
                "times": 1,
                "stage": "reply",
                "fault": "odd_results",
                "listing": listing,
            }
        ]
    }


def lost(fault: str, **more: Any) -> dict[str, Any]:
    return {"rule": [{"name": fault, "dialect": "http", "times": 1, "fault": fault, **more}]}


PROVIDERS: dict[str, dict[str, Any]] = {
    "each has its result": {},
    "all or nothing": {"batch": {"mode": "all_or_nothing"}},
    "only ids": {"batch": {"results": "accepted"}},
    "one result missing": odd("fewer"),
    "one result twice": odd("twice"),
    "shuffled": odd("shuffled"),
    "no results": odd("none"),
    "totals": odd("totals"),
    "the answer is lost": lost("accept_then_hang_up"),
    "the answer is garbled": lost("accept_then_garble"),
}


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """What plays a cell of three mails that go together."""

    def player(provider: dict[str, Any]) -> Callable[..., Outcome]:
        profile = replace(
            BY_ID["http-batches"],
            id=f"batch {provider!r}",  # the setup of a profile is remembered by its name
            provider=provider,
        )
        monkeypatch.setitem(BY_ID, profile.id, profile)
        folder = Path(mkdtemp(prefix="mailproof-", dir=quick_disk()))
        made.append(folder)
        disk = Disk(folder)
        sender = ReferenceSender(disk=disk, profile=profile)
        return lambda **more: play(Cell(profile=profile.id, shape="three recipients", **more), sender, disk)

    made: list[Path] = []
    yield player
    for folder in made:
        shutil.rmtree(folder)


def broken(outcome: Outcome) -> list[str]:
    return [f"{each.kind}: {each.sentence}" for each in outcome.findings]


def requests(outcome: Outcome) -> int:
    """So many requests: the mails of one are attempts that were opened at the same moment."""
    return len({each.opened_at for each in outcome.history.attempts})


@pytest.mark.parametrize("says", PROVIDERS)
def test_every_mail_of_a_batch_is_accepted_once_whatever_is_said_and_whoever_dies(
    says: str, batch: Callable[..., Any]
) -> None:
    play_cell = batch(PROVIDERS[says])
    dry = play_cell()
    assert broken(dry) == []
    assert {each.state for each in dry.history.said} == {Reported.ACCEPTED}
    for point in points(dry, ("commit",)):
        outcome = play_cell(crash=point)
        assert broken(outcome) == [], str(point)
        assert {each.state for each in outcome.history.said} == {Reported.ACCEPTED}, str(point)


def test_three_mails_are_one_request(batch: Callable[..., Any]) -> None:
    assert requests(batch({})()) == 1


def test_the_one_that_makes_all_be_refused_is_found(batch: Callable[..., Any]) -> None:
    rule = {
        "name": "no such user",
        "dialect": "http",
        "stage": "accept",
        "recipient": "bob.1@example.com",
        "fault": "reply",
        "code": 422,
    }
    outcome = batch({"batch": {"mode": "all_or_nothing"}, "rule": [rule]})()
    assert broken(outcome) == []
    assert {each.recipient: each.state for each in outcome.history.said} == {
        "ada.1@example.com": Reported.ACCEPTED,
        "bob.1@example.com": Reported.FAILED,
        "eve.1@example.com": Reported.ACCEPTED,
    }
