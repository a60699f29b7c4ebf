"""Tests of processes: who is killed never does anything again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from scenarios.simulation.loop import VirtualLoop, running_in
from scenarios.simulation.network import Network
from scenarios.simulation.processes import CrashPoint, Killed, Process, point
from scenarios.simulation.world import World


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with running_in(VirtualLoop()) as loop:
        Network(loop)
        yield loop


def test_nothing_of_a_killed_process_runs_again(loop: VirtualLoop) -> None:
    """No timer, no `except`, no `finally`."""
    ran: list[str] = []

    async def live() -> None:
        try:
            ran.append("begun")
            await asyncio.sleep(10)
            ran.append("woken")
        finally:
            ran.append("finally")

    process = Process(loop, "victim")
    process.spawn(live)
    loop.call_later(5, process.kill)
    loop.run_until_complete(asyncio.sleep(20))

    assert ran == ["begun"]
    assert process.died.done()


def test_what_a_process_starts_belongs_to_it(loop: VirtualLoop) -> None:
    """Tasks and timers made by a process die with it."""
    ran: list[str] = []

    async def child() -> None:
        await asyncio.sleep(10)
        ran.append("child")

    async def live() -> None:
        keep = asyncio.create_task(child())
        asyncio.get_running_loop().call_later(10, ran.append, "timer")
        await keep

    process = Process(loop, "victim")
    process.spawn(live)
    loop.call_later(5, process.kill)
    loop.run_until_complete(asyncio.sleep(20))

    assert ran == []


def test_every_step_is_a_crash_point(loop: VirtualLoop) -> None:
    """A process that dies at its n-th step has taken n - 1."""
    reached: list[int] = []

    async def live() -> None:
        for number in range(100):
            reached.append(number)
            await asyncio.sleep(1)

    process = Process(loop, "victim", crash=CrashPoint("step", "", 3))
    process.spawn(live)
    loop.run_until_complete(asyncio.sleep(200))

    assert process.dead
    assert len(reached) < 100


def test_a_named_point_kills_at_its_nth_time(loop: VirtualLoop) -> None:
    """Points count for themselves, and code outside of any process passes them unharmed."""

    def body() -> None:
        for _ in range(5):
            point("here")

    process = Process(loop, "victim", crash=CrashPoint("point", "here", 4))
    with pytest.raises(Killed):
        process.run(body)
    body()

    assert process.dead
    assert process.passed["point", "here"] == 4


def test_sigterm_reaches_the_handler_of_the_process(loop: VirtualLoop) -> None:
    """A program that asked for SIGTERM gets it; one that did not, dies of it."""
    heard: list[str] = []

    async def live() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, heard.append, "term")
        await asyncio.sleep(100)

    polite, deaf = Process(loop, "polite"), Process(loop, "deaf")
    polite.spawn(live)
    deaf.spawn(asyncio.sleep, 100)
    loop.call_later(1, polite.terminate)
    loop.call_later(1, deaf.terminate)
    loop.run_until_complete(asyncio.sleep(2))

    assert heard == ["term"]
    assert not polite.dead
    assert deaf.dead


def test_a_death_is_told_once(loop: VirtualLoop) -> None:
    """Killing the dead changes nothing."""
    told: list[str] = []
    process = Process(loop, "victim", on_death=lambda dead, cause: told.append(cause))

    process.kill("first")
    process.kill("second")

    assert told == ["first"]


def test_a_frozen_process_goes_on_where_it_stood() -> None:
    """SIGSTOP and SIGCONT: nothing runs meanwhile, timers run out all the same, and nothing is lost."""
    with World() as world:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                ticks.append(world.loop.time())
                await asyncio.sleep(1.0)

        async def story() -> None:
            process = world.process("ticker")
            process.spawn(tick)
            await asyncio.sleep(2.5)
            process.freeze()
            await asyncio.sleep(10.0)
            process.thaw()
            await asyncio.sleep(1.6)

        world.run(story)

    assert ticks == [0.0, 1.0, 2.0, 12.5, 13.5]


def test_a_process_may_be_frozen_before_a_step_to_come() -> None:
    """A step is the finest place to stop at, and the step itself is not lost."""
    with World() as world:
        seen: list[int] = []

        async def count() -> None:
            for number in range(5):
                seen.append(number)
                await asyncio.sleep(0)

        async def story() -> None:
            process = world.process("counter")
            process.freeze(after=3)
            process.spawn(count)
            await asyncio.sleep(5.0)
            assert seen == [0, 1]
            process.thaw()
            await asyncio.sleep(5.0)

        world.run(story)

    assert seen == [0, 1, 2, 3, 4]


def test_a_process_may_be_frozen_behind_a_named_point() -> None:
    """The step that came by it still ends; it is counted from now, and can be taken back."""
    with World() as world:
        seen: list[str] = []

        async def count() -> None:
            for number in range(4):
                point("here")
                seen.append(f"{number} begins")
                await asyncio.sleep(0)
                seen.append(f"{number} ends")

        async def story() -> None:
            process = world.process("counter")
            process.freeze(2, 3.0, at="point here")
            process.spawn(count)
            await asyncio.sleep(1.0)
            assert seen[-1] == "1 begins"
            await asyncio.sleep(5.0)
            assert seen[-1] == "3 ends"
            lucky = world.process("lucky")
            lucky.freeze(1, at="point here")
            lucky.reprieve()
            lucky.spawn(count)
            await asyncio.sleep(1.0)

        world.run(story)

    assert len(seen) == 16


def test_a_doom_is_counted_from_now_and_can_be_taken_back() -> None:
    """`doom` names the n-th time from now; who is reprieved lives."""
    with World() as world:

        async def story() -> None:
            doomed, lucky = world.process("doomed"), world.process("lucky")
            for process in (doomed, lucky):
                process.passes("point", "door")
                process.doom(CrashPoint("point", "door", 2))
                process.passes("point", "door")
            lucky.reprieve()
            lucky.passes("point", "door")
            with pytest.raises(Killed):
                doomed.passes("point", "door")

        world.run(story)

    assert world.deaths[0][1] == "doomed"
