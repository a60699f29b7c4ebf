"""A courier: what happens is carried out, on the clock of its account, and goes on where it was."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from simulator.provider.deliveries import State
from simulator.provider.provider import Provider
from simulator.servers.courier import Standing, standing_from
from simulator.store import StoreError
from tests.simulator.provider.mails import BOB, NOW, after, mail, send
from tests.simulator.servers.carried import PATIENCE_S, Scene, play


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
    monkeypatch.setattr("simulator.servers.courier.PAUSE_S", 0.01)

    async def story(scene: Scene) -> None:
        tries = asyncio.Event()
        append = scene.store.append

        def broken(records: object) -> None:
            tries.set()
            raise StoreError("the disk is full")

        scene.store.append = broken  # type: ignore[method-assign] # breaks for a while
        scene.couriers.open(scene.post)
        scene.couriers.begin()
        send(scene.provider, mail())
        scene.couriers.stir()
        async with asyncio.timeout(PATIENCE_S):
            await tries.wait()
        assert scene.post.sent == []
        scene.store.append = append  # type: ignore[method-assign] # and is well again
        await scene.until(lambda: scene.post.sent == ["email.accepted"])

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
