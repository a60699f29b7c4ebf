"""Tests of couriers: when they move, what they write down, and that none is left behind. The channel is a made-up one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from simulator.clock import SystemClock
from simulator.provider.deliveries import Delivery, Schedule, State, Try, keyed
from simulator.provider.events import Event
from simulator.provider.notes import Noted
from simulator.provider.notices import Notice, notice_of
from simulator.provider.provider import Account, Provider, Record
from simulator.servers.alarms import Alarms
from simulator.servers.couriers import Courier, Couriers, Standing, Terms, standing_from
from simulator.store import StoreError
from simulator.store.committer import Committer
from simulator.store.memory import MemoryStore
from tests.simulator.provider.mails import BOB, NOW, after, mail, send

PATIENCE_S = 10.0


class Post:
    """A channel that writes down what it is handed, and answers what it is told to."""

    name = "post"

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.statuses: list[int] = [200]
        self.on = True
        self.disable_after_s: float | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: Callable[[], None] = lambda: None

    def terms(self, account: Account) -> Terms | None:
        if not self.on:
            return None
        schedule = Schedule(delays_s=(60.0, 60.0))
        return Terms(target="post", schedule=schedule, connections=2, disable_after_s=self.disable_after_s)

    def notices(self, event: Event, account: Account) -> list[Notice]:
        return keyed([notice_of(event)])

    async def send(self, delivery: Delivery, account: Account) -> Try:
        self.sent.append(delivery.notices[0].event.type)
        self.asked()
        await self.gate.wait()
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return Try(at=NOW, took_s=0.0, status=status)


class StuckClock(SystemClock):
    """Real waiting, but the time stands still unless the account's clock is moved."""

    def now(self) -> datetime:
        return NOW


class Scene:
    """A provider with couriers around it."""

    def __init__(self, provider: Provider | None = None) -> None:
        self.provider = provider or Provider(now=NOW)
        self.store = MemoryStore()
        self.written: list[Record] = []
        clock = StuckClock()
        self.alarms = Alarms(clock)
        self.committer = Committer(self._records, self.store)
        self.moves = 0
        self.moved = asyncio.Event()
        self.couriers = Couriers(self.provider, self.committer, clock, self.alarms, self._moved)
        self.post = Post()
        self.post.asked = self._moved

    def _records(self) -> list[Record]:
        records = self.provider.records()
        self.written += records
        return records

    def _moved(self) -> None:
        self.moves += 1
        self.moved.set()
        self.moved = asyncio.Event()

    @property
    def courier(self) -> Courier:
        courier = self.couriers.of("default", "post")
        assert courier is not None
        return courier

    def states(self) -> list[State]:
        return [each.state for each in self.courier.deliveries.all.values()]

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                await self.moved.wait()

    def advance(self, seconds: float) -> None:
        self.provider.advance("default", seconds, NOW)
        self.alarms.moved("default", seconds)
        self.couriers.refresh("default")

    async def close(self) -> None:
        await self.couriers.close()
        await self.committer.close()


def play(story: Callable[[Scene], Awaitable[None]], provider: Provider | None = None) -> Scene:
    async def scenario() -> Scene:
        scene = Scene(provider)
        try:
            await story(scene)
        finally:
            await scene.close()
        return scene

    return asyncio.run(scenario())


def test_events_are_carried_out_as_they_happen_by_the_accounts_clock() -> None:
    async def story(scene: Scene) -> None:
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        send(scene.provider, mail())
        scene.couriers.stir()
        await scene.until(lambda: scene.post.sent == ["email.accepted"])
        scene.advance(5)
        await scene.until(lambda: scene.states() == [State.DELIVERED] * 2)
        assert scene.post.sent == ["email.accepted", "email.delivered"]
        assert scene.couriers.counts == {("post", "delivered"): 2}
        assert scene.couriers.attempts == {"post": 2}
        assert scene.couriers.waiting() == {"post": 0}

    play(story)


def test_what_failed_is_carried_again_when_its_time_has_come() -> None:
    async def story(scene: Scene) -> None:
        scene.post.statuses = [500, 200]
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        send(scene.provider, mail())
        scene.couriers.stir()
        await scene.until(lambda: scene.states() == [State.WAITING])
        assert scene.courier.standing.failing_since is not None
        scene.advance(60)
        await scene.until(lambda: scene.states() == [State.DELIVERED] * 2)
        assert scene.courier.standing.failing_since is None

    play(story)


def test_nobody_hears_of_mail_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the ledger cannot be written nothing is told; when it can again, it is."""
    monkeypatch.setattr("simulator.servers.couriers.PAUSE_S", 0.01)

    async def story(scene: Scene) -> None:
        tries = asyncio.Event()
        append = scene.store.append

        def broken(records: object) -> None:
            tries.set()
            raise StoreError("the disk is full")

        scene.store.append = broken  # type: ignore[method-assign]
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        send(scene.provider, mail())
        scene.couriers.stir()
        async with asyncio.timeout(PATIENCE_S):
            await tries.wait()
        assert scene.post.sent == []
        scene.store.append = append  # type: ignore[method-assign]
        await scene.until(lambda: scene.post.sent == ["email.accepted"])

    play(story)


def test_a_courier_comes_and_goes_with_its_terms_and_its_account() -> None:
    """Taken away, what is left is dropped; a reset begins anew."""

    async def story(scene: Scene) -> None:
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        first = scene.courier
        scene.post.statuses = [500]
        send(scene.provider, mail())
        scene.couriers.stir()
        await scene.until(lambda: scene.states() == [State.WAITING])
        scene.post.on = False
        scene.couriers.refresh("default")
        assert scene.couriers.of("default", "post") is None
        assert [each.state for each in first.deliveries.all.values()] == [State.DROPPED]
        assert scene.couriers.counts == {("post", "dropped"): 1}

        scene.post.on = True
        scene.provider.reset("default", NOW)
        scene.couriers.refresh("default")
        assert scene.courier is not first
        assert scene.states() == []

    play(story)


def test_an_endpoint_that_fails_for_too_long_is_given_up() -> None:
    """What happens then is not kept for it; `enable` begins anew from there."""

    async def story(scene: Scene) -> None:
        scene.post.statuses, scene.post.disable_after_s = [500], 100
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        send(scene.provider, mail(BOB))
        scene.couriers.stir()
        await scene.until(lambda: scene.states() == [State.WAITING])
        scene.advance(60)
        await scene.until(lambda: len(scene.post.sent) == 3)
        scene.advance(60)
        await scene.until(lambda: scene.courier.standing.disabled_at is not None)
        assert set(scene.states()) <= {State.DROPPED, State.FAILED}
        send(scene.provider, mail(BOB), after(0))
        scene.advance(60)

        scene.post.statuses = [200]
        scene.courier.enable()
        before = len(scene.post.sent)
        send(scene.provider, mail(BOB), after(0))
        scene.couriers.stir()
        await scene.until(lambda: len(scene.post.sent) == before + 1)

    play(story)


def test_a_process_after_the_first_goes_on_where_it_was() -> None:
    """What was told is not told again, what was under way is, and what happened meanwhile is."""

    async def first(scene: Scene) -> None:
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        send(scene.provider, mail())
        scene.couriers.stir()
        await scene.until(lambda: scene.states() == [State.DELIVERED])
        scene.post.gate.clear()
        scene.advance(5)
        await scene.until(lambda: len(scene.post.sent) == 2)
        await scene.committer.commit()
        send(scene.provider, mail())  # and nobody is there to carry its events

    async def second(scene: Scene) -> None:
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        await scene.until(lambda: len(scene.post.sent) == 2)
        await scene.until(lambda: scene.states() == [State.DELIVERED] * 3)
        assert sorted(scene.post.sent) == ["email.accepted", "email.delivered"]

    before = play(first)
    provider = Provider(now=NOW)
    provider.restore([*before.written, *before.provider.records()], NOW)
    play(second, provider)


def test_told_returns_when_what_has_happened_has_been_tried() -> None:
    async def story(scene: Scene) -> None:
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        scene.post.statuses = [500]
        scene.post.gate.clear()
        attempt, _ = send(scene.provider, mail())
        telling = asyncio.ensure_future(
            scene.courier.told(
                lambda notice: notice.event.mail is not None and notice.event.mail.attempt == attempt.id
            )
        )
        await scene.until(lambda: bool(scene.post.sent))
        assert not telling.done()
        scene.post.gate.set()
        async with asyncio.timeout(PATIENCE_S):
            await telling
        assert scene.post.sent == ["email.accepted"]

    play(story)


def test_the_first_mail_of_a_new_account_is_told_of_and_what_was_before_a_webhook_is_not() -> None:
    async def story(scene: Scene) -> None:
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        send(scene.provider, mail(), account="new")
        scene.couriers.mind()
        assert any(isinstance(each, Noted) for each in scene.provider.records())
        scene.couriers.stir()
        await scene.until(lambda: scene.post.sent == ["email.accepted"])

        scene.post.on = False
        scene.couriers.refresh("default")
        send(scene.provider, mail())
        scene.advance(5)
        scene.couriers.stir()
        scene.post.on = True
        scene.couriers.refresh("default")
        send(scene.provider, mail())
        scene.couriers.stir()
        await scene.until(lambda: len(scene.post.sent) == 2)

    play(story)


@pytest.mark.parametrize(
    "standing",
    [
        Standing(),
        Standing(
            cursor=(NOW, (1, 2, 3)),
            failing_since=NOW,
            disabled_at=NOW + timedelta(seconds=1),
            why="it answered 410 Gone",
        ),
    ],
)
def test_a_standing_can_be_written_and_read(standing: Standing) -> None:
    assert standing_from(standing.facts()) == standing
