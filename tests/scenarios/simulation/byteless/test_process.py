"""`kill -9` and SIGSTOP at the model level."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from scenarios.simulation.byteless.outbox import Outbox, Shelf, Transaction
from scenarios.simulation.byteless.process import Process
from scenarios.simulation.byteless.world import World
from scenarios.simulation.processes import CrashPoint, Killed, point
from simulator.provider.provider import Setup


@pytest.fixture
def world() -> Iterator[World]:
    world = World(seed=1, setup=Setup(), shelf=Shelf())
    with world.loop.current():
        yield world


async def _steps(seen: list[str]) -> None:
    try:
        for number in range(1, 4):
            point(f"point {number}")
            seen.append(f"step {number}")
            await asyncio.sleep(1.0)
    finally:
        # No code of a dead process runs, no `finally` either, until the world is over.
        seen.append("finally")


@pytest.mark.parametrize(
    ("crash", "seen"),
    [
        (CrashPoint("point", "point 2", 1), ["step 1", "finally"]),
        (CrashPoint("step", "", 1), []),
        # A sleep that ends is a callback of its own.
        (CrashPoint("step", "", 2), ["step 1"]),
        (CrashPoint("step", "", 3), ["step 1"]),
        (CrashPoint("step", "", 4), ["step 1", "step 2"]),
    ],
    ids=str,
)
def test_a_process_dies_at_its_point(world: World, crash: CrashPoint, seen: list[str]) -> None:
    """The n-th time it comes by, and nothing of it runs afterwards."""
    got: list[str] = []
    process = world.process("worker 1", crash=crash)
    process.spawn(_steps, got)
    world.loop.run_until(60.0)

    assert process.dead
    assert got == seen
    assert world.deaths == [
        (float(len([s for s in seen if s != "finally"])), "worker 1", f"crash point {crash}")
    ]
    assert world.complaints == []


def test_others_live_on(world: World) -> None:
    """Only what belongs to the dead is over."""
    seen: dict[str, list[str]] = {"a": [], "b": []}
    world.process("a", crash=CrashPoint("point", "point 2", 1)).spawn(_steps, seen["a"])
    world.process("b").spawn(_steps, seen["b"])
    world.loop.run_until(60.0)

    assert seen["b"] == ["step 1", "step 2", "step 3", "finally"]


@pytest.mark.parametrize(("name", "there"), [("lost", False), ("unreported", True)])
def test_a_commit_is_done_or_not(world: World, name: str, there: bool) -> None:
    """Killed before it: nothing is written. Killed behind it: everything is."""
    process = world.process("application", crash=CrashPoint("commit", name, 1))

    def transact() -> None:
        with Transaction(world.shelf) as transaction:
            transaction.write(1, {"id": 1})
            transaction.business.append(("order-1", "ada@example.com"))

    with pytest.raises(Killed):
        process.run(transact)

    assert (world.shelf.emails != {}) is (world.shelf.business != []) is there
    # The lock is not kept by the dead.
    assert world.process("worker 1").run(Outbox(world.shelf).standings) is not None
    with pytest.raises(Killed):
        process.run(transact)


def test_a_stopped_process_goes_on_where_it_was(world: World) -> None:
    """Its timers run out meanwhile."""
    seen: list[str] = []
    process = world.process("worker 1")
    process.freezes(CrashPoint("point", "point 2", 1), 30.0)
    process.spawn(_steps, seen)
    world.loop.run_until(20.0)

    assert process.frozen
    assert seen == ["step 1", "step 2"], "the callback that came by the point ends"
    world.loop.run_until(31.5)
    assert seen == ["step 1", "step 2", "step 3"]


def test_a_stopped_process_can_be_killed(world: World) -> None:
    """And is not thawed by the timer that would have done it."""
    seen: list[str] = []
    process = world.process("worker 1")
    process.freezes(CrashPoint("step", "", 2), 30.0)
    process.spawn(_steps, seen)
    world.loop.run_until(10.0)
    process.kill()
    world.loop.run_until(60.0)

    assert seen == ["step 1"]


def test_moments_change_with_what_is_outside(world: World) -> None:
    """Two crash points with the same moment are the same crash."""

    async def program(process: Process) -> None:
        process.passes("point", "a")
        process.passes("point", "b")
        with Transaction(world.shelf) as transaction:
            transaction.write(1, {"id": 1})
        process.passes("point", "c")
        await asyncio.sleep(1.0)
        process.passes("point", "d")

    process = world.process("worker 1", counts=True)
    process.spawn(program, process)
    world.loop.run_until(5.0)
    moments: list[Any] = [process.seen["point", name][0] for name in "abcd"]

    assert moments[0] == moments[1] == process.seen["commit", "lost"][0]
    assert process.seen["commit", "unreported"][0] == moments[2] != moments[1]
    assert moments[3] != moments[2]
