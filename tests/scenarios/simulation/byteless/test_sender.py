"""The sender at the model level is the sender: its own worker, reconciler and wiring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reference_sender.life import Docket
from reference_sender.outbox.store import Store
from reference_sender.worker import Worker
from scenarios.simulation.byteless.outbox import Outbox, Shelf
from scenarios.simulation.byteless.sender import OnlyOnTheWire, Sender, of
from scenarios.simulation.byteless.world import World
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, ReferenceSender
from scenarios.simulation.shapes import SHAPES
from simulator.provider.obligations import Reported
from simulator.provider.provider import DEFAULT_ACCOUNT, Setup


def delivered(sender: Sender) -> World:
    """A world in which one mail was enqueued and a worker has worked for a minute."""
    world = World(seed=1, setup=Setup(), shelf=Shelf())
    with world.loop.current():
        for owed in SHAPES["one mail"].owed:
            world.process("application").run(sender.enqueue, world, owed)
        world.process("worker 1").spawn(sender.work, world)
        world.loop.run_until(60.0)
    return world


@pytest.mark.parametrize("profile", list(BY_ID))
def test_a_mail_is_delivered(profile: str) -> None:
    """By whatever wire and policy."""
    sender = Sender(profile=BY_ID[profile])
    world = delivered(sender)

    (said,) = sender.said(world.shelf)
    (acceptance,) = world.provider.accounts[DEFAULT_ACCOUNT].ledger.acceptances
    assert (said.state, said.provider_id) == (Reported.ACCEPTED, acceptance.id)
    assert world.shelf.business == [(said.key, said.recipient)]
    assert world.complaints == []


class _Watched(Worker):
    async def work_once(self) -> int:
        looked.append("worker")
        return await super().work_once()


class _Unmarked(Store):
    def mark(self, docket: Docket, *, now: Any) -> bool:
        looked.append("mark")
        return super().mark(docket, now=now)


looked: list[str] = []


def test_parts_are_taken_over(tmp_path: Path) -> None:
    """A worker of its own, and a store that differs in a method: the method runs, on a shelf."""
    looked.clear()
    sender = of(
        ReferenceSender(
            disk=Disk(tmp_path),
            profile=BY_ID["smtp-at-most-once"],
            parts={"worker": _Watched, "open_store": _Unmarked},
        )
    )
    world = delivered(sender)

    assert set(looked) == {"worker", "mark"}
    assert sender.said(world.shelf)[0].state is Reported.ACCEPTED
    assert issubclass(sender._store, Outbox)


class _Another(ReferenceSender):
    pass


def test_who_cannot_be_played_is_told_why(tmp_path: Path) -> None:
    """In a sentence, not by a traceback."""
    disk, profile = Disk(tmp_path), BY_ID["http-keys"]
    for sender, words in (
        (_Another(disk=disk, profile=profile), "brings its own program"),
        (ReferenceSender(disk=disk, profile=profile, parts={"lookup": None}), "asks in its own way"),
        (ReferenceSender(disk=disk, profile=profile, enqueue_with=print), "enqueues in its own way"),
        (
            ReferenceSender(disk=disk, profile=profile, parts={"open_store": lambda engine: Store(engine)}),
            "store is no class",
        ),
    ):
        with pytest.raises(OnlyOnTheWire, match=words):
            of(sender)
