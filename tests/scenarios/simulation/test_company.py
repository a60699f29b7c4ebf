"""Mail that was lost with its worker twice, in a world: so long it goes alone, and what becomes of who goes beside it.

Real bytes over SMTP with the deadlines of production, in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from reference_sender.life import Parcel
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import outgoing_email
from reference_sender.policy.evidence import Evidence
from reference_sender.policy.suspects import LOST_TOGETHER
from reference_sender.worker import Transport
from scenarios.simulation.loop import OWNER
from scenarios.simulation.processes import Process
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Disk, Owed, ReferenceSender
from scenarios.simulation.world import World, silence
from simulator.config import read_plan
from simulator.provider.obligations import Reported
from simulator.provider.provider import DEFAULT_ACCOUNT

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")

#: As in production: an answer is waited for so long.
USUAL: Mapping[str, Any] = {
    "connect_timeout_s": 30.0,
    "read_timeout_s": 600.0,
    "total_timeout_s": 660.0,
    "lease_s": 720.0,
    "poll_s": 1.0,
}
HANGS = Owed(ref="hangs", recipients=("hangs@example.com",))
CODE = Owed(ref="code", recipients=("code@example.com",), priority=100)
SECOND = Owed(ref="second", recipients=("second@example.com",))


class Stage:
    """A world with one sender, whose mails are lost before it begins."""

    def __init__(self, world: World, folder: Path, **more: Any) -> None:
        self.world = world
        self.disk = Disk(folder)
        self.sender = ReferenceSender(
            disk=self.disk, profile=BY_ID["smtp-at-most-once"], **{"options": USUAL, **more}
        )
        self.disk.wipe()
        self.sender.prepare()

    def put(self, *mails: Owed, losses: int | None = None) -> None:
        for owed in mails:
            self.sender.enqueue(self.world, owed)
            with open_engine(self.disk.url).begin() as connection:
                connection.execute(
                    update(outgoing_email)
                    .where(outgoing_email.c.dedupe_key == owed.ref)
                    .values(losses=losses)
                )

    def work(self) -> Process:
        process = self.world.process("worker")
        process.spawn(self.sender.work, self.world)
        return process

    def losses(self, owed: Owed) -> int:
        ((losses,),) = self.disk.rows(f"SELECT losses FROM outgoing_email WHERE dedupe_key = '{owed.ref}'")
        return losses or 0

    def states(self) -> dict[str, Reported]:
        return {said.key: said.state for said in self.sender.said()}

    def begun(self) -> dict[str, float]:
        """When each mail was first seen by the provider, in seconds from the beginning."""
        assert self.world.service is not None
        account = self.world.service.provider.account(DEFAULT_ACCOUNT, self.world.clock.now())
        began: dict[str, float] = {}
        for each in account.attempts.values():
            for recipient in each.recipients:
                opened_s = (each.opened_at - self.begins_at).total_seconds()
                began.setdefault(recipient.partition("@")[0], opened_s)
        return began

    async def begin(self) -> None:
        self.begins_at = self.world.clock.now()
        await self.world.start_provider()


def staged(
    folder: Path, story: Callable[[Stage], Awaitable[None]], rules: tuple[str, ...] = (), **more: Any
) -> None:
    with silence(), World(seed=1, setup=read_plan({"rules": [*rules]}, "the weather")) as world:
        stage = Stage(world, folder, **more)

        async def told() -> None:
            await stage.begin()
            await story(stage)

        world.run(told)
        stage.disk.look_away()
        assert world.complaints == []


@pytest.mark.parametrize("alone_s", [10.0, 25.0])
def test_an_urgent_mail_goes_beside_a_suspect_that_hangs_and_a_second_suspect_behind_it(
    tmp_path: Path, alone_s: float
) -> None:
    async def story(stage: Stage) -> None:
        stage.put(HANGS, SECOND, losses=LOST_TOGETHER)
        stage.work()
        await asyncio.sleep(3.0)
        stage.put(CODE)
        await asyncio.sleep(alone_s - 4.0)
        assert stage.states()["code"] is Reported.PENDING, "it is alone"
        await asyncio.sleep(2.0)
        assert stage.states()["code"] is Reported.ACCEPTED
        await asyncio.sleep(400.0)
        assert stage.states() == {
            "hangs": Reported.SENDING,
            "second": Reported.PENDING,
            "code": Reported.ACCEPTED,
        }
        await asyncio.sleep(300.0)
        assert stage.states()["second"] is Reported.ACCEPTED, "the first one has come to its end"

    staged(
        tmp_path,
        story,
        ("hang at message to hangs@example.com",),
        options={**USUAL, "suspect_alone_s": alone_s},
    )


class KillsLate:
    """A transport on which one mail takes its process along, so many seconds into each attempt."""

    def __init__(self, inner: Transport, killer: str, after_s: float) -> None:
        self._inner, self._killer, self._after_s = inner, killer, after_s

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        await asyncio.sleep(self._after_s if parcel.key == self._killer else 2.0)
        if parcel.key == self._killer:
            process = OWNER.get()
            assert isinstance(process, Process)
            process.kill("the mail")
        return await self._inner.send(parcel, key=key, point_of_no_return=point_of_no_return)


def test_who_is_lost_beside_one_that_kills_late_is_no_suspect_for_it_and_soon_it_dies_alone(
    tmp_path: Path,
) -> None:
    """Thirteen seconds into each attempt: once beside others, whose attempts take two, then by itself."""
    neighbours = [replace(SECOND, ref=f"n{n}", recipients=(f"n{n}@example.com",)) for n in range(60)]
    alone: list[bool] = []

    async def story(stage: Stage) -> None:
        stage.put(HANGS, losses=LOST_TOGETHER)
        process, put = stage.work(), 0
        while put < len(neighbours):
            await asyncio.sleep(1.0)
            if not process.dead:
                stage.put(neighbours[put])
                put += 1
                continue
            said = stage.states()
            in_hand = [each for each, state in said.items() if state is Reported.SENDING]
            alone.append(in_hand == ["hangs"])
            assert max(stage.losses(each) for each in neighbours[:put]) <= 0
            if len(alone) == 3:
                return
            await asyncio.sleep(USUAL["lease_s"] + 10.0)
            process = stage.work()
        raise AssertionError("it did not kill its worker three times")

    staged(
        tmp_path,
        story,
        parts={"around_transport": lambda inner: KillsLate(inner, "hangs", 13.0)},
    )
    assert alone == [False, True, True]
