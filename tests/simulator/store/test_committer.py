"""Group commit: who waits is told only when everything before is kept, and all who wait share a write."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from simulator.provider.provider import Record
from simulator.store import StoreError
from simulator.store.committer import Committer
from simulator.store.memory import MemoryStore
from tests.simulator.store.records import booked


class Gated(MemoryStore):
    """Counts its writes; each waits for the gate and fails if told to."""

    is_quick = False

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.written = threading.Event()
        self.writes: list[list[Record]] = []
        self.trouble: Exception | None = None

    def append(self, records: Sequence[Record]) -> None:
        assert self.gate.wait(10)
        if self.trouble is not None:
            raise self.trouble
        self.writes.append(list(records))
        self.written.set()


class Desk:
    """What the provider is to the committer."""

    def __init__(self) -> None:
        self.store = Gated()
        self.pending: list[Record] = []
        self.taken = asyncio.Event()
        """A write has begun."""
        self.kept: list[Record] = []
        self.committer = Committer(self.take, self.store, self.kept.extend)

    def take(self) -> list[Record]:
        taken, self.pending = self.pending, []
        self.taken.set()
        return taken


def run(story: Callable[[Desk], Coroutine[Any, Any, None]]) -> None:
    async def tell() -> None:
        desk = Desk()
        async with asyncio.timeout(10):
            await story(desk)
            desk.store.trouble = None
            await desk.committer.close()

    asyncio.run(tell())


def test_a_commit_returns_when_its_records_are_kept() -> None:
    """Not before."""

    async def story(desk: Desk) -> None:
        desk.store.gate.clear()
        desk.pending = [booked(1)]
        waiting = asyncio.ensure_future(desk.committer.commit())
        done, _ = await asyncio.wait({waiting}, timeout=0.05)
        assert not done

        desk.store.gate.set()
        await waiting
        assert desk.store.writes == [[booked(1)]]

    run(story)


def test_all_who_wait_while_a_write_runs_share_the_next_one() -> None:
    """A hundred mails cost two writes, not a hundred."""

    async def story(desk: Desk) -> None:
        desk.store.gate.clear()
        desk.pending = [booked(1)]
        waiting = [asyncio.ensure_future(desk.committer.commit())]
        await desk.taken.wait()
        for number in range(2, 101):
            desk.pending.append(booked(number))
            waiting.append(asyncio.ensure_future(desk.committer.commit()))
        await asyncio.sleep(0)
        desk.store.gate.set()
        await asyncio.gather(*waiting)
        assert [len(write) for write in desk.store.writes] == [1, 99]

    run(story)


def test_a_commit_with_nothing_new_waits_for_what_is_under_way() -> None:
    """A replay may only be told when the acceptance it repeats is kept."""

    async def story(desk: Desk) -> None:
        desk.store.gate.clear()
        desk.pending = [booked(1)]
        first = asyncio.ensure_future(desk.committer.commit())
        await desk.taken.wait()
        replay = asyncio.ensure_future(desk.committer.commit())
        done, _ = await asyncio.wait({replay}, timeout=0.05)
        assert not done
        desk.store.gate.set()
        await asyncio.gather(first, replay)
        assert len(desk.store.writes) == 1

    run(story)


@pytest.mark.parametrize("trouble", [StoreError("disk full"), ZeroDivisionError("a bug")])
def test_a_failed_write_fails_all_who_wait_and_is_made_up_for(
    trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is told yes; the records go in front of the next ones."""

    async def story(desk: Desk) -> None:
        desk.store.trouble = trouble
        desk.pending = [booked(1)]
        outcomes = await asyncio.gather(*(desk.committer.commit() for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreError] * 3
        assert desk.committer.trouble is not None

        desk.store.trouble = None
        desk.pending = [booked(2)]
        await desk.committer.commit()
        assert desk.store.writes == [[booked(1), booked(2)]]
        assert desk.committer.trouble is None

    run(story)
    said = [record for record in caplog.records if record.exc_info is None]
    assert [record.levelno for record in said] == [logging.ERROR, logging.WARNING]


def test_who_leaves_while_waiting_takes_nothing_along() -> None:
    """A cancelled request does not cancel the write of the others."""

    async def story(desk: Desk) -> None:
        desk.store.gate.clear()
        desk.pending = [booked(1)]
        leaving = asyncio.ensure_future(desk.committer.commit())
        staying = asyncio.ensure_future(desk.committer.commit())
        await asyncio.sleep(0)
        leaving.cancel()
        desk.store.gate.set()
        await staying
        assert leaving.cancelled()
        assert desk.store.writes == [[booked(1)]]

    run(story)


def test_what_nobody_waits_for_is_written_soon() -> None:
    """The end of an attempt gets into the file without a mail behind it, many of them in one write."""

    async def story(desk: Desk) -> None:
        for number in (1, 2, 3):
            desk.pending.append(booked(number))
            desk.committer.soon()
        assert await asyncio.to_thread(desk.store.written.wait, 10)
        assert desk.store.writes == [[booked(1), booked(2), booked(3)]]

    run(story)


def test_closing_writes_what_is_left() -> None:
    """And fails if it cannot."""

    async def story(desk: Desk) -> None:
        desk.pending = [booked(1)]
        desk.committer.soon()
        await desk.committer.close()
        assert desk.store.writes == [[booked(1)]]

        desk.pending, desk.store.trouble = [booked(2)], StoreError("disk full")
        with pytest.raises(StoreError, match="disk full"):
            await desk.committer.close()

    run(story)


# --- a store that is quick --------------------------------------------------------------------------


def test_a_quick_store_is_written_once_per_turn_of_the_loop() -> None:
    """By the loop itself, with everything that was decided in the turn, and before anybody is told."""

    async def story(desk: Desk) -> None:
        desk.store.is_quick = True
        threads: list[int] = []
        real = desk.store.append

        def append(records: Sequence[Record]) -> None:
            threads.append(threading.get_ident())
            real(records)

        desk.store.append = append  # type: ignore[method-assign] # and is well again

        async def book(number: int) -> None:
            desk.pending.append(booked(number))
            await desk.committer.commit()
            assert any(booked(number) in write for write in desk.store.writes)

        await asyncio.gather(*(book(number) for number in range(1, 6)))
        assert desk.store.writes == [[booked(number) for number in range(1, 6)]]
        assert threads == [threading.get_ident()]

    run(story)


def test_a_quick_store_that_fails_keeps_nobody_waiting() -> None:
    """Who waits is told, and what failed goes in front of the next write."""

    async def story(desk: Desk) -> None:
        desk.store.is_quick = True
        desk.store.trouble = StoreError("the disk is full")
        desk.pending.append(booked(1))
        with pytest.raises(StoreError, match="full"):
            await desk.committer.commit()
        assert desk.committer.trouble == "the disk is full"
        desk.store.trouble = None
        desk.pending.append(booked(2))
        await desk.committer.commit()

        assert desk.store.writes == [[booked(1), booked(2)]]
        assert desk.committer.trouble is None

    run(story)


def test_what_is_kept_is_told_once_and_never_before() -> None:
    """Whoever listens must not hear of a mail that a crash could still undo."""

    async def story(desk: Desk) -> None:
        desk.store.trouble = StoreError("the disk is full")
        desk.pending = [booked(1)]
        with pytest.raises(StoreError):
            await desk.committer.commit()
        assert desk.kept == []
        desk.store.trouble = None
        desk.pending = [booked(2)]
        await desk.committer.commit()
        await desk.committer.commit()
        assert desk.kept == [booked(1), booked(2)]
        await desk.committer.close()

    run(story)


def test_who_is_told_cannot_undo_what_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """A bug behind the news is logged; the mail was accepted all the same."""

    async def story(desk: Desk) -> None:
        def fail(records: Sequence[Record]) -> None:
            raise RuntimeError("a bug")

        committer = Committer(desk.take, desk.store, fail)
        desk.pending = [booked(1)]
        await committer.commit()
        assert committer.trouble is None
        await committer.close()

    run(story)
    assert "promise" in caplog.text
