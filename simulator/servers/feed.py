"""What happens, told to whoever listens: a short memory per account, and any number of readers at their own pace.

Costs nothing while nobody listens. A reader that is slow misses what has been forgotten meanwhile, and is told so;
one that comes back soon goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

#: How much of an account is remembered.
REMEMBERED = 1_000
#: How long after the last reader has left, in seconds.
RESUME_S = 60.0
#: How many may read at once, in all.
MAX_READERS = 100


class FeedError(Exception):
    """Nobody else can be served. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened in an account. Its id names it over the life of the service."""

    number: int
    id: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Begun:
    """A reader that is new here hears everything after this."""

    id: str


@dataclass(frozen=True, slots=True)
class Missed:
    """What lay between is forgotten (or was never seen by this service): look at everything anew."""

    id: str


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing has happened for as long as one was ready to wait."""


Told = Happening | Begun | Missed | Silence


@dataclass(eq=False, slots=True)
class _Channel:
    """One account, as long as somebody cares."""

    forgotten: int
    """The number up to which nothing is remembered."""
    remembered: deque[Happening] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    readers: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    forgetting: asyncio.TimerHandle | None = None
    company: asyncio.Task[None] | None = None

    def tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


class Feed:
    """All accounts of one service. `life` tells the ids of this one from those of its predecessors."""

    def __init__(self, life: str) -> None:
        self._life = life
        self._number = 0
        self._channels: dict[str, _Channel] = {}
        self._over = False
        self.companion: Callable[[str], Coroutine[Any, Any, None]] | None = None
        """Runs for each account as long as somebody cares: it publishes what happens by itself, in time."""

    @property
    def readers(self) -> int:
        """How many read now."""
        return sum(channel.readers for channel in self._channels.values())

    @property
    def is_deserted(self) -> bool:
        """Whether nobody at all would learn of anything."""
        return not self._channels

    def is_heard(self, account: str) -> bool:
        """Tell whether anybody would learn of something that happens now."""
        return account in self._channels

    def publish(self, account: str, name: str, data: bytes) -> None:
        """Something happened; `data` is its JSON."""
        channel = self._channels.get(account)
        if channel is None:
            return
        if len(channel.remembered) == REMEMBERED:
            channel.forgotten = channel.remembered[0].number
        self._number += 1
        channel.remembered.append(Happening(self._number, self._id(self._number), name, data))
        channel.tell()

    def end(self) -> None:
        """The service stops: no reader waits any longer."""
        self._over = True
        for channel in self._channels.values():
            channel.tell()
            if channel.forgetting is not None:
                channel.forgetting.cancel()
            if channel.company is not None:
                channel.company.cancel()

    def read(self, account: str, *, after: str | None, patience_s: float) -> AsyncGenerator[Told]:
        """Return what happens, beginning after the id `after` (None: from now on). Raises `FeedError`.

        There is a `Silence` in it whenever nothing has happened for `patience_s`.
        """
        if self.readers >= MAX_READERS:
            raise FeedError(f"there are {MAX_READERS} readers already; close some of them")
        return self._read(account, after, patience_s)

    async def _read(self, account: str, after: str | None, patience_s: float) -> AsyncGenerator[Told]:
        channel = self._enter(account)
        try:
            seen = self._number if after is None else self._number_of(after)
            if after is None:
                yield Begun(self._id(seen))
            while not self._over:
                news = channel.news  # Taken before the look, so that nothing falls in between.
                if seen < channel.forgotten:
                    seen = channel.forgotten
                    yield Missed(self._id(seen))
                fresh = [each for each in channel.remembered if each.number > seen]
                for each in fresh:
                    yield each
                    seen = each.number
                if not fresh and not await _within(news, patience_s):
                    yield Silence()
        finally:
            self._leave(account, channel)

    def _enter(self, account: str) -> _Channel:
        channel = self._channels.get(account)
        if channel is None:
            # A number of its own: whoever has one from before has missed what nobody listened to.
            self._number += 1
            channel = self._channels[account] = _Channel(forgotten=self._number)
            if self.companion is not None:
                channel.company = asyncio.get_running_loop().create_task(self.companion(account))
        channel.readers += 1
        if channel.forgetting is not None:
            channel.forgetting.cancel()
            channel.forgetting = None
        return channel

    def _leave(self, account: str, channel: _Channel) -> None:
        channel.readers -= 1
        if not channel.readers and not self._over:
            loop = asyncio.get_running_loop()
            channel.forgetting = loop.call_later(RESUME_S, self._forget, account)

    def _forget(self, account: str) -> None:
        channel = self._channels.pop(account)
        if channel.company is not None:
            channel.company.cancel()

    def _id(self, number: int) -> str:
        return f"{self._life}-{number}"

    def _number_of(self, id_: str) -> int:
        """Return the number of an id; one of another life, or none at all, is older than everything."""
        life, _, number = id_.rpartition("-")
        if life != self._life or not (number.isascii() and number.isdecimal() and len(number) < 16):
            return 0
        return int(number) if int(number) <= self._number else 0


async def _within(news: asyncio.Event, patience_s: float) -> bool:
    try:
        async with asyncio.timeout(patience_s):
            await news.wait()
    except TimeoutError:
        return False
    return True
