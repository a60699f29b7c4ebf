"""The thread behind the log: in order, until it succeeds, and nobody waits for it without need."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from simulator.store import StoreError
from simulator.store.entries import Entry
from simulator.store.mover import Batch, Mover

ENTRY = Entry(1, b"{}")


class Desk:
    """Where things are moved to: behind a gate, and sometimes broken."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.trouble: Exception | None = None
        self.again = 0
        self.calls: list[list[int]] = []

    def move(self, batches: Sequence[Batch]) -> bool:
        self.entered.set()
        assert self.gate.wait(10)
        if self.trouble is not None:
            raise self.trouble
        self.calls.append([each.end for each in batches])
        self.again -= 1
        return self.again >= 0

    @property
    def moved(self) -> list[int]:
        return [end for call in self.calls for end in call]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def mover(desk: Desk) -> Iterator[Mover]:
    mover = Mover(desk.move, "test")
    yield mover
    desk.gate.set()
    desk.trouble = None
    mover.close()


def batch(end: int, entries: int = 1, size: int = 10) -> Batch:
    return Batch([ENTRY] * entries, size, 1, end)


def test_what_is_added_is_moved_in_order(desk: Desk, mover: Mover) -> None:
    """And whoever reads may wait for it."""
    for end in range(1, 6):
        mover.add(batch(end))
    mover.flush()

    assert desk.moved == [1, 2, 3, 4, 5]
    calls = len(desk.calls)
    mover.flush()
    assert len(desk.calls) == calls


def test_many_are_moved_without_waiting_for_more(
    desk: Desk, mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.store.mover.GATHER_S", 60.0)
    monkeypatch.setattr("simulator.store.mover.MANY", 3)
    mover.add(batch(1, entries=2))
    mover.add(batch(2, entries=1))

    assert desk.entered.wait(10)


def test_a_failure_is_tried_again_and_told_meanwhile(
    desk: Desk, mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost by it, nor moved in another order."""
    monkeypatch.setattr("simulator.store.mover.RETRY_S", 0.01)
    desk.trouble = StoreError("the disk is full")
    mover.add(batch(1))
    with pytest.raises(StoreError, match="full"):
        mover.flush()
    mover.add(batch(2))
    desk.trouble = None
    with mover._condition:
        assert mover._condition.wait_for(lambda: mover.trouble is None, 10)
    mover.flush()

    assert desk.moved == [1, 2]


def test_a_bug_of_ours_is_a_failure_too(
    desk: Desk, mover: Mover, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It keeps nobody waiting for ever, and it is logged."""
    monkeypatch.setattr("simulator.store.mover.RETRY_S", 0.01)
    desk.trouble = ZeroDivisionError("a bug")
    mover.add(batch(1))

    with pytest.raises(StoreError, match="a bug"):
        mover.flush()
    assert "could not be moved" in caplog.text


def test_whoever_adds_waits_while_too_much_waits(
    desk: Desk, mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory has an end: by number, and by size."""
    monkeypatch.setattr("simulator.store.mover.MOST", 3)
    monkeypatch.setattr("simulator.store.mover.MOST_BYTES", 1_000)
    for each in (batch(1, entries=3), batch(2, size=1_000)):
        desk.gate.clear()
        mover.make_room()
        mover.add(each)
        room = threading.Thread(target=mover.make_room)
        room.start()
        assert desk.entered.wait(10)
        desk.entered.clear()
        assert room.is_alive()
        desk.gate.set()
        room.join(10)
        assert not room.is_alive()

    desk.trouble = StoreError("the disk is full")
    mover.add(batch(3, entries=3))
    with pytest.raises(StoreError, match="full"):
        mover.make_room()


def test_more_to_be_done_is_done(desk: Desk, mover: Mover) -> None:
    """Old rows go in steps; nothing need come in for the next one."""
    desk.again = 3
    mover.nudge()
    mover.add(batch(1))
    mover.flush()
    mover.close()

    assert len(desk.calls) >= 4


def test_closing_moves_what_is_left(desk: Desk) -> None:
    mover = Mover(desk.move, "test")
    mover.add(batch(1))
    mover.close()

    assert desk.moved == [1]


def test_closing_does_not_wait_for_what_cannot_be(desk: Desk) -> None:
    """It stays in the log."""
    desk.trouble = StoreError("the disk is full")
    mover = Mover(desk.move, "test")
    mover.add(batch(1))
    mover.close()

    assert desk.moved == []
    assert mover.trouble is not None


def test_it_rests_between_pieces_unless_somebody_waits(
    desk: Desk, mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever appends has the processor meanwhile; whoever reads, or has no room, does not wait for a rest."""
    monkeypatch.setattr("simulator.store.mover.BREATH_S", 60.0)
    monkeypatch.setattr("simulator.store.mover.MOST", 4)
    desk.gate.clear()
    mover.add(batch(1))
    assert desk.entered.wait(10)
    rest = threading.Thread(target=mover.breathe)
    rest.start()
    rest.join(0.05)
    assert rest.is_alive()
    mover.nudge()
    rest.join(10)
    assert not rest.is_alive()

    mover._urgent = False
    mover.add(batch(2))
    mover.breathe()
