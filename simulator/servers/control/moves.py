"""Waking whoever waits for something to change: the provider's attempts or its ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

Found = TypeVar("Found")


class Moves:
    """Wakes whoever waits for something to change."""

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None
        """Whom somebody waits for; None: nobody waits, which is so nearly always."""
        self._over = False

    def moved(self) -> None:
        """Something changed: let everybody look again."""
        if self._event is not None:
            self._event.set()
            self._event = None

    def end(self) -> None:
        """The service stops: nobody waits any longer."""
        self._over = True
        self.moved()

    async def next(self) -> None:
        """Return at the next move."""
        await self._coming().wait()

    def _coming(self) -> asyncio.Event:
        """Return what the next move will set."""
        if self._event is None:
            self._event = asyncio.Event()
        return self._event

    async def until(self, look: Callable[[], tuple[Found, bool]], timeout_s: float) -> tuple[Found, bool]:
        """Call `look` at every move until its second part is true or time is up; return what it last gave."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    # Taken before the look, so that no move in between is missed.
                    event = self._coming()
                    found, enough = look()
                    if enough or self._over:
                        return found, enough
                    await event.wait()
        except TimeoutError:
            return look()

    async def until_for(
        self, request: Request, look: Callable[[], tuple[Found, bool]], timeout_s: float
    ) -> tuple[Found, bool]:
        """Wait like `until`, but not for somebody who has gone."""
        waiting = asyncio.ensure_future(self.until(look, timeout_s))
        leaving = asyncio.ensure_future(left(request))
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return await waiting if waiting.done() else look()
        finally:
            for task in (waiting, leaving):
                task.cancel()
            await asyncio.gather(waiting, leaving, return_exceptions=True)


async def left(request: Request) -> None:
    """Return when whoever asked has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
