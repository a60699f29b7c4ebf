"""A line between a sender and the provider, without bytes: what is said is handed over as a value.

What the sender says reaches the provider's side at once; what the provider says waits in `heard` until the sender
reads it, and each reading is a crash point in three parts, as on the wire. FIN and RST keep their meaning.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Generator, Iterator
from enum import Enum, auto
from typing import Any

from scenarios.simulation.byteless.loop import NOBODY, StepLoop
from scenarios.simulation.byteless.process import Process


class End(Enum):
    """How the other side is gone."""

    FIN = auto()
    RST = auto()


class Want(Enum):
    """What the provider's side of a line waits for, besides a time in seconds."""

    WORD = auto()
    """The next thing that the sender says; `GONE` if it will say nothing more."""
    END = auto()
    """That the sender gives up."""
    RELEASE = auto()
    """That somebody lets go what is held."""


class Word(Enum):
    """What the provider's side gets where the sender says nothing (any more)."""

    GONE = auto()
    NOTHING = auto()


Session = Generator[Any, Any, None]
"""The provider's side: yields a `Want`, a number of seconds, or both as a tuple; is sent what came of it."""


class Expired(Exception):
    """Nothing was heard in time."""


class Events:
    """What happened on all lines of a world that outlives a sender's process, as a number."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


#: So many steps of the loop pass before a provider that has slept says something: a sender that gives up at the same
#: instant is faster.
STEPS_TO_WAKE = 5


class Line:
    """One connection."""

    def __init__(self, loop: StepLoop, owner: Process, events: Events) -> None:
        self._loop = loop
        self._owner = owner
        self._events = events
        self.heard: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._said: deque[Any] = deque()
        self._session: Session | None = None
        self._want: Any = None
        self._turn = 0
        """Counts what the session waited for, so that an old timer wakes nobody."""
        self.closed = False
        """By the sender."""
        self.reset = False
        """By the sender, with RST: nothing that is said on it now goes out."""
        self.over = False
        """By the provider: nothing comes any more, and nobody listens."""
        self.since = 0.0
        """When it was last laid aside to be used again."""
        owner.belongings.append(self)

    # --- the provider's side ------------------------------------------------------------------------

    def serve(self, session: Session) -> None:
        """Let this session answer."""
        self._session = session
        self._resume(None)

    def _resume(self, value: Any) -> None:
        session = self._session
        self._events.count += 1
        while session is not None:
            self._turn += 1
            try:
                want = self._want = session.send(value)
            except StopIteration:
                self._session = None
                return
            if want is Want.WORD:
                if self._said:
                    value = self._said.popleft()
                    continue
                if self.closed:
                    value = Word.GONE
                    continue
            elif want is Want.END:
                if self.closed:
                    value = Word.GONE
                    continue
            elif want is not Want.RELEASE:
                if want[0] is Want.WORD:
                    if self._said:
                        value = self._said.popleft()
                        continue
                    self._want = Want.WORD
                self._loop.call_later(want[1], self._due, self._turn, context=NOBODY)
                if want[0] in (Want.WORD, Want.END) and self.closed:
                    value = Word.GONE
                    continue
            return

    def _due(self, turn: int, steps: int = STEPS_TO_WAKE) -> None:
        if turn != self._turn or self._session is None:
            return
        if steps:
            self._loop.call_soon(self._due, turn, steps - 1, context=NOBODY)
        else:
            self._resume(Word.NOTHING)

    def release(self) -> None:
        """Let go what this line's session holds back."""
        if self._want is Want.RELEASE and self._session is not None:
            self._resume(Word.NOTHING)

    def say(self, what: Any) -> None:
        """Say something to the sender."""
        if self.closed:
            # A kernel answers what comes for a socket that is closed by RST.
            self.reset = True
        elif not self.over:
            self.heard.append(what)
            self._wake()

    def end(self, how: End) -> None:
        """Close the line, from the provider's side."""
        if not self.over:
            self.over = True
            if how is End.RST:
                # What arrived before it can still be read, as on Linux.
                pass
            self.heard.append(how)
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- the sender's side --------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the sender may still use it, as far as it has noticed."""
        return not self.closed and not self.over

    def tell(self, word: Any) -> None:
        """Say something to the provider."""
        if self.closed or self.over:
            return
        if self._want is Want.WORD and self._session is not None and not self._said:
            self._resume(word)
        else:
            self._said.append(word)

    async def hear(self, within_s: float) -> Any:
        """Return the next thing the provider says. Raises `Expired` after so many seconds."""
        if not self.heard:
            waiter = self._waiter = self._loop.create_future()
            timer = self._loop.call_first(within_s, _give_up, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
            if not self.heard:
                raise Expired
        else:
            await TURN
        what = self.heard[0]
        if not isinstance(what, End):
            self._read()
        return what

    def skip(self) -> bool:
        """Read what nobody waits for, and forget it; tell whether there was something."""
        skipped = False
        while self.heard and not isinstance(self.heard[0], End):
            self._read()
            skipped = True
        return skipped

    def _read(self) -> None:
        passes = self._owner.passes
        passes("reply", "unread")
        passes("reply", "partial")
        self.heard.popleft()
        if self._want is not Want.WORD:
            # What is unread makes a kill a reset, which only matters to a provider that is busy: one that waits
            # for the next word hears that none will come, either way.
            self._events.count += 1
        passes("reply", "whole")

    def close(self) -> None:
        """Close it, from the sender's side: FIN, or RST if something was left unread."""
        if self.closed:
            return
        self.closed = True
        self.reset = any(not isinstance(each, End) for each in self.heard)
        self._events.count += 1
        if self._session is None:
            return
        want = self._want
        if (
            (want is Want.WORD and not self._said)
            or want is Want.END
            or (isinstance(want, tuple) and want[0] is Want.END)
        ):
            self._resume(Word.GONE)

    die = close


def _give_up(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class _Turn:
    """What a step of the loop is awaited by."""

    __slots__ = ()

    def __await__(self) -> Iterator[None]:
        return iter(_ONCE)


_ONCE = (None,)
#: Let everybody else who is ready go first: the least that hearing an answer takes.
TURN: Awaitable[None] = _Turn()  # type: ignore[assignment] # an iterator is all that an await needs
