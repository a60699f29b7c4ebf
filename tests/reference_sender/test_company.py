"""Who may claim when, so that a mail that kills its worker takes nobody along; and workers that keep to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from reference_sender.company import Company
from reference_sender.gatekeeper import Gatekeeper
from reference_sender.life import Docket, Parcel, State
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store, enqueue
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.policy.gate import GateRules
from reference_sender.policy.pace import PaceRules
from reference_sender.policy.settings import Policy
from reference_sender.policy.suspects import LOST_TOGETHER
from reference_sender.worker import Worker
from tests.reference_sender.samples import MAIL, ManualClock, parcel, settings

YES = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")


class Member:
    """A worker as its company sees it."""

    def __init__(self, company: Company) -> None:
        self.in_flight = 0
        self.woken = 0
        company.join(self)

    def wake(self) -> None:
        self.woken += 1


class Alarm:
    """One that a test rings."""

    def __init__(self, seconds: float, ring: Callable[[], object]) -> None:
        self.seconds, self.ring = seconds, ring
        self.is_off = False

    def cancel(self) -> None:
        self.is_off = True


class Alarms(ManualClock):
    """A clock whose alarms are rung by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.alarms: list[Alarm] = []

    def alarm(self, seconds: float, call: Callable[[], object]) -> Any:
        self.alarms.append(Alarm(seconds, call))
        return self.alarms[-1]


class TestCompany:
    def test_by_itself_one_may_take_a_suspect_where_there_is_nothing_else(self) -> None:
        company = Company(ManualClock())
        one = Member(company)
        with company.claiming(one) as told:
            assert (told.may_take, told.first) == (True, False)
        one.in_flight = 1
        assert company.lets(one)
        with company.claiming(one) as told:
            assert (told.may_take, told.first) == (False, False)

    def test_who_has_seen_one_goes_first_once_all_hands_are_empty(self) -> None:
        company = Company(ManualClock())
        one, other = Member(company), Member(company)
        one.in_flight = other.in_flight = 1
        with company.claiming(one) as told:
            told.waits = True
        company.took([], alone_s=10.0)
        assert not company.lets(one)
        assert not company.lets(other)
        one.in_flight = 0
        company.took([], alone_s=10.0)
        assert not company.lets(one)
        other.in_flight = 0
        company.took([], alone_s=10.0)
        assert (one.woken, other.woken) == (1, 0)
        assert company.lets(one)
        assert not company.lets(other)
        with company.claiming(one) as told:
            assert (told.may_take, told.first) == (True, True)
            assert not company.lets(other), "its claim is under way"
            told.taken = True
        one.in_flight = 1
        company.took([], alone_s=10.0)
        assert not company.lets(other), "it is alone"
        one.in_flight = 0
        company.took([], alone_s=10.0)
        assert (one.woken, other.woken) == (2, 1)
        assert company.lets(one)
        assert company.lets(other)
        with company.claiming(one) as told:
            assert not told.first, "now it is the others' turn"

    def test_where_somebody_else_took_it_who_was_held_up_is_woken(self) -> None:
        company = Company(ManualClock())
        one, other = Member(company), Member(company)
        with company.claiming(one) as told:
            told.waits = True
        company.took([], alone_s=10.0)
        with company.claiming(one):
            pass
        assert other.woken == 1
        assert company.lets(other)

    def test_a_claim_that_failed_holds_up_nobody(self) -> None:
        company = Company(ManualClock())
        one, other = Member(company), Member(company)

        def fail() -> None:
            with company.claiming(one) as told:
                told.waits = True
                raise ConnectionError

        with pytest.raises(ConnectionError):
            fail()
        assert company.lets(one)
        assert company.lets(other)

    def test_two_claims_at_a_time_take_no_suspect(self) -> None:
        """What one takes would be lost with what the other takes."""
        company = Company(ManualClock())
        one, other = Member(company), Member(company)
        with company.claiming(one) as told:
            assert not told.may_take
            with company.claiming(other) as also_told:
                assert not also_told.may_take


class TestBesideASuspect:
    """Whoever kills its process does so soon: behind that time others go beside it."""

    @staticmethod
    def with_one_out(clock: Alarms, *, losses: int = LOST_TOGETHER) -> tuple[Company, Member, Member, Parcel]:
        """A company of two, the first of whom has a suspect in hand."""
        company = Company(clock)
        one, other = Member(company), Member(company)
        suspect = parcel(id=7, token=3, losses=losses)
        with company.claiming(one) as told:
            told.waits = True
        with company.claiming(one) as told:
            told.taken = True
        one.in_flight = 1
        company.took([suspect], alone_s=10.0)
        return company, one, other, suspect

    @pytest.mark.parametrize(("losses", "seconds"), [(LOST_TOGETHER, 10.0), (LOST_TOGETHER + 2, 40.0)])
    def test_others_are_woken_and_let_in_behind_the_time_alone(self, losses: int, seconds: float) -> None:
        clock = Alarms()
        company, one, other, _ = self.with_one_out(clock, losses=losses)
        assert not company.lets(one)
        assert not company.lets(other)
        (alarm,) = clock.alarms
        assert alarm.seconds == seconds
        woken = (one.woken, other.woken)
        alarm.ring()
        assert (one.woken, other.woken) == (woken[0] + 1, woken[1] + 1)
        for member in (one, other):
            assert company.lets(member)
            with company.claiming(member) as told:
                assert (told.may_take, told.first, told.beside) == (False, False, True)

    def test_one_suspect_at_a_time(self) -> None:
        """Another one has its turn when the first has come to its end, not when the hands are full beside it."""
        clock = Alarms()
        company, one, other, suspect = self.with_one_out(clock)
        clock.alarms[0].ring()
        with company.claiming(other) as told:
            told.waits = True
        other.in_flight = 1
        company.took([parcel(id=8, token=1)], alone_s=10.0)
        assert company.lets(other), "nobody is held up for the second one meanwhile"
        one.in_flight = 0
        company.left(suspect)
        assert not company.lets(one), "now its turn is next"
        assert not company.lets(other), "and what is in hand ends first"
        other.in_flight, woken = 0, other.woken
        company.left(parcel(id=8, token=1))
        assert other.woken == woken + 1
        with company.claiming(other) as told:
            assert (told.first, told.beside) == (True, False)

    def test_what_goes_beside_it_and_ends_changes_nothing(self) -> None:
        clock = Alarms()
        company, one, other, suspect = self.with_one_out(clock)
        clock.alarms[0].ring()
        for leaves, beside in (
            (parcel(id=8, token=3), True),
            (parcel(id=7, token=2), True),
            (suspect, False),
        ):
            company.left(leaves)
            with company.claiming(other) as told:
                assert told.beside is beside
        assert one.in_flight == 1

    def test_the_time_of_one_that_has_ended_lets_nobody_in_to_the_next(self) -> None:
        """Also where its alarm rings although it was called off: it may have been on its way."""
        clock = Alarms()
        company, one, other, suspect = self.with_one_out(clock)
        one.in_flight = 0
        company.left(suspect)
        assert clock.alarms[0].is_off
        with company.claiming(other) as told:
            told.waits = True
        with company.claiming(other) as told:
            told.taken = True
        other.in_flight = 1
        company.took([parcel(id=7, token=4, losses=LOST_TOGETHER)], alone_s=10.0)
        clock.alarms[0].ring()
        assert not company.lets(one)
        assert not company.lets(other)

    def test_who_has_no_suspect_sets_no_alarm(self) -> None:
        clock = Alarms()
        company = Company(clock)
        one = Member(company)
        with company.claiming(one):
            pass
        one.in_flight = 1
        company.took([parcel(id=8, token=1)], alone_s=10.0)
        assert clock.alarms == []


class Line:
    """A transport on which a mail may kill its process; it notes who was on the wire with whom."""

    def __init__(self, *killers: str) -> None:
        self.killers = killers
        self.died = asyncio.Event()
        self.under_way: list[str] = []
        self.order: list[str] = []
        self.met: dict[str, set[str]] = {}

    async def send(
        self, parcel: Parcel, *, key: str, point_of_no_return: Callable[[], Awaitable[bool]]
    ) -> Evidence:
        assert await point_of_no_return()
        self.under_way.append(parcel.key)
        self.order.append(parcel.key)
        for each in self.under_way:
            self.met.setdefault(each, set()).update(self.under_way)
        if parcel.key in self.killers:
            self.died.set()
            await asyncio.Event().wait()
        for _ in range(50):
            await asyncio.sleep(0)  # a few rounds of the loop, in which the others come as far
        self.under_way.remove(parcel.key)
        return YES


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(open_engine(f"sqlite:///{tmp_path / 'outbox.db'}"))
    store.create()
    yield store
    store.engine.dispose()


def put(store: Store, clock: ManualClock, *keys: str, losses: int | None = None) -> None:
    with store.engine.begin() as connection:
        for key in keys:
            enqueue(connection, MAIL, key=key, now=clock.now())
            connection.execute(
                update(outgoing_email).where(outgoing_email.c.dedupe_key == key).values(losses=losses)
            )


def worker(store: Store, wire: Line, clock: ManualClock, news: asyncio.Event, **more: object) -> Worker:
    facts = settings(Policy.RESEND_SAME_KEY, concurrency=3, max_attempts=4)
    return Worker(
        store=store,
        transport=wire,
        settings=facts,
        clock=clock,
        rng=random.Random(1),
        keeper=Gatekeeper(store=store, rules=GateRules(), pace=PaceRules(most=3), clock=clock),
        log=lambda *_, **__: news.set(),
        **more,  # type: ignore[arg-type] # passed on to the worker as it came
    )


async def until(news: asyncio.Event, true: Callable[[], bool]) -> None:
    while not true():
        news.clear()
        await news.wait()


def lease_of(docket: Docket) -> datetime:
    assert docket.lease_until is not None
    return docket.lease_until


def states(store: Store) -> dict[str, State]:
    return {each.key: each.state for each in store.standings()}


def test_a_mail_that_kills_its_workers_ends_alone_and_its_neighbours_are_sent(store: Store) -> None:
    """One worker, killed and started again."""
    clock = ManualClock()
    put(store, clock, "ann", "killer", "bob")
    deaths: list[list[str]] = []

    async def life() -> None:
        wire, news = Line("killer"), asyncio.Event()
        wire.died = news
        running = asyncio.ensure_future(worker(store, wire, clock, news).run(asyncio.Event()))
        await until(news, lambda: bool(wire.met.get("killer")) or states(store)["killer"] is State.UNKNOWN)
        if "killer" in wire.met:
            held = [each for each in store.find(states=[State.SENDING]) if lease_of(each) > clock.now()]
            deaths.append(sorted(each.key for each in held))
        # The process is gone: nothing that it has begun comes to an end.
        running.cancel()

    for _ in range(9):
        asyncio.run(asyncio.wait_for(life(), 30))
        clock.advance(121)
    together, alone = ["ann", "bob", "killer"], ["killer"]
    assert deaths == [together] * LOST_TOGETHER + [alone] * (4 - LOST_TOGETHER)
    assert states(store) == {"ann": State.ACCEPTED, "bob": State.ACCEPTED, "killer": State.UNKNOWN}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_suspect_meets_nobody_and_between_two_of_them_others_have_their_turn(
    store: Store, workers: int
) -> None:
    clock = ManualClock()
    suspects, others = [f"s{n}" for n in range(3)], [f"o{n}" for n in range(30)]
    put(store, clock, *suspects, losses=LOST_TOGETHER)
    put(store, clock, *others)

    async def steps() -> Line:
        wire, news, stop = Line(), asyncio.Event(), asyncio.Event()
        company = Company(clock)
        them = [worker(store, wire, clock, news, company=company) for _ in range(workers)]
        running = [asyncio.ensure_future(each.run(stop)) for each in them]
        await until(news, lambda: set(states(store).values()) == {State.ACCEPTED})
        stop.set()
        await asyncio.gather(*running)
        return wire

    wire = asyncio.run(asyncio.wait_for(steps(), 30))
    assert sorted(wire.order) == sorted([*suspects, *others]), "each once"
    for suspect in suspects:
        assert wire.met[suspect] == {suspect}
    assert max(len(met) for met in wire.met.values()) > 1
    # The clock stands still: nobody waited for a poll.
    assert clock.monotonic() == 0.0
    places = [wire.order.index(suspect) for suspect in suspects]
    assert places[0] > 0
    assert all(later - earlier > 1 for earlier, later in pairwise(places))
