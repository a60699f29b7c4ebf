"""What the worker asks, hands on and tells, fact by fact: its store, its gatekeeper and its log have nothing else."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from reference_sender.company import Company
from reference_sender.gatekeeper import Gatekeeper
from reference_sender.life import Docket, Parcel, State
from reference_sender.policy.classify import classify
from reference_sender.policy.decision import Decision, Ended
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.settings import Policy
from reference_sender.worker import Worker
from tests.reference_sender.samples import NOW, ManualClock, parcel, settings

YES = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")
DOWN = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=503, retry_after="5")


class Clock(ManualClock):
    """Stands still, and remembers who wanted to sleep for how long."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        await super().sleep(seconds)


class Shelf:
    """A store without SQL: what is due, what was asked, what was settled."""

    def __init__(self, *due: Parcel) -> None:
        self.due = list(due)
        self.asked: list[dict[str, Any]] = []
        self.settled: list[tuple[Ended, datetime]] = []
        self.marks: Callable[[], bool] = lambda: True
        self.renewed: list[tuple[int, datetime, float]] = []
        self.renews: Callable[[datetime], datetime | None] = lambda until: until
        self.away = 0
        """So many claims fail."""

    def claim(self, **asked: Any) -> list[Parcel]:
        if self.away > 0:
            self.away -= 1
            raise ConnectionError("the database is away")
        self.asked.append(asked)
        limit = asked["limit"]
        taken, self.due = self.due[:limit], self.due[limit:]
        return taken

    def mark(self, docket: Docket, *, now: datetime) -> bool:
        return self.marks()

    def renew(self, docket: Docket, *, now: datetime, lease_s: float) -> datetime | None:
        self.renewed.append((docket.id, now, lease_s))
        return self.renews(now + timedelta(seconds=lease_s))

    def settle(
        self,
        docket: Docket,
        decision: Decision,
        *,
        now: datetime,
        evidence: Evidence | None = None,
        started_at: datetime | None = None,
    ) -> bool:
        ended = Ended(docket=docket, decision=decision, evidence=evidence, started_at=started_at)
        self.settled.append((ended, now))
        return True

    def settle_all(self, group: Sequence[Ended], *, now: datetime) -> list[bool]:
        return [self.settle(each.docket, each.decision, now=now) for each in group]


class Line:
    """A transport: waits where a gate is in a mail's way, takes so much time, passes the point, answers."""

    def __init__(self, clock: Clock, evidence: Evidence = YES, *, took_s: float = 0.0) -> None:
        self.clock, self.evidence, self.took_s = clock, evidence, took_s
        self.gates: dict[int, asyncio.Event] = {}
        self.keys: list[str] = []
        self.arrived = asyncio.Event()

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        self.keys.append(key)
        self.arrived.set()
        if parcel.id in self.gates:
            await self.gates[parcel.id].wait()
        self.clock.advance(self.took_s)
        if not await point_of_no_return():
            return Evidence(wire=Wire.HTTP, phase=Phase.BODY, trouble="withdrawn")
        return self.evidence


class FakeGate:
    is_full = False


class Keeper:
    """A gatekeeper that lets everything through, and remembers what it was told."""

    def __init__(self, most: int = 4) -> None:
        self.most = most
        self.may_claim_ahead = False
        self.gate = FakeGate()
        self.shut = False
        self.asked_shut: list[datetime] = []
        self.urgent: set[int] = set()
        self.kept = 0
        self.urgent_room = 0
        self.better = False
        self.rest_s = 0.5
        self.asked_rest: list[float] = []
        self.terms_for: list[tuple[int, int]] = []
        self.in_hand: list[int] = []
        self.ended: list[int] = []
        self.told: list[tuple[object, object, datetime, float]] = []

    def terms(self, room: int, in_hand: int) -> dict[str, Any]:
        self.terms_for.append((room, in_hand))
        return {"bulk": 17}

    def wait_s(self, most_s: float) -> float:
        self.asked_rest.append(most_s)
        return self.rest_s

    def is_shut(self, now: datetime) -> bool:
        self.asked_shut.append(now)
        return self.shut

    def is_urgent(self, docket: Docket) -> bool:
        return docket.id in self.urgent

    def kept_of(self, places: int) -> int:
        return self.kept

    def room_for_urgent(self, in_hand: int, places: int) -> int:
        return self.urgent_room

    def begins(self, docket: Docket) -> None:
        self.in_hand.append(docket.id)

    def ends(self, docket: Docket) -> None:
        self.ended.append(docket.id)

    async def tell(self, outcome: object, evidence: object, *, began_at: datetime, took_s: float) -> bool:
        self.told.append((outcome, evidence, began_at, took_s))
        return self.better


class Stand:
    """A worker between a shelf and a wire."""

    def __init__(
        self,
        *due: Parcel,
        policy: Policy = Policy.RESEND_SAME_KEY,
        keeper: Keeper | None = None,
        evidence: Evidence = YES,
        took_s: float = 0.0,
        more: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        self.clock = Clock()
        self.shelf, self.line = Shelf(*due), Line(self.clock, evidence, took_s=took_s)
        self.said: list[tuple[str, dict[str, object]]] = []
        self.worker = Worker(
            store=self.shelf,
            transport=self.line,
            settings=settings(policy, **changes),
            clock=self.clock,
            rng=random.Random(1),
            log=lambda event, /, **facts: self.said.append((event, facts)),
            keeper=cast(Gatekeeper | None, keeper),
            **(more or {}),
        )

    async def once(self) -> None:
        await self.worker.work_once()
        await self.worker.idle()

    def facts(self, event: str) -> list[dict[str, object]]:
        return [facts for each, facts in self.said if each == event]

    @property
    def decisions(self) -> list[Decision]:
        return [ended.decision for ended, _ in self.shelf.settled]


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(steps, 30))


async def turns(count: int = 30) -> None:
    """Let everything happen that needs no time."""
    for _ in range(count):
        await asyncio.sleep(0.001)


class Running:
    """The worker's loop, for the time of a `with`."""

    def __init__(self, stand: Stand) -> None:
        self.stand, self.stop = stand, asyncio.Event()

    async def __aenter__(self) -> None:
        ready = asyncio.Event()
        self.task = asyncio.ensure_future(self.stand.worker.run(self.stop, ready=ready.set))
        await turns()

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await self.task


# --- what is handed on --------------------------------------------------------------------------------


def test_the_store_gets_what_was_seen_and_when_it_began() -> None:
    stand = Stand(parcel(id=7), took_s=2.0)
    run(stand.once())

    ((ended, now),) = stand.shelf.settled
    assert (ended.docket.id, ended.evidence, ended.started_at) == (7, YES, NOW)
    assert now == NOW + timedelta(seconds=2)


def test_the_provider_gets_the_key_of_the_row() -> None:
    stand = Stand(parcel(idempotency_key="order-9.v1.bb"))
    run(stand.once())

    assert stand.line.keys == ["order-9.v1.bb"]


def test_the_back_off_is_the_one_that_was_given() -> None:
    stand = Stand(parcel(), evidence=replace(DOWN, retry_after=None), more={"backoff": lambda *_, **__: 77.0})
    run(stand.once())

    assert stand.decisions[0].next_attempt_at == NOW + timedelta(seconds=77)


# --- what is told -------------------------------------------------------------------------------------


def test_a_decision_is_told_with_everything_that_a_person_asks_at_night() -> None:
    sent = parcel(id=7, token=3, attempts=2, traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    stand = Stand(replace(sent, queued_at=NOW - timedelta(seconds=3)), took_s=2.0)
    run(stand.once())

    assert stand.said == [
        (
            "decided",
            {
                "id": 7,
                "key": "order-1",
                "token": 3,
                "message_id": "<aa.v1@example.org>",
                "attempt": 2,
                "state": "accepted",
                "reason": stand.decisions[0].reason,
                "provider_id": "m1",
                "wire": "http",
                "phase": "sent",
                "code": 200,
                "seconds": 2.0,
                "waited_s": 5.0,
                "traceparent": sent.traceparent,
                "next_attempt_at": None,
            },
        )
    ]


def test_a_decision_to_try_again_says_when() -> None:
    stand = Stand(parcel(), evidence=DOWN)
    run(stand.once())

    (decision,) = stand.decisions
    assert decision.next_attempt_at is not None
    assert stand.facts("decided")[0]["next_attempt_at"] == decision.next_attempt_at.isoformat()


def test_a_decision_without_an_attempt_has_no_wire() -> None:
    stand = Stand(parcel(expires_at=NOW))
    run(stand.once())

    (facts,) = stand.facts("decided")
    assert [facts[name] for name in ("state", "wire", "phase", "code", "seconds")] == [
        "expired",
        None,
        None,
        None,
        0.0,
    ]


@pytest.mark.parametrize(
    ("due", "policy", "took_s", "event"),
    [
        ({"expires_at": NOW + timedelta(seconds=10)}, Policy.RESEND_SAME_KEY, 20.0, "overdue"),
        ({}, Policy.RESEND_SAME_KEY, 120.0, "lease_over"),
        ({}, Policy.AT_MOST_ONCE, 0.0, "fenced_out"),
    ],
)
def test_what_is_withdrawn_at_the_last_moment_is_told(
    due: dict[str, Any], policy: Policy, took_s: float, event: str
) -> None:
    """A lease is over in the very second in which it ends: from then on another may hold it."""
    stand = Stand(parcel(id=7, token=3, **due), policy=policy, took_s=took_s)
    stand.shelf.marks = lambda: False
    run(stand.once())

    assert stand.said[0] == (event, {"id": 7, "token": 3})
    assert stand.shelf.settled[0][0].evidence == Evidence(
        wire=Wire.HTTP, phase=Phase.BODY, trouble="withdrawn"
    )


def test_a_marker_that_cannot_be_written_is_told() -> None:
    def away() -> bool:
        raise ConnectionError("the database is away")

    stand = Stand(parcel(id=7, token=3), policy=Policy.AT_MOST_ONCE)
    stand.shelf.marks = away
    run(stand.once())

    told = {"id": 7, "token": 3, "error": "ConnectionError", "cause": "the database is away"}
    assert stand.said[0] == ("mark_failed", told)


def test_a_bug_is_told() -> None:
    def bug(_: Evidence) -> Any:
        raise RuntimeError("a bug")

    stand = Stand(parcel(id=7, token=3), more={"classify": bug})
    run(stand.once())

    assert stand.said == [
        ("unexpected", {"id": 7, "token": 3, "error": "RuntimeError", "cause": "a bug"}),
    ]


def test_draining_says_how_much_there_is_and_leaves_nothing_behind() -> None:
    stand = Stand(parcel(id=7))
    over: list[bool] = []

    async def hang(*_: object, **__: object) -> Evidence:
        try:
            await asyncio.Event().wait()
        finally:
            await turns(3)
            over.append(True)
        return YES

    stand.line.send = hang  # type: ignore[method-assign] # a transport that takes a moment to end

    async def steps() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(stand.worker.run(stop))
        await turns()
        stop.set()
        await turns()
        assert not running.done()
        stand.clock.advance(30.0)
        await running
        assert over == [True]

    run(steps())
    assert stand.said == [("draining", {"in_flight": 1})]


# --- rests ---------------------------------------------------------------------------------------------


def test_the_longer_the_database_is_away_the_longer_are_the_rests() -> None:
    stand = Stand(poll_s=2.0)
    stand.shelf.away = 7

    async def steps() -> None:
        async with Running(stand):
            while len(stand.clock.rests) < 8:
                stand.clock.advance(60.0)
                await turns(3)

    run(steps())
    assert stand.clock.rests[:8] == [4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 2.0]


def test_that_it_is_ready_is_said_once() -> None:
    said: list[int] = []
    stand = Stand()

    async def steps() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(
            stand.worker.run(stop, ready=lambda: said.append(len(stand.shelf.asked)))
        )
        for _ in range(3):
            await turns(5)
            stand.worker.wake()
        stop.set()
        await running

    run(steps())
    assert said == [1]


def test_time_is_kept_before_each_look() -> None:
    looks: list[int] = []
    stand = Stand()

    async def keep_time() -> None:
        looks.append(len(stand.shelf.asked))

    stand.worker = Worker(
        store=stand.shelf,
        transport=stand.line,
        settings=settings(),
        clock=stand.clock,
        rng=random.Random(1),
        keep_time=keep_time,
    )

    async def steps() -> None:
        async with Running(stand):
            stand.worker.wake()
            await turns()

    run(steps())
    assert looks == [0, 1]


def test_quick_attempts_are_claimed_for_in_advance_and_slow_ones_are_not() -> None:
    """By an average that follows an eighth of what is new: 0.25 s is the border."""
    stand = Stand(concurrency=4)

    async def look(took_s: float) -> int:
        stand.line.took_s = took_s
        stand.shelf.due = [parcel(lease_until=NOW + timedelta(days=1))]
        await stand.once()
        stand.shelf.due = []
        await stand.worker.work_once()
        return int(stand.shelf.asked[-1]["limit"])

    async def steps() -> None:
        await stand.worker.work_once()
        assert stand.shelf.asked[-1]["limit"] == 4
        # The average behind each: 0.0, 0.2375, 0.251, 0.22.
        assert [await look(took_s) for took_s in (0.0, 1.9, 0.34595, 0.0)] == [12, 12, 4, 12]

    run(steps())


def many(count: int, **more: Any) -> list[Parcel]:
    return [parcel(id=number, **more) for number in range(count)]


def test_while_mails_wait_for_a_place_room_gathers_before_the_next_claim() -> None:
    """Four places and eight that wait: four new ones at once are hardly dearer than one."""
    stand = Stand(parcel(), concurrency=4)

    async def steps() -> None:
        await stand.once()
        stand.shelf.due = many(20)
        stand.line.gates = {number: asyncio.Event() for number in range(20)}
        async with Running(stand):
            asked = [each["limit"] for each in stand.shelf.asked]
            for number in range(3):
                stand.line.gates[number].set()
            stand.worker.wake()
            await turns()
            assert [each["limit"] for each in stand.shelf.asked] == asked
            stand.line.gates[3].set()
            await turns()
            assert [each["limit"] for each in stand.shelf.asked] == [*asked, 4]
            for gate in stand.line.gates.values():
                gate.set()
            await turns()

    run(steps())
    assert len(stand.shelf.settled) == 21


def test_no_more_is_sent_and_not_settled_than_one_and_a_half_times_the_concurrency() -> None:
    """That is what a kill leaves behind for the provider to hear again."""
    stand, database = Stand(parcel(), concurrency=4), threading.Event()

    def settle_all(group: Sequence[Ended], *, now: datetime) -> list[bool]:
        database.wait(10)
        return Shelf.settle_all(stand.shelf, group, now=now)

    async def steps() -> None:
        await stand.once()
        stand.shelf.settle_all = settle_all  # type: ignore[method-assign] # a slow database
        stand.shelf.due = many(12)
        await stand.worker.work_once()
        await turns()
        assert len(stand.line.keys) == 1 + 6
        database.set()
        await stand.worker.idle()

    run(steps())
    assert len(stand.line.keys) == len(stand.shelf.settled) == 13


def test_in_our_hands_what_is_urgent_waits_behind_nobody_who_is_not() -> None:
    stand = Stand(parcel(), concurrency=1)

    async def steps() -> None:
        await stand.once()
        stand.shelf.due = many(2, idempotency_key="bulk")
        stand.line.gates[0] = asyncio.Event()
        await stand.worker.work_once()
        stand.shelf.due = [parcel(id=7, priority=100, idempotency_key="code")]
        await stand.worker.work_once()
        stand.line.gates[0].set()
        await stand.worker.idle()

    run(steps())
    assert stand.line.keys[1:] == ["bulk", "code", "bulk"]


# --- the gatekeeper ------------------------------------------------------------------------------------


def test_the_gatekeeper_hears_of_every_mail_and_its_end() -> None:
    keeper = Keeper(most=3)
    stand = Stand(parcel(id=7), keeper=keeper, took_s=2.0)

    async def steps() -> None:
        stand.clock.advance(1.0)
        stand.line.gates[7] = asyncio.Event()
        await stand.worker.work_once()
        await stand.line.arrived.wait()
        assert (keeper.in_hand, keeper.ended) == ([7], [])
        await stand.worker.work_once()
        stand.line.gates[7].set()
        await stand.worker.idle()
        await turns(3)

    run(steps())
    assert keeper.ended == [7]
    # Room, and how many would be in our hands with it.
    assert keeper.terms_for == [(3, 3), (2, 3)]
    assert [asked["bulk"] for asked in stand.shelf.asked] == [17, 17]
    assert keeper.told == [(classify(YES), YES, NOW + timedelta(seconds=1), 2.0)]


def test_the_gatekeeper_hears_that_there_was_no_attempt() -> None:
    keeper = Keeper()
    stand = Stand(parcel(expires_at=NOW), keeper=keeper)
    run(stand.once())

    assert keeper.told == [(None, None, NOW, 0.0)]


def test_the_gatekeeper_says_how_long_to_rest_but_not_while_the_database_is_away() -> None:
    keeper = Keeper()
    stand = Stand(keeper=keeper, poll_s=2.0)
    stand.shelf.away = 1

    async def steps() -> None:
        async with Running(stand):
            stand.clock.advance(4.0)
            await turns()

    run(steps())
    assert stand.clock.rests == [4.0, 0.5]
    assert keeper.asked_rest == [2.0]


@pytest.mark.parametrize("better", [True, False])
def test_news_that_more_may_go_is_a_reason_to_look(better: bool) -> None:
    keeper = Keeper()
    keeper.better = better
    stand = Stand(parcel(), keeper=keeper)

    async def steps() -> None:
        async with Running(stand):
            assert (len(stand.shelf.asked) > 1) is better

    run(steps())


@pytest.mark.parametrize(("is_full", "looks"), [(True, 2), (False, 1)])
def test_the_end_of_a_mail_is_a_reason_to_look_where_the_gate_left_some_behind(
    is_full: bool, looks: int
) -> None:
    keeper = Keeper()
    keeper.gate.is_full = is_full
    stand = Stand(parcel(id=7), keeper=keeper)

    async def steps() -> None:
        stand.line.gates[7] = asyncio.Event()
        async with Running(stand):
            keeper.gate.is_full = False
            stand.line.gates[7].set()
            await turns()

    run(steps())
    assert len(stand.shelf.asked) == looks


def test_where_there_is_no_room_nothing_is_asked_and_the_end_of_a_mail_is_a_reason_to_look() -> None:
    keeper = Keeper(most=2)
    stand = Stand(parcel(id=7), keeper=keeper)

    async def steps() -> None:
        stand.line.gates[7] = asyncio.Event()
        async with Running(stand):
            keeper.most = 1
            stand.worker.wake()
            await turns()
            assert len(stand.shelf.asked) == 1
            stand.shelf.due = [parcel(id=8)]
            stand.line.gates[7].set()
            await turns()

    run(steps())
    assert [ended.docket.id for ended, _ in stand.shelf.settled] == [7, 8]


# --- what waited for its place --------------------------------------------------------------------------


def waited(
    took_s: float,
    renews: Callable[[datetime], datetime | None] = lambda until: until,
    takes_s: float = 0.0,
) -> Stand:
    """The second of two mails waits so long for the only place, with 120 s of lease; an attempt may take 60."""
    stand = Stand(parcel(id=1), parcel(id=2), keeper=Keeper(most=2), concurrency=1, took_s=takes_s)
    stand.shelf.renews = renews

    async def steps() -> None:
        stand.line.gates[1] = asyncio.Event()
        await stand.worker.work_once()
        await turns(3)
        stand.clock.advance(took_s)
        stand.line.gates[1].set()
        await stand.worker.idle()

    run(steps())
    return stand


@pytest.mark.parametrize(
    ("took_s", "times"), [(60.0, 0), (60.001, 1), (500.0, 1)], ids=["enough", "short", "over"]
)
def test_what_waited_for_its_place_has_a_lease_that_an_attempt_fits_into(took_s: float, times: int) -> None:
    """If what is left is too short, it is renewed before the attempt; nobody else has taken it."""
    stand = waited(took_s)

    renewed = (2, NOW + timedelta(seconds=took_s), 120.0)
    assert stand.shelf.renewed == [renewed] * times
    assert stand.decisions[1].state is State.ACCEPTED
    assert len(stand.line.keys) == 2
    assert [told for told in stand.facts("lease_over") if told["id"] == 2] == []


def test_what_somebody_else_has_taken_meanwhile_is_his() -> None:
    """It is not sent, and nothing is written to it; its place is free again."""
    stand = waited(500.0, lambda until: None)

    assert len(stand.line.keys) == len(stand.decisions) == 1
    assert stand.facts("fenced_out") == [{"id": 2, "token": 1}]
    assert stand.worker.in_flight == 0


def test_what_waited_goes_back_where_nobody_can_renew_its_lease() -> None:
    """It costs the mail nothing."""

    def away(until: datetime) -> datetime:
        raise ConnectionError("the database is away")

    stand = waited(60.001, away)

    assert len(stand.line.keys) == 1
    assert stand.decisions[1] == Decision(
        state=State.PENDING,
        reason="its lease is too short for an attempt by now",
        next_attempt_at=NOW + timedelta(seconds=60.001),
        refund=True,
    )
    (told,) = stand.facts("renew_failed")
    assert told == {"id": 2, "token": 1, "error": "ConnectionError", "cause": "the database is away"}


def test_a_renewed_lease_is_the_one_that_counts() -> None:
    """An attempt that outlives it as well sends nothing."""
    stand = waited(60.001, takes_s=130.0)

    assert {"id": 2, "token": 1} in stand.facts("lease_over")


def test_without_a_lease_nothing_is_renewed() -> None:
    """As in a store that gives none."""
    stand = Stand(
        *(replace(parcel(id=number), lease_until=None) for number in (1, 2)),
        keeper=Keeper(most=2),
        concurrency=1,
    )

    async def steps() -> None:
        await stand.worker.work_once()
        await stand.worker.idle()

    run(steps())
    assert (stand.shelf.renewed, len(stand.line.keys)) == ([], 2)


def test_mail_that_is_not_urgent_leaves_the_kept_places_free() -> None:
    """One of three is kept: two of bulk begin, the third waits, also when the urgent one has gone; not when bulk has."""
    keeper = Keeper(most=4)
    keeper.urgent, keeper.kept = {9}, 1
    bulk = [parcel(id=number, idempotency_key=f"bulk {number}") for number in (1, 2, 3)]
    stand = Stand(*bulk, parcel(id=9, idempotency_key="code", priority=9), keeper=keeper, concurrency=3)

    async def steps() -> None:
        stand.line.gates = {number: asyncio.Event() for number in (1, 2, 3, 9)}
        await stand.worker.work_once()
        await turns(3)
        assert stand.line.keys == ["bulk 1", "bulk 2", "code"]
        stand.line.gates[9].set()
        await turns(3)
        assert len(stand.line.keys) == 3
        stand.line.gates[1].set()
        await turns(3)
        assert stand.line.keys[3:] == ["bulk 3"]
        for gate in stand.line.gates.values():
            gate.set()
        await stand.worker.idle()

    run(steps())


def test_with_full_hands_it_looks_for_urgent_mail_alone_now_and_then() -> None:
    """At most every tenth of a second, as far as there is room for it."""
    keeper = Keeper(most=1)
    keeper.urgent_room = 2
    stand = Stand(parcel(id=1), keeper=keeper, concurrency=1)

    async def steps() -> None:
        stand.line.gates[1] = asyncio.Event()
        await stand.worker.work_once()
        await turns(3)
        for after_s in (0.0, 0.09, 0.02):
            stand.clock.advance(after_s)
            await stand.worker.work_once()
        stand.line.gates[1].set()
        await stand.worker.idle()

    run(steps())
    assert [asked["limit"] for asked in stand.shelf.asked] == [1, 2, 2]


def test_whom_the_company_does_not_let_claims_nothing() -> None:
    class Closed(Company):
        def lets(self, member: object) -> bool:
            return False

    stand = Stand(parcel(), more={"company": Closed(ManualClock())})

    async def steps() -> None:
        assert await stand.worker.work_once() == 0

    run(steps())
    assert stand.shelf.asked == []


def test_what_waited_for_its_place_is_not_sent_through_a_gate_that_shut_meanwhile() -> None:
    keeper = Keeper(most=2)
    keeper.shut = True
    stand = Stand(parcel(id=1), parcel(id=2), keeper=keeper, concurrency=1)

    async def steps() -> None:
        stand.line.gates[1] = asyncio.Event()
        await stand.worker.work_once()
        await turns(3)
        stand.line.gates[1].set()
        await stand.worker.idle()

    run(steps())

    assert keeper.asked_shut == [NOW]
    first, second = stand.decisions
    # Who had a place at once has just been let through by the claim.
    assert first.state is State.ACCEPTED
    assert second == Decision(
        state=State.PENDING,
        reason="the provider wants nobody to come just now",
        next_attempt_at=NOW,
        refund=True,
    )
