"""The gatekeeper: one worker's side of the gate that all share."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from reference_sender.gatekeeper import Gatekeeper
from reference_sender.life import Parcel, State
from reference_sender.outbox.store import Store
from reference_sender.policy import gate as gates
from reference_sender.policy.breaker import BreakerRules, Position
from reference_sender.policy.bucket import Rate
from reference_sender.policy.classify import classify
from reference_sender.policy.evidence import Evidence, Outcome, Phase, Wire
from reference_sender.policy.gate import NOTHING_KNOWN, GateRules, Shared
from reference_sender.policy.pace import PaceRules
from reference_sender.policy.settings import Policy
from reference_sender.worker import Worker
from tests.reference_sender.samples import NOW, ManualClock, docket, settings
from tests.reference_sender.test_worker import FakeTransport, World, store

__all__ = ["store"]

YES = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")
DOWN = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=503)
FAST = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=429, retry_after="30")


class Books:
    """An outbox that keeps one gate, or is away."""

    def __init__(self) -> None:
        self.shared = NOTHING_KNOWN
        self.heard: list[tuple[int | None, int]] = []
        self.away = False

    def hear(
        self,
        rules: GateRules,
        outcome: Outcome | None,
        evidence: Evidence | None,
        *,
        now: datetime,
        began_at: datetime,
        good_before: int = 0,
    ) -> Shared:
        if self.away:
            raise OSError("gone")
        self.heard.append((None if evidence is None else evidence.code, good_before))
        self.shared = gates.after(
            rules, self.shared, outcome, evidence, now=now, began_at=began_at, good_before=good_before
        )
        return self.shared


class Bench:
    """A gatekeeper, its clock, its books, and what it said."""

    def __init__(self, most: int = 8, **rules: Any) -> None:
        self.books, self.clock = Books(), ManualClock()
        self.said: list[tuple[str, dict[str, object]]] = []
        self.keeper = Gatekeeper(
            store=self.books,
            rules=GateRules(**({"breaker": BreakerRules(failures=2, pause_s=10)} | rules)),
            pace=PaceRules(most=most, samples=4),
            clock=self.clock,
            log=lambda event, /, **facts: self.said.append((event, facts)),
        )

    def tell(self, *seen: Evidence | None, took_s: float = 0.1) -> list[bool]:
        async def story() -> list[bool]:
            return [
                await self.keeper.tell(
                    None if each is None else classify(each), each, began_at=self.clock.now(), took_s=took_s
                )
                for each in seen
            ]

        return asyncio.run(story())


def test_in_good_times_nothing_is_written() -> None:
    bench = Bench()
    assert bench.tell(YES, YES, None) == [False, False, False]
    assert bench.books.heard == []


def test_a_failure_is_told_with_the_successes_before_it() -> None:
    bench = Bench()
    bench.tell(YES, YES, YES, DOWN, DOWN)
    assert bench.books.heard == [(503, 3), (503, 0)]
    assert [(event, facts.get("position")) for event, facts in bench.said if event == "breaker"] == [
        ("breaker", "open")
    ]


def test_the_success_that_closes_it_is_a_reason_to_look_again() -> None:
    bench = Bench()
    bench.tell(DOWN, DOWN)
    bench.clock.advance(10)
    bench.keeper.gate.seen = bench.books.shared = gates.after_claim(
        bench.keeper.gate.rules, bench.books.shared, 1, bench.clock.now()
    )
    assert bench.tell(YES) == [True]
    assert bench.keeper.gate.seen.breaker.position is Position.CLOSED


def test_a_pause_is_said_and_known_at_once() -> None:
    bench = Bench()
    bench.tell(FAST)
    assert [event for event, _ in bench.said] == ["paused"]
    assert bench.keeper.is_shut(bench.clock.now())
    bench.clock.advance(30)
    assert not bench.keeper.is_shut(bench.clock.now())


def test_what_cannot_be_written_down_is_lost_and_said() -> None:
    bench = Bench()
    bench.books.away = True
    assert bench.tell(DOWN) == [False]
    assert [(event, facts["error"]) for event, facts in bench.said] == [("hear_failed", "OSError")]


def test_it_waits_for_the_gate_and_not_for_the_poll() -> None:
    bench = Bench()
    assert bench.keeper.wait_s(31.0) == 31.0
    bench.keeper.gate.again_at = NOW + timedelta(seconds=2)
    assert bench.keeper.wait_s(31.0) == pytest.approx(2.0, abs=0.01)
    assert bench.keeper.wait_s(1.0) == 1.0
    bench.clock.advance(5)
    assert 0.0 < bench.keeper.wait_s(31.0) < 0.01


def test_slots_are_kept_for_urgent_mail() -> None:
    bench = Bench(reserved=2)
    assert bench.keeper.terms(8, 8)["bulk"] == 6
    for _ in range(5):
        bench.keeper.begins(docket(priority=0))
    bench.keeper.begins(docket(priority=100))
    assert bench.keeper.terms(2, 8)["bulk"] == 1
    bench.keeper.begins(docket(priority=-100))
    assert bench.keeper.terms(1, 8)["bulk"] == 0
    bench.keeper.ends(docket(priority=0))
    assert bench.keeper.terms(2, 8)["bulk"] == 1
    # However slow the pace: something that is not urgent goes, too.
    assert Bench(reserved=2).keeper.terms(1, 1)["bulk"] == 1


def test_slower_answers_mean_fewer_mails_under_way_and_trouble_the_fewest() -> None:
    bench = Bench()
    bench.tell(*[YES] * 4, took_s=0.3)
    bench.tell(*[YES] * 4, took_s=0.9)
    assert bench.keeper.most == 5
    bench.tell(DOWN, DOWN)
    assert bench.keeper.most == 1
    assert [facts["most"] for event, facts in bench.said if event == "pace"] == [5, 1]


def test_mail_waits_in_our_hands_only_in_good_times() -> None:
    assert Bench().keeper.may_claim_ahead
    assert not Bench(rates=(("main", Rate(per_s=1.0)),)).keeper.may_claim_ahead
    bench = Bench()
    bench.tell(DOWN)
    assert not bench.keeper.may_claim_ahead


# -- and the worker that asks it -------------------------------------------------------------------------------


def gated(store: Store, transport: FakeTransport, concurrency: int, **rules: Any) -> World:
    """A worker on SQLite that goes by a gate."""
    world = World(store, transport, Policy.RESEND_SAME_KEY, concurrency=concurrency)
    world.worker = Worker(
        store=store,
        transport=transport,
        settings=settings(concurrency=concurrency),
        clock=world.clock,
        rng=random.Random(1),
        keeper=Gatekeeper(
            store=store,
            rules=GateRules(**rules),
            pace=PaceRules(most=concurrency),
            clock=world.clock,
        ),
    )
    return world


def test_an_outage_costs_a_few_attempts_and_no_mail_any_of_its_own(store: Store) -> None:
    world = gated(
        store, FakeTransport(DOWN, DOWN, DOWN, YES), 1, breaker=BreakerRules(failures=2, pause_s=10)
    )
    for number in range(6):
        world.put(f"order-{number}")

    async def steps() -> None:
        for _ in range(5):
            await world.once()
        assert len(world.transport.sent) == 2, "then it is open"
        world.clock.advance(10)
        for _ in range(5):
            await world.once()
        assert len(world.transport.sent) == 3, "one probe, which fails"
        world.clock.advance(20)
        for _ in range(9):
            await world.once()

    asyncio.run(asyncio.wait_for(steps(), 30))
    assert {each.state for each in store.standings()} <= {State.ACCEPTED, State.PENDING}
    assert len(world.transport.sent) > 4, "it closed"
    assert max(each.attempts for each in store.standings()) == 1


def test_a_code_finds_a_slot_although_bulk_came_first(store: Store) -> None:
    """Every slot that bulk may have is taken by slow attempts; the code goes at once all the same."""
    going, sent = asyncio.Event(), list[str]()

    async def slow(parcel: Parcel) -> Evidence:
        sent.append(parcel.key)
        await going.wait()
        return YES

    world = gated(store, FakeTransport(slow), 4, reserved=1)
    for number in range(50):
        world.put(f"bulk-{number}", priority=-100)

    async def steps() -> None:
        await world.worker.work_once()
        await asyncio.sleep(0)
        world.put("code", priority=100)
        await world.worker.work_once()
        await asyncio.sleep(0)
        assert world.worker.in_flight == 4
        going.set()
        await world.worker.idle()

    asyncio.run(asyncio.wait_for(steps(), 30))
    assert sorted(sent) == ["bulk-0", "bulk-1", "bulk-2", "code"]


def test_a_code_finds_a_place_although_bulk_was_claimed_ahead_while_attempts_were_quick(store: Store) -> None:
    """Then they hang: all that bulk may have is full, on the wire and in our hands, and the code goes at once."""
    going, sent = asyncio.Event(), list[str]()

    async def slow(parcel: Parcel) -> Evidence:
        sent.append(parcel.key)
        await going.wait()
        return YES

    world = gated(store, FakeTransport(*[YES] * 4, slow), 4, reserved=1)
    for number in range(50):
        world.put(f"bulk-{number}", priority=-100)

    async def steps() -> None:
        await world.once()
        while len(sent) < 3:
            await world.worker.work_once()
            await asyncio.sleep(0)
        assert world.worker.in_flight > 4, "it has claimed ahead"
        world.put("code", priority=100)
        world.clock.advance(1.0)
        await world.worker.work_once()
        await asyncio.sleep(0)
        assert sent[3:] == ["code"]
        going.set()
        await world.worker.idle()

    asyncio.run(asyncio.wait_for(steps(), 30))


def test_a_worker_that_is_held_back_comes_when_the_gate_opens_and_not_at_the_poll(store: Store) -> None:
    world = gated(store, FakeTransport(YES), 4, rates=(("main", Rate(per_s=0.5, burst=1)),))
    for number in range(3):
        world.put(f"order-{number}")

    async def steps() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(world.worker.run(stop))
        for expected in (1, 2, 3):
            while sum(each.state is State.ACCEPTED for each in store.standings()) < expected:
                await asyncio.sleep(0.001)
                # Far less than a poll in all, and a little more than a token each time.
                world.clock.advance(0.05)
        stop.set()
        await running

    asyncio.run(asyncio.wait_for(steps(), 30))
    assert world.clock.monotonic() >= 4.0


def test_trouble_that_many_see_at_once_is_news_once() -> None:
    bench = Bench()

    async def story() -> None:
        begun = bench.clock.now()
        tells = [bench.keeper.tell(classify(DOWN), DOWN, began_at=begun, took_s=0.1) for _ in range(6)]
        await asyncio.gather(*tells)

    asyncio.run(story())
    assert [event for event, _ in bench.said].count("breaker") == 1
