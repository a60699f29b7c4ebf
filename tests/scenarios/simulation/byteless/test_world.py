"""A world without bytes: clocks, processes, and a provider that outlives them."""

from __future__ import annotations

from datetime import timedelta

from reference_sender.policy.evidence import Wire
from scenarios.simulation.byteless.outbox import Shelf
from scenarios.simulation.byteless.world import Clock, World
from scenarios.simulation.world import BEGIN
from simulator.provider.provider import DEFAULT_ACCOUNT, Setup


def test_clocks_tell_virtual_time() -> None:
    """The world's, and one that is wrong."""
    world = World(seed=1, setup=Setup(), shelf=Shelf())
    wrong = Clock(world.loop, -25.0)
    with world.loop.current():
        assert (world.now, wrong.now()) == (BEGIN, BEGIN - timedelta(seconds=25))
        world.loop.run_until(7.5)

    assert world.now == world.clock.now() == BEGIN + timedelta(seconds=7.5)
    assert wrong.now() == BEGIN - timedelta(seconds=17.5)
    assert world.time() == wrong.monotonic() == 7.5


def test_a_line_ends_with_its_process() -> None:
    """The provider sees it, as a kernel would tell it."""
    world = World(seed=1, setup=Setup(), shelf=Shelf())
    with world.loop.current():
        process = world.process("worker 1")
        process.spawn(world.dial, Wire.SMTP)
        world.loop.run_until(1.0)
        (line,) = world.lines
        before = world.moment()
        process.kill()
        world.loop.run_until(2.0)

    (attempt,) = world.provider.accounts[DEFAULT_ACCOUNT].attempts.values()
    assert line.closed
    assert attempt.closed_at == BEGIN + timedelta(seconds=1)
    assert world.moment() != before
    assert world.deaths == [(1.0, "worker 1", "kill -9")]
