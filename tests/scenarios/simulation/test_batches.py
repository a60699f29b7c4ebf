"""Batches in the world: real requests with several mails, a provider that says of them what it likes, and crashes.

The usual matrix asks about single mails; here the questions are those that a batch raises. That the sender comes back
to a mail whose result it was not told is right, so "tried again after a yes" is not asked: the yes was never said.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from reference_sender.policy.batches import BatchEvidence
from reference_sender.policy.evidence import Evidence
from reference_sender.transports.http_batch import HttpBatchTransport
from scenarios.simulation.cell import Cell, Outcome, play
from scenarios.simulation.crashes import points
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender, quick_disk
from simulator.provider.obligations import Reported

#: The killed leave their sessions behind, and say so whenever the garbage collector meets them.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

#: What no batch may do, whatever is said of it.
NEVER = {
    "duplicated",
    "lost",
    "phantom",
    "misdirected",
    "not quiescent",
    "stuck",
    "uncaught",
    "unlike copies",
}


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

    def player(provider: dict[str, Any], **sin: Any) -> Callable[..., Outcome]:
        profile = replace(
            BY_ID["http-keys"],
            id=f"batch {provider!r}",  # the setup of a profile is remembered by its name
            provider=provider,
            sender={"policy": "resend-same-key", "batch": 4},
        )
        monkeypatch.setitem(BY_ID, profile.id, profile)
        folder = Path(mkdtemp(prefix="mailproof-", dir=quick_disk()))
        made.append(folder)
        disk = Disk(folder)
        sender = ReferenceSender(disk=disk, profile=profile, parts=sin)
        return lambda **more: play(Cell(profile=profile.id, shape="three recipients", **more), sender, disk)

    made: list[Path] = []
    yield player
    for folder in made:
        shutil.rmtree(folder)


def broken(outcome: Outcome) -> list[str]:
    return [str(each) for each in outcome.findings if each.kind in NEVER]


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


# --- senders with a sin: each is caught, and the same cell is clean without it -------------------------


class OneForAll(HttpBatchTransport):
    """What the first result says is said of all: one bad mail fails the batch, one good one accepts it."""

    async def send_batch(self, parcels: Any, **more: Any) -> BatchEvidence:
        seen = await super().send_batch(parcels, **more)
        first: Evidence = seen.items[0]
        return BatchEvidence(items=(first,) * len(parcels), whole=False)


class OneKeyForAll(HttpBatchTransport):
    """The key names the batch, so a repetition in other company is another key."""

    async def send_batch(self, parcels: Any, *, keys: Any, **more: Any) -> BatchEvidence:
        names = "+".join(str(each.id) for each in parcels)
        return await super().send_batch(parcels, keys=[f"{names}-{n}" for n in range(len(keys))], **more)


@pytest.mark.parametrize(
    ("sin", "provider", "kind"),
    [
        (
            OneForAll,
            {
                "rule": [
                    {
                        "name": "refused",
                        "dialect": "http",
                        "stage": "accept",
                        "recipient": "ada.1@example.com",
                        "fault": "reply",
                        "code": 422,
                    }
                ]
            },
            "misreported",
        ),
        (OneKeyForAll, odd("fewer"), "duplicated"),
    ],
)
def test_a_sender_that_reads_batches_wrongly_is_caught(
    sin: type[HttpBatchTransport],
    provider: dict[str, Any],
    kind: str,
    batch: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kinds() -> set[str]:
        return {each.kind for each in batch(provider)().findings}

    assert kind not in kinds()
    monkeypatch.setattr("reference_sender.transports.http_batch.HttpBatchTransport", sin)
    assert kind in kinds()
