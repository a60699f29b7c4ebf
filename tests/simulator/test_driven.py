"""A driven coroutine does what a task does, sooner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from simulator.driven import Driven, Waiter, parked


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def driven(coroutine: Coroutine[Any, Any, None]) -> Driven:
    return Driven(coroutine, asyncio.get_running_loop())


async def a_turn() -> None:
    await asyncio.sleep(0)


class Worker:
    """Waits for one thing after the other."""

    def __init__(self) -> None:
        self.waiters: list[Waiter[Any]] = []
        self.got: list[Any] = []
        self.ended: BaseException | None = None

    async def work(self, times: int = 2) -> None:
        try:
            for _ in range(times):
                self.waiters.append(parked())
                self.got.append(await self.waiters[-1])
        except BaseException as end:
            self.ended = end
            raise


def test_it_goes_on_within_the_call_that_sets_what_it_waits_for() -> None:
    async def story() -> None:
        worker = Worker()
        it = driven(worker.work())
        await a_turn()
        worker.waiters[0].set_result("a")
        assert worker.got == ["a"]
        worker.waiters[1].set_result("b")
        assert worker.got == ["a", "b"]
        assert it.done()
        await it

    run(story)


def test_one_that_is_set_by_another_goes_on_after_it() -> None:
    """A thousand sessions that wake each other are no thousand calls deep."""

    async def story() -> None:
        first, second = Worker(), Worker()
        order: list[str] = []

        async def wake() -> None:
            await parked_by(first)
            second.waiters[0].set_result("x")
            order.append("first is through")

        async def parked_by(worker: Worker) -> Any:
            worker.waiters.append(parked())
            return await worker.waiters[0]

        async def woken() -> None:
            await parked_by(second)
            order.append("second")

        both = driven(wake()), driven(woken())
        await a_turn()
        first.waiters[0].set_result(None)
        assert order == ["first is through"]
        await asyncio.gather(*both)
        assert order == ["first is through", "second"]

    run(story)


def test_one_that_is_set_before_it_is_awaited_is_there() -> None:
    async def story() -> None:
        got: list[Any] = []

        async def work() -> None:
            waiter = parked()
            waiter.set_result(7)
            got.append(await waiter)

        await driven(work())
        assert got == [7]

    run(story)


@pytest.mark.parametrize("waits_for", ["a future", "a sleep", "a turn", "a task"])
def test_everything_else_is_awaited_as_by_a_task(waits_for: str) -> None:
    async def story() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def later() -> str:
            await a_turn()
            return "there"

        async def waiting() -> str:
            match waits_for:
                case "a future":
                    return await future
                case "a sleep":
                    return await asyncio.sleep(0.001, "there")
                case "a turn":
                    await a_turn()
                    return "there"
                case _:
                    return await asyncio.ensure_future(later())

        got: list[str] = []

        async def work() -> None:
            got.append(await waiting())

        it = driven(work())
        await a_turn()
        future.set_result("there")
        await it
        assert got == ["there"]

    run(story)


@pytest.mark.parametrize("how", ["parked", "a future", "before it began"])
def test_who_is_cancelled_hears_of_it_where_it_waits(how: str) -> None:
    async def story() -> None:
        worker = Worker()

        async def wait() -> None:
            await asyncio.get_running_loop().create_future()

        work: Awaitable[None] = worker.work() if how != "a future" else wait()
        it = driven(work)  # type: ignore[arg-type] # both are coroutines
        if how != "before it began":
            await a_turn()
        assert it.cancel()
        with pytest.raises(asyncio.CancelledError):
            await it
        assert it.cancelled()
        assert not it.cancel()
        if how == "parked":
            assert isinstance(worker.ended, asyncio.CancelledError)
            assert worker.waiters[0].done()

    run(story)


def test_what_it_raises_is_what_it_ends_with() -> None:
    async def story() -> None:
        async def work() -> None:
            await a_turn()
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await driven(work())

    run(story)


def test_in_a_task_something_parked_is_a_future() -> None:
    async def story() -> None:
        waiter: Waiter[int] = parked()
        asyncio.get_running_loop().call_soon(waiter.set_result, 3)
        assert await waiter == 3

    run(story)
