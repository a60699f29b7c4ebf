"""Tests of the guards: what there is not in the world is refused by the name of the call, and nothing hangs."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from scenarios.simulation import guards
from scenarios.simulation.loop import NotInTheWorld
from scenarios.simulation.world import BEGIN, World


def live(life: Callable[[], Any], *, seed: int = 0, skew_s: float = 0.0) -> Any:
    """Let a process of a world live this life."""
    with World(seed=seed) as world:

        async def story() -> Any:
            return await asyncio.gather(
                world.process("worker 1", skew_s=skew_s).spawn(_alive), return_exceptions=True
            )

        async def _alive() -> Any:
            return await life()

        (result,) = world.run(story)
        return result


def once(call: Callable[[], Any]) -> Callable[[], Any]:
    async def life() -> Any:
        return call()

    return life


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: time.sleep(3600), r"worker 1 called time\.sleep\(\), which blocks the loop"),
        (lambda: threading.Thread(target=print).start(), r"worker 1 called threading\.Thread\.start\(\)"),
        (lambda: subprocess.run(["true"], check=True), r"worker 1 called subprocess\.Popen\(\)"),
        (lambda: os.system("true"), r"worker 1 called os\.system\(\)"),
        (lambda: socket.create_connection(("127.0.0.1", 9)), r"worker 1 called socket\."),
        (lambda: socket.socket().connect(("127.0.0.1", 9)), r"worker 1 called socket\.connect\(\)"),
        (lambda: asyncio.get_running_loop().add_reader(0, print), r"worker 1 called loop\.add_reader\(\)"),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_call_that_is_not_of_this_world_is_told_by_its_name(call: Callable[[], Any], says: str) -> None:
    """Even if the program swallows every exception."""

    def swallowed() -> None:
        try:
            call()
        except Exception:
            return

    with pytest.raises(NotInTheWorld, match=says):
        live(once(swallowed))


@pytest.mark.parametrize("name", ["time", "monotonic", "perf_counter"])
def test_a_loop_that_waits_for_a_clock_does_not_hang(name: str) -> None:
    """Time passes while a program awaits, and only then: a busy wait would never end."""
    clock = getattr(time, name)

    def wait() -> None:
        ask = getattr(time, name)
        deadline = ask() + 5.0
        while ask() < deadline:
            pass

    with pytest.raises(NotInTheWorld, match=rf"worker 1 waits in a loop for time\.{name}\(\) to advance"):
        live(once(wait))
    assert getattr(time, name) is clock


def test_a_program_that_insists_is_ended() -> None:
    """A loop around the refused call that catches everything it can must not go on for ever."""

    def insist() -> None:
        while True:
            try:
                time.sleep(1.0)
            except Exception:
                continue

    with pytest.raises(NotInTheWorld, match=r"time\.sleep"):
        live(once(insist))


def test_a_step_that_never_ends_is_interrupted_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that cannot be seen, and plain loops, are told by their line."""
    monkeypatch.setattr(guards, "STEP_LIMIT_S", 0.05)

    def spin() -> None:
        while True:
            pass

    with pytest.raises(
        NotInTheWorld, match=r"worker 1 has blocked the loop for 0\.05 real seconds at test_guards"
    ):
        live(once(spin))


def test_clocks_tell_virtual_time() -> None:
    """`time` and `datetime.now`, each with the skew that a wall clock may have."""

    async def life() -> tuple[float, float, datetime, datetime]:
        await asyncio.sleep(3600)
        return time.monotonic(), time.time(), datetime.now(UTC), datetime.now()

    monotonic, wall, now, local = live(life, skew_s=-5.0)

    assert monotonic == 3600.0
    assert now == BEGIN + timedelta(seconds=3595)
    assert wall == now.timestamp()
    assert local.astimezone(UTC) == now


def test_dice_are_those_of_the_world() -> None:
    """Names and jitter that a program draws are the same in each run of a world, and others in another."""

    def roll() -> tuple[object, ...]:
        return uuid.uuid4(), random.random(), secrets.token_hex(8), random.Random().random(), os.urandom(8)

    assert live(once(roll), seed=1) == live(once(roll), seed=1) != live(once(roll), seed=2)


def test_outside_everything_is_as_it_was() -> None:
    """The harness, and whoever comes after the world, has real clocks, threads and dice."""
    before = (time.sleep, socket.socket.connect, os.urandom, random.getstate())
    with World() as world:
        thread = threading.Thread(target=time.sleep, args=(0.0,))
        thread.start()
        thread.join()
        assert abs(datetime.now(UTC).timestamp() - time.time()) < 60
        world.run(lambda: asyncio.sleep(1.0))

    assert (time.sleep, socket.socket.connect, os.urandom, random.getstate()) == before
    assert abs(datetime.now(UTC) - datetime.fromtimestamp(time.time(), UTC)) < timedelta(minutes=1)
    assert "connect" not in vars(socket.socket)


def test_a_clock_that_was_taken_before_the_world_began_tells_virtual_time_too() -> None:
    """`from time import monotonic` in a library must not depend on when the library was loaded."""
    library = ModuleType("a_library")
    vars(library)["monotonic"] = time.monotonic
    sys.modules["a_library"] = library
    try:
        with World() as world:
            process = world.process("program")
            seen: list[float] = []

            async def story() -> None:
                await asyncio.sleep(86_400)
                seen.append(process.run(lambda: vars(library)["monotonic"]()))

            world.run(story)
        assert seen == [86_400.0]
        assert vars(library)["monotonic"] is time.monotonic
    finally:
        del sys.modules["a_library"]
