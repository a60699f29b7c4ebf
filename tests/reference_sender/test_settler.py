"""The settler: groups that nobody waits for, and ends that nothing loses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

import pytest

from reference_sender.life import Docket, State
from reference_sender.policy.decision import Decision, Ended
from reference_sender.settler import Settler
from tests.reference_sender.samples import ManualClock, docket

YES = Decision(state=State.ACCEPTED, reason="accepted", provider_id="m1")


class GatedStore:
    """A store whose writes wait for a gate each; it remembers what was written together."""

    def __init__(self) -> None:
        self.gates: list[threading.Event] = []
        self.began: list[list[int]] = []
        self.written: list[list[int]] = []
        self.bad: set[int] = set()
        self.lost: set[int] = set()
        self.news: Callable[[], object] = lambda: None

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        return self._write([docket.id])[0]

    def settle_all(self, group: Sequence[Ended], *, now: datetime) -> list[bool]:
        return self._write([ended.docket.id for ended in group])

    def _write(self, ids: list[int]) -> list[bool]:
        self.began.append(ids)
        self.news()
        if self.gates:
            self.gates.pop(0).wait(10)
        if self.bad & set(ids):
            raise ConnectionError("no such row can be written")
        self.written.append(ids)
        return [each not in self.lost for each in ids]


class Bench:
    def __init__(self) -> None:
        self.store, self.clock = GatedStore(), ManualClock()
        self.said: list[str] = []
        self.settler = Settler(store=self.store, clock=self.clock, pause_s=1.0, log=self.log)

    def log(self, event: str, /, **_: object) -> None:
        self.said.append(event)

    def settle(self, *ids: int) -> list[asyncio.Task[bool | None]]:
        return [
            asyncio.create_task(self.settler.settle(Ended(docket=docket(id=each), decision=YES)))
            for each in ids
        ]

    async def begun(self, count: int) -> None:
        """Wait until so many writes have begun."""
        news, loop = asyncio.Event(), asyncio.get_running_loop()
        self.store.news = lambda: loop.call_soon_threadsafe(news.set)
        while len(self.store.began) < count:
            await news.wait()
            news.clear()


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(steps, 30))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_who_comes_alone_writes_alone_and_at_once(bench: Bench) -> None:
    async def steps() -> None:
        assert await asyncio.gather(*bench.settle(1)) == [True]

    run(steps())
    assert bench.store.written == [[1]]


def test_who_comes_while_others_write_is_written_with_the_next_group(bench: Bench) -> None:
    """The lost mark: what comes while a group is being written belongs to the next one, and to no list that is gone."""
    first, second = threading.Event(), threading.Event()
    bench.store.gates = [first, second]
    bench.store.lost = {3}

    async def steps() -> None:
        tasks = bench.settle(1)
        await bench.begun(1)
        tasks += bench.settle(2, 3, 4)
        await asyncio.sleep(0)
        first.set()
        await bench.begun(2)
        tasks += bench.settle(5, 6)
        await asyncio.sleep(0)
        second.set()
        assert await asyncio.gather(*tasks) == [True, True, False, True, True, True]

    run(steps())
    assert bench.store.written == [[1], [2, 3, 4], [5, 6]]


def test_a_row_that_cannot_be_written_holds_up_no_other(bench: Bench) -> None:
    gate = threading.Event()
    bench.store.gates = [gate]
    bench.store.bad = {3}

    async def steps() -> None:
        tasks = bench.settle(1)
        await bench.begun(1)
        tasks += bench.settle(2, 3, 4)
        await asyncio.sleep(0)
        gate.set()
        good = [tasks[0], tasks[1], tasks[3]]
        assert await asyncio.gather(*good) == [True, True, True]
        while not tasks[2].done():
            bench.clock.advance(30.0)
            await asyncio.sleep(0.001)
        assert await tasks[2] is None

    run(steps())
    assert sorted(each for group in bench.store.written for each in group) == [1, 2, 4]
    assert bench.said[0] == "group_failed"
    assert set(bench.said[1:]) == {"settle_failed"}


@pytest.mark.parametrize("leader", [True, False])
def test_who_is_cancelled_takes_nobody_with_him(bench: Bench, leader: bool) -> None:
    """Whether he waited or was just told to write for all: the others are written, and so is his own row."""
    gate = threading.Event()
    bench.store.gates = [gate]

    async def steps() -> None:
        (writing,) = bench.settle(1)
        await bench.begun(1)
        first, second = bench.settle(2, 3)
        await asyncio.sleep(0)
        (first if leader else second).cancel()
        gate.set()
        await writing
        await asyncio.wait([first, second])
        # Nobody is stuck behind it.
        assert await asyncio.gather(*bench.settle(4)) == [True]

    run(steps())
    assert sorted(each for group in bench.store.written for each in group) == [1, 2, 3, 4]


def test_a_leader_that_is_cancelled_in_the_very_moment_hands_on(bench: Bench) -> None:
    gate = threading.Event()
    bench.store.gates = [gate]

    async def steps() -> None:
        (writing,) = bench.settle(1)
        await bench.begun(1)
        first, second = bench.settle(2, 3)
        await asyncio.sleep(0)
        gate.set()
        # Its callbacks run in the order in which they were added: this one cancels behind the hand-over.
        writing.add_done_callback(lambda _: first.cancel())
        await asyncio.wait([writing, first, second])
        assert await asyncio.gather(*bench.settle(4)) == [True]

    run(steps())
    assert {3, 4} <= {each for group in bench.store.written for each in group}
