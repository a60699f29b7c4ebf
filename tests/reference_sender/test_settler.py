"""The settler: groups that nobody waits for, and ends that nothing loses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from reference_sender.life import Docket, State
from reference_sender.policy.decision import Decision, Ended
from reference_sender.policy.evidence import Evidence, Phase, Wire
from reference_sender.settler import Settler
from tests.reference_sender.samples import NOW, ManualClock, docket

YES = Decision(state=State.ACCEPTED, reason="accepted", provider_id="m1")
SEEN = Evidence(wire=Wire.HTTP, phase=Phase.SENT, code=200, provider_id="m1")


class GatedStore:
    """A store whose writes wait for a gate each; it remembers what was written together."""

    def __init__(self) -> None:
        self.gates: list[threading.Event] = []
        self.began: list[list[int]] = []
        self.written: list[list[int]] = []
        self.bad: set[int] = set()
        self.lost: set[int] = set()
        self.asked: list[dict[str, object]] = []
        self.knows: int | None = None
        """Of so many of a group it says what became of them; None: of all."""
        self.under_way = self.most_under_way = 0
        self.news: Callable[[], object] = lambda: None

    def settle(self, docket: Docket, decision: Decision, *, now: datetime, **more: Any) -> bool:
        self.asked.append({"now": now, **more})
        return self._write([docket.id])[0]

    def settle_all(self, group: Sequence[Ended], *, now: datetime) -> list[bool]:
        self.asked.append({"now": now})
        return self._write([ended.docket.id for ended in group])[: self.knows]

    def _write(self, ids: list[int]) -> list[bool]:
        self.began.append(ids)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return self._write_one_by_one(ids)
        finally:
            self.under_way -= 1

    def _write_one_by_one(self, ids: list[int]) -> list[bool]:
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
        self.facts: list[dict[str, object]] = []
        self.settler = Settler(store=self.store, clock=self.clock, pause_s=1.0, log=self.log)

    def log(self, event: str, /, **facts: object) -> None:
        self.said.append(event)
        self.facts.append(facts)

    def settle(self, *ids: int) -> list[asyncio.Task[bool | None]]:
        return [
            asyncio.create_task(self.settler.settle(Ended(docket=docket(id=each), decision=YES)))
            for each in ids
        ]

    def cancel_when_told(self, task: asyncio.Task[bool | None], place: int) -> None:
        """Cancel who waits at this place in the moment between being told and going on."""
        _, turn = self.settler._waiting[place]
        loop = asyncio.get_running_loop()

        def look() -> None:
            if turn.done():
                task.cancel()
            else:
                loop.call_soon(look)

        loop.call_soon(look)

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
    assert "evidence" in bench.store.asked[0], "not as a group of one"


def test_those_who_come_in_the_same_turn_are_written_together(bench: Bench) -> None:
    """Also the first of them: answers come in bunches."""

    async def steps() -> None:
        assert await asyncio.gather(*bench.settle(1, 2, 3)) == [True] * 3

    run(steps())
    assert bench.store.written == [[1, 2, 3]]


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
        bench.cancel_when_told(first, 0)
        gate.set()
        await asyncio.wait([writing, first])
        assert first.cancelled()
        # Led by itself, not by somebody who comes later.
        assert await second is True

    run(steps())
    assert {1, 3} <= {each for group in bench.store.written for each in group}


def test_alone_everything_that_is_known_is_handed_on(bench: Bench) -> None:
    ended = Ended(docket=docket(), decision=YES, evidence=SEEN, started_at=NOW)

    async def steps() -> None:
        bench.clock.advance(2.0)
        assert await bench.settler.settle(ended)

    run(steps())
    assert bench.store.asked == [{"now": NOW + timedelta(seconds=2), "evidence": SEEN, "started_at": NOW}]


def test_a_group_is_written_at_the_time_of_its_writing(bench: Bench) -> None:
    gate = threading.Event()
    bench.store.gates = [gate]

    async def steps() -> None:
        tasks = bench.settle(1)
        await bench.begun(1)
        tasks += bench.settle(2, 3)
        await asyncio.sleep(0)
        bench.clock.advance(2.0)
        gate.set()
        await asyncio.gather(*tasks)

    run(steps())
    assert bench.store.asked[1] == {"now": NOW + timedelta(seconds=2)}


@pytest.mark.parametrize("knows", [1, 0])
def test_trouble_is_told(bench: Bench, knows: int) -> None:
    """A group that fails, and a store that does not say of every row what became of it, are trouble of each row."""
    gate = threading.Event()
    bench.store.gates = [gate]
    bench.store.bad = {3} if knows else set()
    bench.store.knows = None if knows else 0

    async def steps() -> None:
        tasks = bench.settle(1)
        await bench.begun(1)
        tasks += bench.settle(2, 3)
        await asyncio.sleep(0)
        gate.set()
        for _ in range(1_000):
            bench.clock.advance(1.0)
            await asyncio.sleep(0.001)
            if all(task.done() for task in tasks):
                return

    run(steps())
    away = {"error": "ConnectionError", "cause": "no such row can be written"}
    if knows:
        assert bench.facts[0] == {"count": 2, **away}
        assert bench.facts[1] == {"id": 3, "token": 1, **away}
    else:
        assert [facts["error"] for facts in bench.facts] == ["ValueError"]


def test_in_the_second_in_which_a_lease_ends_it_is_given_up(bench: Bench) -> None:
    bench.store.bad = {1}

    async def steps() -> None:
        bench.clock.advance(120.0)
        assert await asyncio.gather(*bench.settle(1)) == [None]

    run(steps())
    assert bench.said == ["settle_failed"]


def test_who_is_cancelled_while_others_write_lets_nobody_write_beside_them(bench: Bench) -> None:
    gate = threading.Event()
    bench.store.gates = [gate]

    async def steps() -> None:
        (writing,) = bench.settle(1)
        await bench.begun(1)
        first, second, third = bench.settle(2, 3, 4)
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        await asyncio.sleep(0.01)
        assert bench.store.began == [[1]]
        gate.set()
        await asyncio.gather(writing, second, third)

    run(steps())
    assert bench.store.most_under_way == 1


def test_who_is_cancelled_just_as_his_row_is_written_lets_nobody_write_beside_the_next(bench: Bench) -> None:
    """He has been told already, and whoever comes next has been told to lead: that is not his to do."""
    first, second, third = threading.Event(), threading.Event(), threading.Event()
    bench.store.gates = [first, second, third]

    async def steps() -> None:
        (writing,) = bench.settle(1)
        await bench.begun(1)
        _leader, told = bench.settle(2, 3)
        await asyncio.sleep(0)
        bench.cancel_when_told(told, 1)
        first.set()
        await bench.begun(2)
        later = bench.settle(4, 5)
        await asyncio.sleep(0)
        second.set()
        await bench.begun(3)
        await asyncio.wait([told])
        more = bench.settle(6, 7)
        await asyncio.sleep(0.01)
        assert len(bench.store.began) == 3
        third.set()
        await asyncio.gather(writing, *later, *more)

    run(steps())
    assert bench.store.most_under_way == 1
    assert sorted(each for group in bench.store.written for each in group) == [1, 2, 3, 4, 5, 6, 7]
