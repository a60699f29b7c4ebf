"""The worker with a clock that stands still, a transport that does what it is told, and a real outbox."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reference_sender.life import Docket, Parcel, State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Standing, Store, enqueue
from reference_sender.policy.classify import classify
from reference_sender.policy.decision import Decision, Doubt, decide
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.lookup import Found, LookedUp, NotFound, Unavailable
from reference_sender.policy.settings import Policy
from reference_sender.reconciler import Reconciler
from reference_sender.worker import Worker
from tests.reference_sender.samples import MAIL, ManualClock, settings

YES = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")
NO = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=422)
DOWN = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=503, retry_after="5")
OTHER_BODY = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=422, problem="key_reused")
SILENCE = Evidence(wire=Wire.HTTP, phase=Phase.SENT, trouble="timeout")

Behaviour = Callable[[Parcel], Awaitable[Evidence]]


class FakeTransport:
    """Gives back evidence from a script and remembers what it was asked to send."""

    def __init__(self, *script: Evidence | BaseException | Behaviour) -> None:
        self.script = list(script)
        self.sent: list[tuple[str, bytes]] = []
        self.refused_by_fence = 0

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if not await point_of_no_return():
            self.refused_by_fence += 1
            return Evidence(wire=Wire.HTTP, phase=Phase.BODY, trouble="withdrawn")
        self.sent.append((key, parcel.raw))
        if isinstance(step, BaseException):
            raise step
        return step if isinstance(step, Evidence) else await step(parcel)


class World:
    """A worker, its outbox, its clock and what it said."""

    def __init__(self, store: Store, transport: FakeTransport, policy: Policy, **more: Any) -> None:
        self.store, self.transport, self.clock = store, transport, ManualClock()
        self.said: list[tuple[str, dict[str, object]]] = []
        self.news = asyncio.Event()
        self.worker = Worker(
            store=store,
            transport=transport,
            settings=settings(policy, **more),
            clock=self.clock,
            rng=random.Random(1),
            log=self.log,
        )

    def log(self, event: str, /, **facts: object) -> None:
        self.said.append((event, facts))
        self.news.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for the worker to say something after which this is true."""
        while not true():
            self.news.clear()
            await self.news.wait()

    def put(self, key: str = "order-1", **more: Any) -> None:
        with self.store.engine.begin() as connection:
            enqueue(connection, MAIL, key=key, now=self.clock.now(), **more)

    async def once(self) -> None:
        await self.worker.work_once()
        await self.worker.idle()

    @property
    def row(self) -> Standing:
        return self.store.standings()[0]

    @property
    def docket(self) -> Docket:
        return self.store.find(ids=[1])[0]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    yield store
    store.engine.dispose()


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(steps, 30))


def test_a_mail_is_sent_once_and_settled(store: Store) -> None:
    world = World(store, FakeTransport(YES), Policy.RESEND_SAME_KEY)
    world.put()

    async def steps() -> None:
        await world.once()
        await world.once()

    run(steps())
    assert (world.row.state, world.row.provider_id, world.row.attempts) == (State.ACCEPTED, "m1", 1)
    assert len(world.transport.sent) == 1


def test_sending_is_committed_before_the_transport_is_asked(store: Store) -> None:
    seen: list[State] = []

    async def look(parcel: Parcel) -> Evidence:
        seen.append(store.standings()[0].state)
        return YES

    world = World(store, FakeTransport(look), Policy.RESEND_SAME_KEY)
    world.put()
    run(world.once())
    assert seen == [State.SENDING]


def test_every_attempt_has_the_same_key_and_the_same_bytes(store: Store) -> None:
    world = World(store, FakeTransport(SILENCE, SILENCE, DOWN, YES), Policy.RESEND_SAME_KEY)
    world.put()

    async def steps() -> None:
        for _ in range(4):
            await world.once()
            world.clock.advance(1_000)

    run(steps())
    assert world.row.state is State.ACCEPTED
    assert len(world.transport.sent) == 4
    assert len(set(world.transport.sent)) == 1


def test_a_refusal_is_failed_after_one_attempt(store: Store) -> None:
    world = World(store, FakeTransport(NO), Policy.RESEND_SAME_KEY)
    world.put()

    async def steps() -> None:
        await world.once()
        world.clock.advance(10_000)
        await world.once()

    run(steps())
    assert world.row.state is State.FAILED
    assert len(world.transport.sent) == 1


class Says:
    """A look-up that always answers this."""

    def __init__(self, answer: LookedUp) -> None:
        self.answer = answer

    async def find(self, docket: Docket) -> LookedUp:
        return self.answer


@pytest.mark.parametrize("before", [(), (SILENCE,)], ids=["at once", "after silence"])
@pytest.mark.parametrize(
    ("lookup", "state", "why"),
    [
        (None, State.UNKNOWN, "the provider knows our key with other bytes"),
        (Says(Unavailable(reason="away")), State.UNKNOWN, "the provider knows our key with other bytes"),
        (Says(NotFound()), State.DEAD, "the provider knows our key with other bytes"),
        (Says(Found(provider_id="m1")), State.ACCEPTED, None),
    ],
    ids=["no look-up", "it is away", "not there", "there"],
)
def test_a_key_that_is_known_with_another_body_is_looked_up_and_never_sent_again(
    store: Store, before: tuple[Evidence, ...], lookup: Says | None, state: State, why: str | None
) -> None:
    """The same bytes would only hear the same. Whom no look-up helps waits for a person."""
    world = World(store, FakeTransport(*before, OTHER_BODY), Policy.RESEND_SAME_KEY)
    world.put()
    reconciler = Reconciler(
        store=store, settings=settings(Policy.RESEND_SAME_KEY), clock=world.clock, lookup=lookup
    )

    async def steps() -> None:
        for _ in range(4):
            await world.once()
            await reconciler.run_once()
            world.clock.advance(10_000)

    run(steps())
    assert len(world.transport.sent) == len(before) + 1
    assert world.docket.state is state
    assert (world.row.last_error or "").startswith(why or "")
    assert (world.row.last_error is None) == (why is None)


def test_a_refusal_after_silence_is_unknown(store: Store) -> None:
    world = World(store, FakeTransport(SILENCE, NO), Policy.RESEND_SAME_KEY)
    world.put()

    async def steps() -> None:
        await world.once()
        world.clock.advance(1_000)
        await world.once()

    run(steps())
    assert (world.docket.state, world.docket.if_not_sent) == (State.UNKNOWN, State.FAILED)


def test_retry_after_is_obeyed(store: Store) -> None:
    world = World(store, FakeTransport(DOWN, YES), Policy.RESEND_SAME_KEY)
    world.put()

    async def steps() -> None:
        await world.once()
        world.clock.advance(4.9)
        await world.once()
        assert len(world.transport.sent) == 1
        world.clock.advance(2.2)
        await world.once()

    run(steps())
    assert world.row.state is State.ACCEPTED


def test_an_outage_longer_than_all_attempts_kills_no_mail(store: Store) -> None:
    world = World(store, FakeTransport(*[DOWN] * 50, YES), Policy.RESEND_SAME_KEY, max_attempts=3)
    world.put()

    async def steps() -> None:
        for _ in range(51):
            await world.once()
            world.clock.advance(700)

    run(steps())
    assert (world.row.state, world.row.attempts) == (State.ACCEPTED, 1)


def test_the_marker_is_committed_where_the_provider_cannot_dedupe(store: Store) -> None:
    marked: list[list[int]] = []

    async def crash(parcel: Parcel) -> Evidence:
        later = world.clock.now().replace(year=2027)
        marked.append(store.park_lost(now=later, dedupes=False))
        return SILENCE

    world = World(store, FakeTransport(crash), Policy.AT_MOST_ONCE)
    world.put()
    run(world.once())
    assert marked == [[1]]


def test_at_most_once_parks_silence(store: Store) -> None:
    world = World(store, FakeTransport(SILENCE), Policy.AT_MOST_ONCE)
    world.put()

    async def steps() -> None:
        await world.once()
        world.clock.advance(100_000)
        await world.once()

    run(steps())
    assert world.row.state is State.UNKNOWN
    assert len(world.transport.sent) == 1


def test_at_least_once_repeats_silence_and_says_so(store: Store) -> None:
    world = World(store, FakeTransport(SILENCE, YES), Policy.AT_LEAST_ONCE)
    world.put()

    async def steps() -> None:
        await world.once()
        world.clock.advance(1_000)
        await world.once()

    run(steps())
    assert (world.row.state, world.row.may_repeat) == (State.ACCEPTED, True)
    assert len(set(world.transport.sent)) == 1


def test_a_worker_whose_lease_was_taken_sends_nothing(store: Store) -> None:
    world = World(store, FakeTransport(YES), Policy.AT_MOST_ONCE)
    world.put()

    async def steps() -> None:
        (zombie,) = store.claim(now=world.clock.now(), limit=1, lease_s=120, dedupes=False)
        world.clock.advance(121)
        store.claim(now=world.clock.now(), limit=1, lease_s=120, dedupes=False)
        await world.worker.deliver(zombie)

    run(steps())
    assert world.transport.sent == []
    assert [event for event, _ in world.said] == ["fenced_out", "late"]


@pytest.mark.parametrize("policy", [Policy.RESEND_SAME_KEY, Policy.AT_MOST_ONCE])
def test_a_worker_that_was_stopped_past_its_lease_sends_nothing(store: Store, policy: Policy) -> None:
    world = World(store, FakeTransport(YES), policy)
    world.put()

    async def steps() -> None:
        (stopped,) = store.claim(now=world.clock.now(), limit=1, lease_s=120, dedupes=policy.dedupes)
        world.clock.advance(121)
        await world.worker.deliver(stopped)

    run(steps())
    assert world.transport.sent == []
    assert world.row.state is State.PENDING


def test_a_bug_in_one_mail_does_not_stop_the_others(store: Store) -> None:
    world = World(store, FakeTransport(RuntimeError("bug"), YES), Policy.RESEND_SAME_KEY, concurrency=1)
    world.put("order-1")
    world.put("order-2")

    async def steps() -> None:
        await world.once()
        await world.once()

    run(steps())
    assert [s.state for s in store.standings()] == [State.SENDING, State.ACCEPTED]
    assert "unexpected" in [event for event, _ in world.said]


def test_a_mail_that_kills_its_worker_each_time_ends_with_a_person(store: Store) -> None:
    world = World(store, FakeTransport(YES), Policy.RESEND_SAME_KEY, max_attempts=3)
    world.put()

    async def steps() -> None:
        for _ in range(3):
            store.claim(now=world.clock.now(), limit=1, lease_s=120, dedupes=True)
            world.clock.advance(121)
        await world.once()

    run(steps())
    assert (world.docket.state, world.docket.if_not_sent) == (State.UNKNOWN, State.DEAD)
    assert world.transport.sent == []


def test_a_mail_that_came_too_late_is_not_sent(store: Store) -> None:
    world = World(store, FakeTransport(YES), Policy.RESEND_SAME_KEY)
    world.put(expires_at=world.clock.now())
    run(world.once())
    assert world.row.state is State.EXPIRED
    assert world.transport.sent == []


@pytest.mark.parametrize("code", [302, 404, 405, 407])
def test_a_wrong_address_never_fails_the_queue_and_ends_only_with_age(store: Store, code: int) -> None:
    wrong = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=code)
    world = World(store, FakeTransport(wrong), Policy.RESEND_SAME_KEY, max_attempts=2)
    world.put()

    async def steps() -> None:
        for _ in range(9):
            await world.once()
            world.clock.advance(1_000)
        assert (world.row.state, world.row.attempts) == (State.PENDING, 0)
        world.clock.advance(2 * 86_400)
        await world.once()

    run(steps())
    assert world.row.state is State.DEAD


@pytest.mark.parametrize("evidence", [YES, SILENCE])
def test_what_comes_to_light_after_a_wrong_not_found_is_not_sent_again(
    store: Store, evidence: Evidence
) -> None:
    """A worker that was stopped for longer than anybody waits has sent after all: its late result is a new doubt."""
    world = World(store, FakeTransport(YES), Policy.AT_MOST_ONCE)
    world.put()
    (zombie,) = store.claim(now=world.clock.now(), limit=1, lease_s=60, dedupes=False)
    assert store.mark(zombie, now=world.clock.now())
    world.clock.advance(61)
    store.park_lost(now=world.clock.now(), dedupes=False)
    not_sent = Decision(
        state=State.PENDING, reason="not sent", next_attempt_at=world.clock.now(), doubt=Doubt.CLEAR
    )
    assert store.resolve(world.docket, not_sent, now=world.clock.now())
    decision = decide(
        classify(evidence),
        evidence,
        zombie,
        settings(Policy.AT_MOST_ONCE),
        now=world.clock.now(),
        rng=random.Random(1),
    )
    assert not store.settle(zombie, decision, now=world.clock.now(), evidence=evidence)
    run(world.once())
    assert world.transport.sent == []
    assert world.row.state is State.UNKNOWN
    assert store.late_acceptance(world.docket) == evidence.provider_id


def test_no_more_mails_are_under_way_than_allowed(store: Store) -> None:
    under_way, most = 0, 0
    gate = asyncio.Event()

    async def wait(parcel: Parcel) -> Evidence:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await gate.wait()
        under_way -= 1
        return YES

    world = World(store, FakeTransport(wait), Policy.RESEND_SAME_KEY, concurrency=3)
    for number in range(5):
        world.put(f"order-{number}")

    async def steps() -> None:
        assert await world.worker.work_once() == 3
        assert await world.worker.work_once() == 0
        gate.set()
        await world.worker.idle()
        await world.once()

    run(steps())
    assert most <= 3
    assert {State.ACCEPTED} == {s.state for s in store.standings()}


class _Flaky(Store):
    """A database that fails the first calls of a method."""

    def __init__(self, store: Store, **failures: int) -> None:
        super().__init__(store.engine)
        self.failures = failures

    def _maybe_fail(self, method: str) -> None:
        if self.failures.get(method, 0) > 0:
            self.failures[method] -= 1
            raise ConnectionError("the database is away")

    def claim(self, **more: Any) -> list[Parcel]:
        self._maybe_fail("claim")
        return super().claim(**more)

    def mark(self, docket: Docket, *, now: datetime) -> bool:
        self._maybe_fail("mark")
        return super().mark(docket, now=now)

    def settle(self, docket: Docket, decision: Decision, **more: Any) -> bool:
        self._maybe_fail("settle")
        return super().settle(docket, decision, **more)


async def moving(world: World, until: Callable[[], bool], step_s: float = 1.0) -> None:
    """Let time pass until something is true."""
    while not until():
        world.clock.advance(step_s)
        await asyncio.sleep(0.001)


def test_an_answer_is_not_lost_to_a_short_outage_of_the_database(store: Store) -> None:
    world = World(_Flaky(store, settle=3), FakeTransport(YES), Policy.RESEND_SAME_KEY)
    world.put()

    async def steps() -> None:
        await world.worker.work_once()
        await moving(world, lambda: world.row.state is State.ACCEPTED)
        await world.worker.idle()

    run(steps())
    assert [(event, facts.get("cause")) for event, facts in world.said][:3] == [
        ("settle_failed", "the database is away")
    ] * 3


def test_without_its_marker_no_mail_leaves(store: Store) -> None:
    world = World(_Flaky(store, mark=1), FakeTransport(YES), Policy.AT_MOST_ONCE)
    world.put()

    async def steps() -> None:
        await world.once()
        assert world.transport.sent == []
        assert world.row.state is State.PENDING
        world.clock.advance(1_000)
        await world.once()

    run(steps())
    assert world.row.state is State.ACCEPTED


def test_a_worker_that_cannot_settle_gives_up_with_its_lease(store: Store) -> None:
    world = World(_Flaky(store, settle=10**9), FakeTransport(YES), Policy.RESEND_SAME_KEY)
    world.put()

    async def steps() -> None:
        await world.worker.work_once()
        idle = asyncio.ensure_future(world.worker.idle())
        await moving(world, idle.done, 30.0)

    run(steps())
    assert world.row.state is State.SENDING


def test_the_loop_survives_a_database_that_is_away(store: Store) -> None:
    world = World(_Flaky(store, claim=4), FakeTransport(YES), Policy.RESEND_SAME_KEY)
    world.put()
    ready: list[int] = []

    async def steps() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(world.worker.run(stop, ready=lambda: ready.append(1)))
        await moving(world, lambda: world.row.state is State.ACCEPTED)
        stop.set()
        await running

    run(steps())
    assert ready == [1]
    failed = [facts for event, facts in world.said if event == "claim_failed"]
    assert [facts["failures"] for facts in failed] == [1, 2, 3, 4]
    assert {(facts["error"], facts["cause"]) for facts in failed} == {
        ("ConnectionError", "the database is away")
    }


def test_the_loop_works_off_more_than_fits_at_once_without_waiting_for_a_poll(store: Store) -> None:
    world = World(store, FakeTransport(YES), Policy.RESEND_SAME_KEY, concurrency=2)
    for number in range(9):
        world.put(f"order-{number}")

    async def steps() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(world.worker.run(stop))
        await world.until(lambda: {State.ACCEPTED} == {s.state for s in store.standings()})
        stop.set()
        await running

    run(steps())
    assert world.clock.monotonic() == 0.0


def test_a_mail_that_is_done_is_no_reason_to_look_where_there_was_room_to_spare(store: Store) -> None:
    """The claim took all there was; new mail comes with a wake-up or a poll."""

    class Counting(Store):
        claims = 0

        def claim(self, **more: Any) -> list[Parcel]:
            self.claims += 1
            return super().claim(**more)

    counting = Counting(store.engine)
    world = World(counting, FakeTransport(YES), Policy.RESEND_SAME_KEY, concurrency=2)
    world.put()

    async def steps() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(world.worker.run(stop))
        await world.until(lambda: world.row.state is State.ACCEPTED)
        for _ in range(20):
            await asyncio.sleep(0)
        stop.set()
        await running

    run(steps())
    assert counting.claims == 1


def test_a_wake_up_beats_the_poll(store: Store) -> None:
    world = World(store, FakeTransport(YES), Policy.RESEND_SAME_KEY)

    async def steps() -> None:
        stop, ready = asyncio.Event(), asyncio.Event()
        running = asyncio.ensure_future(world.worker.run(stop, ready=ready.set))
        await ready.wait()
        world.put()
        world.worker.wake()
        await world.until(lambda: world.row.state is State.ACCEPTED)
        stop.set()
        await running

    run(steps())
    assert world.clock.monotonic() == 0.0


def test_stopping_finishes_what_is_in_flight_and_claims_no_more(store: Store) -> None:
    gate, under_way = asyncio.Event(), asyncio.Event()

    async def wait(parcel: Parcel) -> Evidence:
        under_way.set()
        await gate.wait()
        return YES

    world = World(store, FakeTransport(wait), Policy.RESEND_SAME_KEY, concurrency=1)
    world.put("order-1")
    world.put("order-2")

    async def steps() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(world.worker.run(stop))
        await under_way.wait()
        stop.set()
        await world.until(lambda: "draining" in [event for event, _ in world.said])
        assert not running.done()
        gate.set()
        await running

    run(steps())
    assert [s.state for s in store.standings()] == [State.ACCEPTED, State.PENDING]


def test_draining_ends_with_its_deadline(store: Store) -> None:
    under_way = asyncio.Event()

    async def hang(parcel: Parcel) -> Evidence:
        under_way.set()
        await asyncio.Event().wait()
        return YES

    world = World(store, FakeTransport(hang), Policy.AT_MOST_ONCE)
    world.put()

    async def steps() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(world.worker.run(stop))
        await under_way.wait()
        stop.set()
        await moving(world, running.done)
        await running

    run(steps())
    assert world.clock.monotonic() <= 40.0
    # The row keeps its lease and its marker; the reconciler parks it later.
    assert world.row.state is State.SENDING
    assert store.park_lost(now=world.clock.now().replace(year=2027), dedupes=False) == [1]


def test_the_log_holds_no_address_and_no_body(store: Store) -> None:
    world = World(store, FakeTransport(SILENCE, NO), Policy.RESEND_SAME_KEY)
    world.put()

    async def steps() -> None:
        await world.once()
        world.clock.advance(1_000)
        await world.once()

    run(steps())
    told = str(world.said)
    assert "decided" in told
    assert "ann@" not in told
    assert "Thank you" not in told


@pytest.mark.parametrize("policy", [Policy.RESEND_SAME_KEY, Policy.AT_MOST_ONCE])
def test_a_code_whose_time_ends_on_the_way_to_the_provider_is_not_sent(store: Store, policy: Policy) -> None:
    """The connection took so long that nobody wants the code any more; not even the marker is set."""

    class Slow(FakeTransport):
        async def send(self, parcel: Parcel, **more: Any) -> Evidence:
            world.clock.advance(20)
            return await super().send(parcel, **more)

    world = World(store, Slow(YES), policy)
    world.put(expires_at=world.clock.now() + timedelta(seconds=10))

    async def steps() -> None:
        await world.once()
        assert (world.row.state, world.docket.doubted, world.transport.sent) == (State.PENDING, False, [])
        world.clock.advance(60)
        await world.once()

    run(steps())
    assert (world.row.state, world.row.last_error) == (State.EXPIRED, "its time is over")
    assert world.transport.sent == []
