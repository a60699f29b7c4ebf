"""The reconciler: late answers, look-ups, policies – in that order – against a real outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from reference_sender.life import Docket, State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.hearing import Fact, Fate, Settled
from reference_sender.policy.lookup import Found, LookedUp, NotFound, Unavailable
from reference_sender.policy.settings import Policy
from reference_sender.reconciler import Reconciled, Reconciler
from tests.reference_sender.samples import MAIL, ManualClock, settings


class FakeLookup:
    """Answers from a script and counts the questions."""

    def __init__(self, *answers: LookedUp) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def find(self, docket: Docket) -> LookedUp:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class World:
    """One mail in doubt, and a reconciler."""

    def __init__(self, store: Store, policy: Policy, lookup: FakeLookup | None = None, **more: Any) -> None:
        self.store, self.clock, self.lookup = store, ManualClock(), lookup
        self.settings = settings(policy, **more)
        self.said: list[str] = []
        self.causes: list[object] = []
        self.reconciler = Reconciler(
            store=store, settings=self.settings, clock=self.clock, lookup=lookup, log=self.log
        )
        with store.engine.begin() as connection:
            enqueue(connection, MAIL, key="order-1", now=self.clock.now())

    def log(self, event: str, /, **facts: object) -> None:
        self.said.append(event)
        self.causes += [facts["cause"]] if "cause" in facts else []

    def claim(self) -> Docket:
        (parcel,) = self.store.claim(now=self.clock.now(), limit=1, lease_s=60, dedupes=False)
        assert self.store.mark(parcel, now=self.clock.now())
        return parcel

    def park(self, if_not_sent: State = State.PENDING) -> None:
        decision = Decision(
            state=State.UNKNOWN,
            reason="silence",
            next_attempt_at=self.clock.now(),
            doubt=Doubt.NEW,
            if_not_sent=if_not_sent,
        )
        assert self.store.settle(self.claim(), decision, now=self.clock.now())

    def once(self) -> Reconciled:
        return asyncio.run(self.reconciler.run_once())

    @property
    def row(self) -> Docket:
        return self.store.find(ids=[1])[0]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    yield store
    store.engine.dispose()


def test_a_lost_worker_leaves_an_unknown_row_that_stays_parked(store: Store) -> None:
    world = World(store, Policy.AT_MOST_ONCE)
    world.claim()
    assert world.once() == Reconciled(parked=0, looked_at=0, resolved=0)
    world.clock.advance(61)
    assert world.once() == Reconciled(parked=1, looked_at=1, resolved=0)
    world.clock.advance(10_000)
    world.once()
    assert (world.row.state, world.row.if_not_sent) == (State.UNKNOWN, State.PENDING)


def test_more_than_a_pass_takes_is_no_reason_to_rest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage thousands may be in doubt, and the key window runs."""
    monkeypatch.setattr("reference_sender.reconciler._AT_ONCE", 2)
    world = World(store, Policy.AT_LEAST_ONCE)
    with store.engine.begin() as connection:
        for number in range(2, 6):
            enqueue(connection, MAIL, key=f"order-{number}", now=world.clock.now())
    for _ in range(5):
        world.park()

    async def story() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(world.reconciler.run(stop))
        async with asyncio.timeout(60):
            for _ in range(6_000):
                await asyncio.sleep(0.01)
                if world.said.count("reconciled") == 5:
                    break
        stop.set()
        await running
        assert world.said.count("reconciled") == 5

    asyncio.run(story())


def test_a_look_up_that_finds_it_settles_it(store: Store) -> None:
    world = World(store, Policy.AT_MOST_ONCE, FakeLookup(Found(provider_id="m1")))
    world.park()
    assert world.once().resolved == 1
    assert (world.row.state, world.row.provider_id) == (State.ACCEPTED, "m1")


def test_not_found_counts_only_after_lag_and_flight(store: Store) -> None:
    world = World(store, Policy.AT_MOST_ONCE, FakeLookup(NotFound()), lookup_lag_s=10.0, in_flight_s=20.0)
    world.park()
    world.once()
    assert world.row.state is State.UNKNOWN
    world.clock.advance(29)
    world.once()
    assert world.row.state is State.UNKNOWN
    world.clock.advance(1)
    world.once()
    assert (world.row.state, world.row.doubted_at) == (State.PENDING, None)


@pytest.mark.parametrize("away_s", [61.0, 7_200.0])
def test_while_a_lost_worker_may_still_be_sending_not_found_does_not_count(
    store: Store, away_s: float
) -> None:
    """What counts is when the row was taken from the worker, not when its attempt began or its lease ended."""
    world = World(store, Policy.AT_MOST_ONCE, FakeLookup(NotFound()), lookup_lag_s=10.0, in_flight_s=20.0)
    world.claim()
    world.clock.advance(away_s)
    assert world.once().parked == 1
    world.clock.advance(29)
    world.once()
    assert world.row.state is State.UNKNOWN
    world.clock.advance(1)
    world.once()
    assert (world.row.state, world.row.doubted_at) == (State.PENDING, None)


def test_what_a_stopped_worker_sent_after_its_lease_begins_the_waiting_anew(store: Store) -> None:
    """It was stopped between its look at the lease and the first byte, and went on when it was parked already."""
    world = World(store, Policy.AT_MOST_ONCE, FakeLookup(NotFound()), lookup_lag_s=10.0, in_flight_s=20.0)
    zombie = world.claim()
    world.clock.advance(61)
    world.once()
    world.clock.advance(29)
    silence = Decision(
        state=State.UNKNOWN,
        reason="silence",
        next_attempt_at=world.clock.now(),
        doubt=Doubt.NEW,
        if_not_sent=State.PENDING,
    )
    assert not store.settle(zombie, silence, now=world.clock.now())
    world.clock.advance(29)
    world.once()
    assert world.row.state is State.UNKNOWN
    world.clock.advance(1)
    world.once()
    assert (world.row.state, world.row.doubted_at) == (State.PENDING, None)


def test_what_turns_up_late_is_found(store: Store) -> None:
    world = World(store, Policy.AT_MOST_ONCE, FakeLookup(NotFound(), Found(provider_id="m1")))
    world.park()
    world.once()
    world.clock.advance(1_000)
    world.once()
    assert world.row.state is State.ACCEPTED


def test_a_refusal_after_doubt_is_failed_once_not_sent_is_proved(store: Store) -> None:
    world = World(store, Policy.RESEND_SAME_KEY, FakeLookup(NotFound()))
    world.park(State.FAILED)
    world.clock.advance(1_000)
    world.once()
    assert world.row.state is State.FAILED


def test_a_look_up_that_does_not_answer_changes_nothing(store: Store) -> None:
    world = World(store, Policy.AT_MOST_ONCE, FakeLookup(Unavailable(reason="down")))
    world.park()
    for _ in range(3):
        world.once()
        world.clock.advance(10_000)
    assert (world.row.state, world.row.last_error) == (State.UNKNOWN, "silence")


def test_a_late_answer_is_as_good_as_a_look_up(store: Store) -> None:
    lookup = FakeLookup(NotFound())
    world = World(store, Policy.AT_MOST_ONCE, lookup)
    zombie = world.claim()
    world.clock.advance(61)
    world.once()
    assert not store.settle(
        zombie,
        Decision(state=State.ACCEPTED, reason="accepted", provider_id="m1"),
        now=world.clock.now(),
        evidence=Evidence(wire=Wire.SMTP, phase=Phase.SENT, code=250),
    )
    world.once()
    assert (world.row.state, world.row.provider_id) == (State.ACCEPTED, "m1")
    assert lookup.asked == 1


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        (Policy.AT_MOST_ONCE, State.UNKNOWN),
        (Policy.AT_LEAST_ONCE, State.PENDING),
        (Policy.RESEND_SAME_KEY, State.PENDING),
    ],
)
def test_without_a_look_up_the_policy_decides(store: Store, policy: Policy, state: State) -> None:
    world = World(store, policy)
    world.park()
    world.once()
    assert state is world.row.state
    assert world.row.doubted
    assert (policy is Policy.AT_LEAST_ONCE) == store.standings()[0].may_repeat


def test_a_pass_may_be_repeated(store: Store) -> None:
    world = World(store, Policy.AT_MOST_ONCE, FakeLookup(Found(provider_id="m1")))
    world.park()
    assert [world.once().resolved for _ in range(2)] == [1, 0]


def test_two_passes_at_once_resolve_a_row_once(store: Store) -> None:
    world = World(store, Policy.AT_MOST_ONCE, FakeLookup(Found(provider_id="m1")))
    world.park()

    async def both() -> list[Reconciled]:
        return list(await asyncio.gather(world.reconciler.run_once(), world.reconciler.run_once()))

    assert sum(done.resolved for done in asyncio.run(both())) == 1


def test_parked_rows_do_not_stand_in_the_way_of_others(store: Store) -> None:
    world = World(store, Policy.AT_MOST_ONCE)
    world.park()
    assert world.once().looked_at == 1
    assert world.once().looked_at == 0


def test_a_row_that_makes_trouble_does_not_keep_the_others_in_doubt(store: Store) -> None:
    class Picky(FakeLookup):
        async def find(self, docket: Docket) -> LookedUp:
            if docket.id == 1:
                raise ValueError("odd")
            return await super().find(docket)

    world = World(store, Policy.AT_MOST_ONCE, Picky(Found(provider_id="msg_2")))
    world.park()
    with store.engine.begin() as connection:
        enqueue(connection, MAIL, key="order-2", now=world.clock.now())
    world.park()
    assert world.once() == Reconciled(parked=0, looked_at=2, resolved=1)
    assert [each.state for each in store.find(ids=[1, 2])] == [State.UNKNOWN, State.ACCEPTED]
    assert sorted(world.said) == ["reconcile_failed", "reconciled"]


def test_a_pass_over_many_beats_with_each_of_them(store: Store) -> None:
    """A look-up that hangs takes half a minute a mail: a hundred of them were an hour of red health, and a restart each minute."""
    beaten: list[int] = []
    beats_seen: list[int] = []

    class Slow(FakeLookup):
        async def find(self, docket: Docket) -> LookedUp:
            beats_seen.append(len(beaten))
            return Unavailable(reason="timeout")

    world = World(store, Policy.AT_MOST_ONCE)
    with store.engine.begin() as connection:
        for number in (2, 3):
            enqueue(connection, MAIL, key=f"order-{number}", now=world.clock.now())
    for _ in range(3):
        world.park()
    reconciler = Reconciler(
        store=store,
        settings=world.settings,
        clock=world.clock,
        lookup=Slow(NotFound()),
        beat=lambda: beaten.append(1),
    )
    asyncio.run(reconciler.run_once())
    assert beats_seen == [0, 1, 2]


def test_the_loop_survives_trouble_and_ends_when_told(store: Store) -> None:
    world = World(store, Policy.AT_MOST_ONCE, FakeLookup(Found(provider_id="m1")))
    world.park()
    store.engine.dispose()
    broken = world.lookup
    assert broken is not None

    async def fail(docket: Docket) -> LookedUp:
        broken.find = FakeLookup(Found(provider_id="m1")).find  # type: ignore[method-assign]
        raise RuntimeError("bug")

    broken.find = fail  # type: ignore[method-assign]

    async def steps() -> None:
        stop = asyncio.Event()
        running = asyncio.ensure_future(world.reconciler.run(stop))
        while world.row.state is not State.ACCEPTED:
            world.clock.advance(1)
            await asyncio.sleep(0.001)
        stop.set()
        await running

    asyncio.run(asyncio.wait_for(steps(), 30))
    assert world.said == ["reconcile_failed", "reconciled"]
    assert world.causes == ["bug"]


def test_what_the_provider_told_is_as_good_as_a_look_up(store: Store) -> None:
    """And comes before it: nobody has to be asked."""
    lookup = FakeLookup(NotFound())
    world = World(store, Policy.AT_MOST_ONCE, lookup)
    world.park()
    (docket,) = store.find(ids=[1])
    store.receive([("evt_1", b"{}")], source="webhook", now=world.clock.now())
    (told,) = store.due_events(now=world.clock.now(), limit=1)
    fact = Fact(kind="delivered", happened_at=world.clock.now(), provider_id="m7")
    settled = Settled(fate=Fate.APPLIED, reason="x", docket=docket, fact=fact)
    assert store.conclude(told, settled, now=world.clock.now())
    asyncio.run(world.reconciler.run_once())
    (mail,) = store.find(ids=[1])
    assert (mail.state, mail.provider_id, lookup.asked) == (State.ACCEPTED, "m7", 0)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize(
    "edited", [{"state": State.SENDING, "next_attempt_at": None}, {"next_attempt_at": None}]
)
def test_a_row_edited_by_hand_is_parked_and_never_goes_by_itself(
    store: Store, policy: Policy, edited: dict[str, Any]
) -> None:
    """Whatever the policy repeats: a person made it what it is, and a person says what becomes of it."""
    world = World(store, policy)
    with store.engine.begin() as connection:
        connection.execute(update(outgoing_email).values(**edited))
    assert world.once() == Reconciled(parked=1, looked_at=1, resolved=0)
    assert world.said == ["parked"]
    world.clock.advance(10_000)
    assert world.once() == Reconciled(parked=0, looked_at=1, resolved=0)
    assert (world.row.state, world.row.if_not_sent) == (State.UNKNOWN, State.DEAD)
    assert "the row was edited by hand" in (world.row.last_error or "")
