"""The lean loop keeps asyncio's promises in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from scenarios.simulation.byteless.loop import StepLoop, sleep
from scenarios.simulation.loop import Livelock


@pytest.fixture
def loop() -> Iterator[StepLoop]:
    loop = StepLoop()
    with loop.current():
        yield loop


def test_time_goes_from_timer_to_timer(loop: StepLoop) -> None:
    """And no further than it is told."""
    seen: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, loop.time()))

    for name, seconds in (("c", 9.0), ("a", 1.0), ("b", 1.0)):
        loop.create_task(wait(name, seconds))
    loop.run_until(5.0)

    assert seen == [("a", 1.0), ("b", 1.0)]
    assert loop.time() == 5.0
    loop.run_until(9.0)
    assert loop.time() == 9.0
    assert len(seen) == 2, "what is due at the very instant comes behind what the caller does then"
    loop.run_until(9.5)
    assert seen[-1] == ("c", 9.0)


def test_what_the_sender_uses_of_asyncio_works(loop: StepLoop) -> None:
    """Events, wait, gather, timeouts, cancelling, and calls in a thread, which take a step."""
    order: list[str] = []
    nothing: dict[str, str] = {}

    async def everything() -> str:
        event = asyncio.Event()
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(event.wait()),
            asyncio.ensure_future(sleep(loop, 3.0)),
        ]
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert done == {waits[1]}
        waits[0].cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        assert waits[0].cancelled()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await event.wait()
        loop.call_soon(order.append, "somebody else")
        order.append(await asyncio.to_thread(lambda: "thread"))
        with pytest.raises(KeyError):
            await asyncio.to_thread(nothing.__getitem__, "missing")
        return "done"

    task = loop.create_task(everything())
    loop.run_until(10.0)

    assert task.result() == "done"
    assert order == ["somebody else", "thread"]


def test_what_nobody_caught_is_kept(loop: StepLoop) -> None:
    """A bug in a callback is a complaint, not the end of the world."""
    loop.call_soon({}.__getitem__, "missing")
    loop.run_until(1.0)

    (complaint,) = loop.complaints
    assert "KeyError('missing')" in complaint


def test_a_loop_that_goes_round_and_round_is_told(loop: StepLoop) -> None:
    """Nobody waits for a search that stands still."""

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(Livelock, match="time stands still"):
        loop.run_until(1.0)


def test_what_never_finished_is_closed_without_a_word() -> None:
    """Its `finally` may ask for more of a loop that is over."""
    loop = StepLoop()
    ended: list[str] = []

    async def stubborn() -> None:
        try:
            await sleep(loop, 5.0)
        finally:
            ended.append("finally")
            await sleep(loop, 5.0)

    with loop.current():
        loop.create_task(stubborn())
        loop.run_until(1.0)

    assert ended == ["finally"]
