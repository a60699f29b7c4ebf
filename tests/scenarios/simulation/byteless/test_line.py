"""A line without bytes: what is said arrives, in order, until one side is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from scenarios.simulation.byteless.line import End, Expired, Line, Session, Want, Word
from scenarios.simulation.byteless.outbox import Shelf
from scenarios.simulation.byteless.world import World
from scenarios.simulation.processes import CrashPoint
from simulator.provider.provider import Setup


@pytest.fixture
def world() -> Iterator[World]:
    world = World(seed=1, setup=Setup(), shelf=Shelf())
    with world.loop.current():
        yield world


def lined(world: World, session: Any, **more: Any) -> tuple[Line, list[Any]]:
    """A line on which `session(line, got)` answers, and what it got."""
    got: list[Any] = []
    line = Line(world.loop, world.process("worker 1", **more), world.events)
    line.serve(session(line, got))
    return line, got


def echo(line: Line, got: list[Any]) -> Session:
    while True:
        word = yield Want.WORD
        got.append(word)
        if word is Word.GONE:
            return
        line.say(f"{word}!")


def slow(line: Line, got: list[Any]) -> Session:
    got.append((yield Want.WORD))
    got.append((yield None, 10.0))
    line.say("at last")
    got.append((yield Want.WORD))


def run(world: World, coroutine: Any, until: float = 60.0) -> Any:
    task = world.loop.create_task(coroutine)
    world.loop.run_until(until)
    return task.result()


def test_a_word_gets_its_answer(world: World) -> None:
    """In the order in which they were said."""
    line, got = lined(world, echo)

    async def talk() -> list[Any]:
        line.tell("a")
        line.tell("b")
        return [await line.hear(5.0), await line.hear(5.0)]

    assert run(world, talk()) == ["a!", "b!"]
    line.close()
    assert got == ["a", "b", Word.GONE]


def test_who_waits_too_long_gives_up(world: World) -> None:
    """What comes later can still be heard, if the line is still open."""
    line, _ = lined(world, slow)

    async def talk() -> tuple[float, Any]:
        line.tell("a")
        with pytest.raises(Expired):
            await line.hear(4.0)
        gave_up = world.loop.time()
        return gave_up, await line.hear(50.0)

    assert run(world, talk()) == (4.0, "at last")


def test_who_is_busy_hears_of_the_end_afterwards(world: World) -> None:
    """A provider that takes its time does not notice that nobody waits any more."""
    line, got = lined(world, slow)
    line.tell("a")
    line.close()
    world.loop.run_until(5.0)
    assert got == ["a"]
    world.loop.run_until(20.0)

    assert got == ["a", Word.NOTHING, Word.GONE]
    assert not line.heard


def test_the_end_is_heard_behind_what_was_said(world: World) -> None:
    """And again and again."""

    def bye(line: Line, got: list[Any]) -> Session:
        yield Want.WORD
        line.say("bye")
        line.end(End.RST)
        line.say("into the void")

    line, _ = lined(world, bye)

    async def talk() -> list[Any]:
        line.tell("a")
        return [await line.hear(5.0) for _ in range(3)]

    assert run(world, talk()) == ["bye", End.RST, End.RST]
    assert not line.is_open


@pytest.mark.parametrize(("reads", "reset"), [(True, False), (False, True)])
def test_closing_with_something_unread_is_a_reset(world: World, reads: bool, reset: bool) -> None:
    """As a kernel does it."""
    line, _ = lined(world, echo)

    async def talk() -> None:
        line.tell("a")
        if reads:
            await line.hear(5.0)
        line.close()

    run(world, talk())
    assert line.reset is reset


@pytest.mark.parametrize(
    ("want", "at", "expected"),
    [
        (Want.END, 20.0, [Word.GONE]),
        ((Want.END, 5.0), 20.0, [Word.NOTHING]),
        ((Want.END, 50.0), 20.0, [Word.GONE]),
        ((Want.WORD, 5.0), 20.0, [Word.NOTHING]),
        ((Want.WORD, 50.0), 20.0, [Word.GONE]),
        (Want.RELEASE, 20.0, []),
    ],
)
def test_what_a_session_may_wait_for(world: World, want: Any, at: float, expected: list[Any]) -> None:
    """The sender closes the line after a while."""

    def waiting(line: Line, got: list[Any]) -> Session:
        got.append((yield want))

    line, got = lined(world, waiting)
    world.loop.run_until(at)
    line.close()
    world.loop.run_until(60.0)

    assert got == expected
    line.release()
    assert bool(got)


@pytest.mark.parametrize("at", [-1.0, 3.0])
def test_a_word_in_time_is_no_silence(world: World, at: float) -> None:
    """Said before it is waited for, or while; and the time that was waited for it wakes nobody afterwards."""

    def waiting(line: Line, got: list[Any]) -> Session:
        if at < 0:
            yield None, 1.0
        got.append((yield Want.WORD, 5.0))
        got.append((yield Want.WORD))

    line, got = lined(world, waiting)
    world.loop.run_until(max(at, 0.0))
    line.tell("EHLO")
    world.loop.run_until(60.0)

    assert got == ["EHLO"]
    line.close()
    assert got == ["EHLO", Word.GONE]


@pytest.mark.parametrize("part", ["unread", "partial", "whole"])
def test_reading_an_answer_is_a_crash_point(world: World, part: str) -> None:
    """In three parts. Whoever dies in it closes the line."""
    line, got = lined(world, echo, crash=CrashPoint("reply", part, 1))
    process = world.processes[0]
    heard: list[Any] = []

    async def talk() -> None:
        line.tell("a")
        heard.append(await line.hear(5.0))

    process.spawn(talk)
    world.loop.run_until(5.0)

    assert process.dead
    assert heard == []
    assert line.closed
    assert line.reset is (part != "whole")
    assert got == ["a", Word.GONE]


def test_hearing_takes_a_step(world: World) -> None:
    """Or nobody could be stopped, or go first, between a word and its answer."""
    line, _ = lined(world, echo)
    order: list[str] = []

    async def talk() -> None:
        line.tell("a")
        world.loop.call_soon(order.append, "somebody else")
        await line.hear(5.0)
        order.append("heard")

    run(world, talk())
    assert order == ["somebody else", "heard"]
    assert asyncio.get_running_loop() is not None
