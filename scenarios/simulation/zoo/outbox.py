"""Senders whose outbox is wrong: claims, leases, markers, fences, crashes, and the business transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, delete, select, update

from reference_sender.life import Docket, Parcel, State
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision
from reference_sender.policy.evidence import Evidence
from reference_sender.policy.routes import Mine
from reference_sender.worker import Transport, Worker
from scenarios.simulation.behaviours import LATE_S
from scenarios.simulation.loop import OWNER
from scenarios.simulation.processes import Process
from scenarios.simulation.senders import Owed, ReferenceSender, promise
from scenarios.simulation.world import World
from scenarios.simulation.zoo.keeper import BadSender, Ground, where

_row = outgoing_email.c
_NEVER = datetime(2999, 1, 1, tzinfo=UTC)

Point = Callable[[], Awaitable[bool]]


# --- the ground some of them stand on ---------------------------------------------------------------


class Stopped:
    """A process that is stopped for so long in its first attempt at each mail, before it or behind it."""

    def __init__(self, inner: Transport, *, before_s: float = 0.0, behind_s: float = 0.0) -> None:
        self._inner = inner
        self._before_s, self._behind_s = before_s, behind_s

    async def send(self, parcel: Parcel, *, key: str, point_of_no_return: Point) -> Evidence:
        first = parcel.token == 1
        await asyncio.sleep(self._before_s if first else 0.0)
        evidence = await self._inner.send(parcel, key=key, point_of_no_return=point_of_no_return)
        await asyncio.sleep(self._behind_s if first else 0.0)
        return evidence


class Stumbles:
    """A transport with a bug: the first attempt at each mail raises what nobody expects."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, parcel: Parcel, *, key: str, point_of_no_return: Point) -> Evidence:
        if parcel.token == 1:
            raise LookupError("a bug")
        return await self._inner.send(parcel, key=key, point_of_no_return=point_of_no_return)


class OneClockIsWrong(ReferenceSender):
    """The second worker starts a little later, on a machine that is ten minutes ahead."""

    async def work(self, world: World) -> None:
        owner = OWNER.get()
        if isinstance(owner, Process) and owner.name == "worker 2":
            owner.skew_s = 600.0
            await asyncio.sleep(3.0)
        await super().work(world)


STOPPED_BEFORE = Ground(
    says="the worker is stopped for 34 s before it sends",
    around_transport=lambda inner: Stopped(inner, before_s=34.0),
    options={"lease_s": 30.0, "poll_s": 1.0},
)
STOPPED_BEHIND = Ground(
    says="the worker is stopped for 60 s before it stores the answer",
    around_transport=lambda inner: Stopped(inner, behind_s=60.0),
    options={"lease_s": 30.0, "poll_s": 1.0, "reconcile_s": 5.0},
)
BUGGY = Ground(says="the first attempt at each mail meets a bug", around_transport=Stumbles)


# --- claims -----------------------------------------------------------------------------------------


def _parcels(store: Store, ids: list[int]) -> list[Parcel]:
    dockets = store.find(ids=ids) if ids else []
    with store.engine.connect() as connection:
        raws = {
            row.id: row.raw for row in connection.execute(select(_row.id, _row.raw).where(_row.id.in_(ids)))
        }
    return [
        Parcel(
            **{each.name: getattr(docket, each.name) for each in fields(Docket)}, raw=bytes(raws[docket.id])
        )
        for docket in dockets
    ]


def _due(store: Store, now: datetime) -> list[int]:
    with store.engine.connect() as connection:
        due = select(_row.id).where(_row.state == State.PENDING, _row.next_attempt_at <= now)
        return list(connection.execute(due).scalars())


class ClaimsNothing(Store):
    """Reads, sends, and only then marks; what it has in hand it knows by heart."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._in_hand: set[int] = set()

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        parcels = _parcels(self, [each for each in _due(self, now) if each not in self._in_hand])
        self._in_hand.update(parcel.id for parcel in parcels)
        return parcels

    def mark(self, docket: Docket, *, now: datetime) -> bool:
        return True

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        self._in_hand.discard(docket.id)
        return super().settle(docket, decision, now=now, **more)


class LooksThenTakes(Worker):
    """Looks for due rows in one transaction and takes them in the next, whoever has them by then."""

    async def work_once(self) -> int:
        store: Any = self._store
        now = self._clock.now()
        ids = await asyncio.to_thread(_due, store, now)
        await self._clock.sleep(0.01)
        parcels = await asyncio.to_thread(self._take, store, ids, now)
        self._take_in_hand(parcels)
        return len(parcels)

    def _take(self, store: Store, ids: list[int], now: datetime) -> list[Parcel]:
        with store.engine.begin() as connection:
            connection.execute(
                update(outgoing_email)
                .where(_row.id.in_(ids))
                .values(
                    state=State.SENDING,
                    attempts=_row.attempts + 1,
                    lease_until=now + timedelta(seconds=self._settings.lease_s),
                )
            )
        return _parcels(store, ids)


class LooksOnlyAhead(Store):
    """Goes through the rows by number and never looks back: retries and late commits are behind it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._last = 0

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        with self.engine.begin() as connection:
            connection.execute(
                update(outgoing_email)
                .where(_row.id <= self._last, _row.state == State.PENDING)
                .values(next_attempt_at=_NEVER)
            )
        parcels = super().claim(now=now, **more)
        self._last = max((self._last, *(parcel.id for parcel in parcels)))
        return parcels


# --- leases -----------------------------------------------------------------------------------------


class NeverComesBack(Store):
    """A row that was taken stays taken: nobody looks after the rows of the dead."""

    def claim(self, *, now: datetime, lease_s: float, **more: Any) -> list[Parcel]:
        return super().claim(now=now, lease_s=1e9, **more)


class TakesOver(Store):
    """A lease that ran out means that nothing was sent: the marker is not looked at."""

    def claim(self, *, now: datetime, dedupes: bool, **more: Any) -> list[Parcel]:
        parcels = super().claim(now=now, dedupes=True, **more)
        return [replace(parcel, doubted_at=None) for parcel in parcels]

    def park_lost(self, *, now: datetime, dedupes: bool, mine: Mine | None = None) -> list[int]:
        return []


class ShortLease(Store):
    """The lease is shorter than a slow answer takes."""

    def claim(self, *, now: datetime, lease_s: float, **more: Any) -> list[Parcel]:
        return super().claim(now=now, lease_s=3.0, **more)


class ResetsAtStart(Store):
    """Whatever is being sent when a worker starts is sent again."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        with engine.begin() as connection:
            connection.execute(
                update(outgoing_email)
                .where(_row.state == State.SENDING)
                .values(state=State.PENDING, in_doubt=False)
            )


class ForgetsDoubt(Store):
    """A crash leaves no doubt: the next attempt begins as if it were the first."""

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        return [replace(parcel, doubted_at=None) for parcel in super().claim(now=now, **more)]


# --- markers and fences -----------------------------------------------------------------------------


class MarksNothing(Store):
    """There is no marker at the point of no return."""

    def mark(self, docket: Docket, *, now: datetime) -> bool:
        return True


class MarksTheClaim(Store):
    """The marker is committed with the claim: every crash leaves doubt, whether anything was sent or not."""

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        parcels = super().claim(now=now, **more)
        with self.engine.begin() as connection:
            connection.execute(
                update(outgoing_email)
                .where(_row.id.in_([parcel.id for parcel in parcels]))
                .values(in_doubt=True)
            )
        return parcels


class MarksBehind:
    """The marker is committed when the mail has left, not before."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, parcel: Parcel, *, key: str, point_of_no_return: Point) -> Evidence:
        async def go_on() -> bool:
            return True

        evidence = await self._inner.send(parcel, key=key, point_of_no_return=go_on)
        await point_of_no_return()
        return evidence


class GoesOnRegardless(Worker):
    """Passes the point of no return without looking whether the row is still its own."""

    async def _point_of_no_return(self, parcel: Parcel) -> bool:
        await super()._point_of_no_return(parcel)
        return True


class Unfenced(Store):
    """The end of an attempt is written, whoever has the row by now."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        (current,) = self.find(ids=[docket.id])
        return super().settle(
            replace(docket, token=current.token, state=current.state), decision, now=now, **more
        )


class ThrowsAwayLate(Store):
    """What comes after the lease is nobody's business any more."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        (current,) = self.find(ids=[docket.id])
        if current.token != docket.token:
            return False
        return super().settle(docket, decision, now=now, **more)


class MarksFirst(Store):
    """The mail is called accepted when it is taken in hand."""

    def claim(self, *, now: datetime, **more: Any) -> list[Parcel]:
        parcels = super().claim(now=now, **more)
        with self.engine.begin() as connection:
            connection.execute(
                update(outgoing_email)
                .where(_row.id.in_([parcel.id for parcel in parcels]))
                .values(state=State.ACCEPTED)
            )
        return parcels


class DeletesTheDead(Store):
    """What failed is deleted: the table stays small."""

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        held = super().settle(docket, decision, now=now, **more)
        if decision.state in (State.FAILED, State.DEAD, State.UNKNOWN):
            with self.engine.begin() as connection:
                connection.execute(delete(outgoing_email).where(_row.id == docket.id))
        return held


# --- bugs and how they are borne --------------------------------------------------------------------


class SwallowsEverything(Worker):
    """Whatever goes wrong in the sending, the mail is marked as sent."""

    async def _guarded(self, parcel: Parcel, *, has_waited: bool) -> None:
        try:
            await self.deliver(parcel, has_waited=has_waited)
        except Exception:
            done = Decision(state=State.ACCEPTED, reason="sent")
            self._store.settle(parcel, done, now=self._clock.now())


class DiesInside(Worker):
    """One unexpected error, and the loop that sends is gone; the process lives on."""

    _gone = False

    async def work_once(self) -> int:
        return 0 if self._gone else await super().work_once()

    async def _guarded(self, parcel: Parcel, *, has_waited: bool) -> None:
        try:
            await self.deliver(parcel, has_waited=has_waited)
        except Exception:
            self._gone = True


# --- the business transaction -----------------------------------------------------------------------


class TwoTransactions(ReferenceSender):
    """The order is committed, and then the mail is written down."""

    def enqueue(self, world: World, owed: Owed) -> None:
        engine = self._engine()
        with engine.begin() as connection:
            promise(connection, owed)
        with engine.begin() as connection:
            self.enqueue_with(connection, owed.mail, key=owed.ref, now=world.clock.now())
        engine.dispose()


class CommitsByItself(ReferenceSender):
    """The mail is written down and committed, whatever becomes of the order."""

    def enqueue(self, world: World, owed: Owed) -> None:
        engine = self._engine()
        with engine.begin() as connection:
            self.enqueue_with(connection, owed.mail, key=owed.ref, now=world.clock.now())
        with engine.begin() as connection:
            promise(connection, owed)
        engine.dispose()


class ChangesItsMind(ReferenceSender):
    """After a restart the policy is another one, and the rows in doubt are dealt with by that."""

    async def work(self, world: World) -> None:
        self.options = {"policy": "at-least-once"} if world.deaths else {}
        await super().work(world)


CRASHES = ("commit",)

SENDERS: tuple[BadSender, ...] = (
    BadSender(
        name="claims nothing",
        sin="The mail is read, sent, and only then marked; nothing says that somebody has it in hand.",
        like="send, then commit",
        kind="duplicated",
        promises=("crash.after-acceptance", "workers.two"),
        parts={"open_store": ClaimsNothing},
        blocks=(
            where("smtp-at-most-once", shape="two mails, two workers"),
            where("smtp-at-most-once", dies=CRASHES),
        ),
    ),
    BadSender(
        name="looks, then takes",
        sin="Due rows are looked up without a lock, and taken in a second transaction without another look.",
        like="many workers, claim without a lock",
        kind="duplicated",
        promises=("workers.two",),
        parts={"worker": LooksThenTakes},
        blocks=(where("smtp-at-most-once", shape="two mails, two workers"),),
    ),
    BadSender(
        name="looks only ahead",
        sin="Rows are gone through by number, and what lies behind the last one is never looked at again.",
        like="cursor over ids, late commits",
        kind="not quiescent",
        promises=("crash.before-wake-up", "temporary.then-success"),
        parts={"open_store": LooksOnlyAhead},
        blocks=(where("http-keys", "503"),),
    ),
    BadSender(
        name="nobody comes back",
        sin="A row that was taken in hand stays so when its worker dies.",
        like="stuck in sending",
        kind="stuck",
        promises=("crash.after-claim",),
        parts={"open_store": NeverComesBack},
        blocks=(where("http-keys", dies=CRASHES),),
    ),
    BadSender(
        name="takes over",
        sin="A lease that ran out is taken to mean that nothing was sent.",
        like="take-over of a row whose mail may have left",
        kind="duplicated",
        promises=("crash.after-acceptance",),
        parts={"open_store": TakesOver},
        blocks=(where("smtp-at-most-once", dies=CRASHES),),
    ),
    BadSender(
        name="believes its own clock",
        sin="The same, on a machine whose clock is ten minutes ahead: every lease of the others has run out.",
        like="clocks disagree",
        kind="duplicated",
        promises=("workers.two",),
        parts={"open_store": TakesOver},
        ground=Ground(
            says="the second worker's clock is ten minutes ahead",
            sender=OneClockIsWrong,
            options={"poll_s": 1.0},
        ),
        blocks=(where("smtp-at-most-once", "taken, said late", shape="two mails, two workers"),),
    ),
    BadSender(
        name="short lease",
        sin="The lease is shorter than a slow answer, so the mail is sent again while it is being sent.",
        like="send longer than the lease",
        kind="duplicated",
        promises=("workers.two",),
        parts={"open_store": ShortLease},
        ground=Ground(
            says="the slowest answer is waited for, and everybody looks often",
            options={
                "read_timeout_s": LATE_S + 5.0,
                "total_timeout_s": LATE_S + 10.0,
                "lease_s": LATE_S + 20.0,
                "poll_s": 1.0,
                "reconcile_s": 5.0,
            },
        ),
        blocks=(where("smtp-at-least-once", "taken, said late"),),
    ),
    BadSender(
        name="resets at start",
        sin="A worker that starts puts every row that is being sent back, whoever is sending it.",
        like="start-up recovery while others are alive",
        kind="duplicated",
        promises=("crash.after-acceptance",),
        parts={"open_store": ResetsAtStart},
        blocks=(where("smtp-at-most-once", dies=CRASHES),),
    ),
    BadSender(
        name="forgets doubt",
        sin="After a crash the next attempt begins as if it were the first, and its refusal is believed.",
        like="doubt lost in a restart",
        kind="misreported",
        promises=("lost-answer.then-refused",),
        parts={"open_store": ForgetsDoubt},
        blocks=(where("http-keys", "ok", "422", dies=CRASHES),),
    ),
    BadSender(
        name="no marker",
        sin="Nothing is committed at the point of no return, so a crash behind it looks like one before it.",
        like="crash after acceptance, before it is stored",
        kind="duplicated",
        promises=("crash.after-acceptance",),
        parts={"open_store": MarksNothing},
        blocks=(where("smtp-at-most-once", dies=CRASHES),),
    ),
    BadSender(
        name="marker at the claim",
        sin="The marker is committed when the mail is taken in hand, so a crash before the mail is a doubt, too.",
        like="crash after the claim, before sending",
        kind="given up",
        promises=("crash.before-the-body",),
        parts={"open_store": MarksTheClaim},
        blocks=(where("smtp-at-most-once", dies=CRASHES),),
    ),
    BadSender(
        name="marker behind the mail",
        sin="The marker is committed when the mail has left, one moment too late.",
        like="point of no return in the wrong place",
        kind="duplicated",
        promises=("crash.after-acceptance",),
        parts={"around_transport": MarksBehind},
        blocks=(where("smtp-at-most-once", dies=CRASHES),),
    ),
    BadSender(
        name="goes on regardless",
        sin="A worker that was stopped for a while sends without looking whether the row is still its own.",
        like="unfenced marker of a zombie",
        kind="duplicated",
        promises=("workers.two",),
        parts={"worker": GoesOnRegardless},
        ground=STOPPED_BEFORE,
        blocks=(where("smtp-at-most-once"),),
    ),
    BadSender(
        name="late answer overwrites",
        sin="A worker that lost its lease writes its result over that of the new owner.",
        like="result of a worker that lost its lease",
        kind="tried again",
        parts={"open_store": Unfenced},
        ground=STOPPED_BEHIND,
        blocks=(where("http-keys", "503"),),
    ),
    BadSender(
        name="late answer thrown away",
        sin="A yes that comes after the lease is over is nobody's business.",
        like="late acceptance not kept as evidence",
        kind="misreported",
        parts={"open_store": ThrowsAwayLate},
        ground=STOPPED_BEHIND,
        blocks=(where("smtp-at-most-once"),),
    ),
    BadSender(
        name="marks first",
        sin="The mail is called accepted when it is taken in hand.",
        like="marked before sending",
        kind="lost",
        promises=("crash.after-claim",),
        parts={"open_store": MarksFirst},
        blocks=(where("http-keys", "503"), where("http-keys", dies=CRASHES)),
    ),
    BadSender(
        name="deletes the dead",
        sin="What failed is deleted, and nobody will ever know.",
        like="dead letter dropped without a word",
        kind="unsaid",
        promises=("refused.recipient", "refused.content", "recipients.one-refused"),
        parts={"open_store": DeletesTheDead},
        blocks=(where("smtp-at-most-once", "RCPT 550"),),
    ),
    BadSender(
        name="swallows everything",
        sin="Whatever goes wrong in the sending, the mail is marked as sent.",
        like="exception swallowed between send and mark",
        kind="lost",
        promises=("crash.after-claim",),
        parts={"worker": SwallowsEverything},
        ground=BUGGY,
        blocks=(where("http-keys"),),
    ),
    BadSender(
        name="dies inside",
        sin="One unexpected error ends the loop that sends, and the process lives on.",
        like="sending thread dead, process alive",
        kind="stuck",
        promises=("pace.outage",),
        parts={"worker": DiesInside},
        ground=BUGGY,
        blocks=(where("http-keys"),),
    ),
    BadSender(
        name="two transactions",
        sin="The order is committed, and then the mail is written down in a transaction of its own.",
        like="enqueue outside of the business transaction",
        kind="lost",
        promises=("crash.before-wake-up",),
        sender=TwoTransactions,
        blocks=(where("http-keys", victim="application", dies=CRASHES),),
    ),
    BadSender(
        name="commits by itself",
        sin="The mail is committed before the order, and sent although the order is rolled back.",
        like="business transaction rolls back",
        kind="phantom",
        promises=("business.rollback",),
        sender=CommitsByItself,
        blocks=(where("http-keys", victim="application", dies=CRASHES),),
    ),
    BadSender(
        name="changes its mind",
        sin="After a restart another policy deals with the rows that the old one left in doubt.",
        like="policy not frozen with the mail",
        kind="duplicated",
        promises=("crash.after-acceptance",),
        sender=ChangesItsMind,
        blocks=(where("smtp-at-most-once", dies=CRASHES),),
    ),
)
