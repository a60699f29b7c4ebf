"""Tests of the loop in virtual time."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest

from scenarios.simulation.loop import Livelock, NotInTheWorld, SleepsForever, VirtualLoop, running_in
from scenarios.simulation.network import Network
from scenarios.simulation.processes import Process


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


def test_timers_of_one_instant_fire_in_the_order_in_which_they_were_set(loop: VirtualLoop) -> None:
    """Whatever other timers there are before, between and behind them."""
    seen: list[int] = []
    for number in range(40):
        loop.call_at(5.0, seen.append, number)
        loop.call_at(float(number % 7), lambda: None)
    loop.run_until_complete(asyncio.sleep(6))

    assert seen == list(range(40))


def test_a_callback_set_for_somebody_else_is_counted_as_a_change_outside(loop: VirtualLoop) -> None:
    """One that a process sets for itself is in its own memory."""
    Network(loop)
    process = Process(loop, "victim")
    process.tell_moments()
    before = loop.outside

    process.run(lambda: loop.call_soon(print))
    process.run(lambda: loop.call_later(1.0, print))
    assert loop.outside == before
    process.run(lambda: loop.call_soon(print, context=contextvars.Context()))
    assert loop.outside == before + 1


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
