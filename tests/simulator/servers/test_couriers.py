"""Couriers: who has one, and from when on."""

from __future__ import annotations

from simulator.provider.deliveries import State
from simulator.provider.notes import Noted
from tests.simulator.provider.mails import NOW, mail, send
from tests.simulator.servers.carried import Scene, play


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
