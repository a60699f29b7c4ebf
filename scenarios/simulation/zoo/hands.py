"""Senders that have several mails in their hands, and do not see what one of them means for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import update

from reference_sender.life import Docket, Parcel
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store
from reference_sender.policy.evidence import Evidence
from reference_sender.worker import Transport
from scenarios.simulation.loop import OWNER
from scenarios.simulation.processes import Process
from scenarios.simulation.senders import ReferenceSender
from scenarios.simulation.world import World
from scenarios.simulation.zoo.keeper import BadSender, Ground, where

_row = outgoing_email.c

Point = Callable[[], Awaitable[bool]]


# --- the ground they stand on -----------------------------------------------------------------------


class Restarted(ReferenceSender):
    """A worker in a process of its own, that is started again a second after each death."""

    async def work(self, world: World) -> None:
        keeper = OWNER.get()
        assert isinstance(keeper, Process)
        while True:
            worker = world.process(f"{keeper.name}, once more")
            worker.spawn(super().work, world)
            await worker.died
            await asyncio.sleep(1.0)


class Deadly:
    """A transport on which the first mail takes its process along as soon as it is answered; others take longer."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, parcel: Parcel, *, key: str, point_of_no_return: Point) -> Evidence:
        is_deadly = parcel.key == "order-1"
        await asyncio.sleep(0.0 if is_deadly else 1.0)
        evidence = await self._inner.send(parcel, key=key, point_of_no_return=point_of_no_return)
        if is_deadly:
            process = OWNER.get()
            assert isinstance(process, Process)
            process.kill("the mail")
            # Nothing of it runs any more.
            await asyncio.Event().wait()
        return evidence


class Stalls:
    """A process that is held up for longer than a lease in one mail, while others wait in its hands for their place."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, parcel: Parcel, *, key: str, point_of_no_return: Point) -> Evidence:
        await asyncio.sleep(36.0 if parcel.key == "order-3" and parcel.token == 1 else 0.0)
        return await self._inner.send(parcel, key=key, point_of_no_return=point_of_no_return)


A_KILLER = Ground(
    says="the first mail kills its worker each time, and the worker is started again",
    sender=Restarted,
    around_transport=Deadly,
    options={"max_attempts": 3, "poll_s": 1.0},
)
A_STALL = Ground(
    says="each worker sends one mail at a time, and one is held up for longer than the lease",
    around_transport=Stalls,
    options={"concurrency": 1, "poll_s": 1.0},
)


# --- the sins ---------------------------------------------------------------------------------------


class CountsNoLosses(Store):
    """How often a mail was lost with its worker is not counted, so a killer never goes alone."""

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        parcels = super().claim(now=now, **more)
        with self.engine.begin() as connection:
            connection.execute(update(outgoing_email).values(losses=None))
        return [replace(parcel, losses=None) for parcel in parcels]


class RenewsRegardless(Store):
    """A lease is renewed by the number of the row, whoever has it by now."""

    def renew(self, docket: Docket, *, now: datetime, lease_s: float) -> datetime | None:
        until = now + timedelta(seconds=lease_s)
        with self.engine.begin() as connection:
            connection.execute(
                update(outgoing_email).where(_row.id == docket.id).values(lease_until=until, updated_at=now)
            )
        return until


SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="dies with its neighbours",
        sin="A mail that kills its worker is claimed together with others each time, until all of them are given up.",
        like="poison message takes its batch along",
        kind="given up",
        parts={"open_store": CountsNoLosses},
        ground=A_KILLER,
        blocks=(where("http-keys", shape="eight mails, two workers"),),
    ),
    BadSender(
        name="renews regardless",
        sin="The lease of a mail that waited is renewed although another worker has taken and sent it by now.",
        like="heartbeat without a fence",
        kind="tried again",
        parts={"open_store": RenewsRegardless},
        ground=A_STALL,
        blocks=(where("http-keys", shape="eight mails, two workers"),),
    ),
)
