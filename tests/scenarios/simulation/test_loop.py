"""Tests of the loop in virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from scenarios.simulation.loop import Livelock, NotInTheWorld, SleepsForever, VirtualLoop, running_in


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with running_in(VirtualLoop()) as loop:
        yield loop


def test_a_day_passes_at_once(loop: VirtualLoop) -> None:
    """Waiting is a jump of the clock, also beyond the 24 hours after which asyncio looks again."""
    loop.run_until_complete(asyncio.sleep(3 * 86_400))

    assert loop.time() == 3 * 86_400


def test_timers_fire_in_their_order(loop: VirtualLoop) -> None:
    """The clock stands exactly at each timer when it fires."""
    seen: list[float] = []
    for delay in (3.3, 1.1, 2.2):
        loop.call_later(delay, lambda: seen.append(loop.time()))
    loop.run_until_complete(asyncio.sleep(4))

    assert seen == [1.1, 2.2, 3.3]


def test_sleeping_for_ever_is_said(loop: VirtualLoop) -> None:
    """A wait that nothing can end is an error, not a hang."""
    with pytest.raises(SleepsForever, match="no timer is set"):
        loop.run_until_complete(loop.create_future())


def test_a_livelock_is_said(loop: VirtualLoop) -> None:
    """A poller that never waits would keep the clock still for ever."""

    async def poll() -> None:
        while True:  # noqa: ASYNC110 - the very mistake
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="time does not advance"):
        loop.run_until_complete(poll())


def test_to_thread_runs_inline(loop: VirtualLoop) -> None:
    """There is one thread, so every run takes the same steps."""
    assert loop.run_until_complete(asyncio.to_thread(threading.get_ident)) == threading.get_ident()


def test_an_exception_in_to_thread_reaches_the_caller(loop: VirtualLoop) -> None:
    """Inline does not mean that errors get lost."""

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        loop.run_until_complete(asyncio.to_thread(fail))


@pytest.mark.parametrize("call", ["add_reader", "add_writer"])
def test_descriptors_are_refused_by_name(loop: VirtualLoop, call: str) -> None:
    """A program that needs a real machine is told which call it made."""
    with pytest.raises(NotInTheWorld, match=call):
        getattr(loop, call)(0, print)


def test_child_processes_are_refused_by_name(loop: VirtualLoop) -> None:
    """So are children."""
    with pytest.raises(NotInTheWorld, match="subprocess_exec"):
        loop.run_until_complete(asyncio.create_subprocess_exec("true"))
