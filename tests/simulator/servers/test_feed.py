"""What happens is told in order, to each reader at its own pace, and costs nothing while nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simulator.servers import feed as module
from simulator.servers.feed import Begun, Feed, FeedError, Happening, Missed, Silence

PATIENCE_S = 30.0


def reader(feed: Feed, account: str = "a", after: str | None = None, patience_s: float = PATIENCE_S) -> Any:
    return feed.read(account, after=after, patience_s=patience_s)


async def begun(reading: AsyncIterator[Any]) -> asyncio.Task[Any]:
    """Let a reader come to its first wait."""
    assert isinstance(await anext(reading), Begun)
    first = asyncio.ensure_future(anext(reading))
    for _ in range(3):
        await asyncio.sleep(0)
    return first


def names(found: list[Any]) -> list[str]:
    return [each.name for each in found]


async def take(reading: AsyncIterator[Any], count: int) -> list[Any]:
    return [await anext(reading) for _ in range(count)]


def test_everybody_hears_everything_in_order() -> None:
    """Of the account listened to, and of no other."""

    async def story() -> tuple[list[Any], list[Any]]:
        feed = Feed("life")
        one, two = reader(feed), reader(feed)
        firsts = [await begun(one), await begun(two)]
        feed.publish("b", "foreign", b"{}")
        for name in ("x", "y", "z"):
            feed.publish("a", name, b"{}")
        return [await firsts[0], *await take(one, 2)], [await firsts[1], *await take(two, 2)]

    one, two = asyncio.run(story())
    assert names(one) == names(two) == ["x", "y", "z"]


def test_nothing_is_kept_while_nobody_listens() -> None:
    """Publishing is one look into a dictionary."""
    feed = Feed("life")
    feed.publish("a", "x", b"{}")

    assert not feed.is_heard("a")


def test_a_reader_that_comes_back_goes_on_where_it_was() -> None:
    """Last-Event-ID, while the account is still remembered."""

    async def story() -> list[Any]:
        feed = Feed("life")
        first = reader(feed)
        coming = await begun(first)
        for name in ("x", "y", "z"):
            feed.publish("a", name, b"{}")
        seen = await coming
        await first.aclose()
        return await take(reader(feed, after=seen.id), 2)

    assert names(asyncio.run(story())) == ["y", "z"]


@pytest.mark.parametrize("after", ["other-1", "life-99", "life-", "life-x", "nonsense", ""])
def test_an_id_that_is_not_known_means_look_at_everything_anew(after: str) -> None:
    """From another life, from the future, or nonsense."""

    async def story() -> Any:
        return await anext(reader(Feed("life"), after=after))

    assert isinstance(asyncio.run(story()), Missed)


def test_what_nobody_listened_to_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes back too late must not believe that nothing happened."""
    monkeypatch.setattr(module, "RESUME_S", 0.0)

    async def story() -> Any:
        feed = Feed("life")
        first = reader(feed)
        coming = await begun(first)
        feed.publish("a", "x", b"{}")
        seen = await coming
        await first.aclose()
        for _ in range(10):
            await asyncio.sleep(0)  # A timer of nought seconds is due in one of the next turns of the loop.
        assert not feed.is_heard("a")
        feed.publish("a", "unheard", b"{}")
        return await anext(reader(feed, after=seen.id))

    assert isinstance(asyncio.run(story()), Missed)


def test_a_slow_reader_misses_what_was_forgotten_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded; a silent gap would be a lie."""
    monkeypatch.setattr(module, "REMEMBERED", 3)

    async def story() -> list[Any]:
        feed = Feed("life")
        slow = reader(feed)
        coming = await begun(slow)
        feed.publish("a", "0", b"{}")
        first = await coming
        for number in range(1, 8):
            feed.publish("a", str(number), b"{}")
        return [first, *await take(slow, 4)]

    first, missed, *rest = asyncio.run(story())
    assert (first.name, names(rest)) == ("0", ["5", "6", "7"])
    assert isinstance(missed, Missed)


def test_a_companion_runs_as_long_as_somebody_cares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once per account, however many listen; it ends when the account is forgotten, or the service."""
    monkeypatch.setattr(module, "RESUME_S", 0.0)
    running: list[str] = []

    async def companion(account: str) -> None:
        running.append(account)
        try:
            await asyncio.Event().wait()
        finally:
            running.remove(account)

    async def story() -> list[list[str]]:
        feed = Feed("life")
        feed.companion = companion
        readers = [reader(feed), reader(feed), reader(feed, "b")]
        waits = [await begun(each) for each in readers]
        seen = [running[:]]
        for wait, each in zip(waits[:2], readers, strict=False):
            wait.cancel()
            await asyncio.gather(wait, return_exceptions=True)
            await each.aclose()
        for _ in range(10):
            await asyncio.sleep(0)
        seen.append(running[:])
        feed.end()
        await asyncio.gather(waits[2], return_exceptions=True)
        await asyncio.sleep(0)
        return [*seen, running[:]]

    assert asyncio.run(story()) == [["a", "b"], ["b"], []]


def test_silence_is_told_so_that_the_line_stays_alive() -> None:
    """And a reader who has gone is noticed."""

    async def story() -> list[Any]:
        return await take(reader(Feed("life"), patience_s=0.0), 3)

    assert [type(each) for each in asyncio.run(story())] == [Begun, Silence, Silence]


def test_readers_end_with_the_service() -> None:
    """None of them holds it up."""

    async def story() -> list[Any]:
        feed = Feed("life")
        waiting = asyncio.ensure_future(_all(reader(feed)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        feed.end()
        return await waiting

    async def _all(reading: AsyncIterator[Any]) -> list[Any]:
        return [each async for each in reading]

    assert [type(each) for each in asyncio.run(story())] == [Begun]


def test_too_many_readers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one sentence; those who are there go on."""
    monkeypatch.setattr(module, "MAX_READERS", 1)

    async def story() -> Any:
        feed = Feed("life")
        coming = await begun(reader(feed))
        with pytest.raises(FeedError, match="1 readers already"):
            reader(feed, "b")
        feed.publish("a", "x", b"{}")
        return await coming

    assert isinstance(asyncio.run(story()), Happening)
