"""The endpoints for webhooks in the world: what the provider owes a sender waits for them as long as it must."""

from __future__ import annotations

import asyncio
import json

import pytest

from scenarios.simulation.behaviours import BY_WIRE, HOOKS
from scenarios.simulation.cell import plan_of
from scenarios.simulation.hooks import ANSWERS, start_hooks
from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.world import HTTP_PORT, World
from simulator.config import read_plan

TOLD_FIRST = {name: each for name, each in BY_WIRE["http"].items() if each.hook}


def test_there_is_an_endpoint_for_every_way_but_being_away() -> None:
    assert set(HOOKS) == {*ANSWERS, "is away"}
    assert {each.hook for each in TOLD_FIRST.values()} == set(HOOKS)


@pytest.mark.parametrize("name", TOLD_FIRST)
def test_an_answer_waits_for_its_events(name: str) -> None:
    """Until they were told or refused, or for the three seconds of the rule; the mail is booked whatever happens."""
    with World(seed=7, setup=read_plan(plan_of(BY_ID["http-keys"], (name,)), "test")) as world:

        async def story() -> float:
            await start_hooks(world, [TOLD_FIRST[name]])
            await world.start_provider()
            body = json.dumps({"from": "a@example.org", "to": ["b@example.com"], "text": "x"}).encode()
            reader, writer = await asyncio.open_connection("provider", HTTP_PORT)
            begun = world.loop.time()
            writer.write(
                b"POST /v1/emails HTTP/1.1\r\nHost: p\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()
            return world.loop.time() - begun

        took_s = world.run(story)
        assert world.service is not None
        account = world.service.provider.accounts["default"]
        assert len(account.ledger.acceptances) == 1
        assert world.complaints == []
    assert took_s == pytest.approx(3.0, abs=0.5) if name.endswith("hangs") else took_s < 3.5
    assert "1: " + name in next(iter(account.attempts.values())).rules
