"""A coroutine that goes on the moment what it waits for is there, not a turn of the loop later.

A task is woken by the loop: with each piece of input that is a future, a callback and a turn of the loop, which
together cost more than what a session does with a command. A `Driven` coroutine that waits for a `Parked` (see
`parked`) is continued by whoever sets it, there and then. Everything else it waits for as a task does. What needs the
current task (`asyncio.timeout`, `asyncio.wait_for`) has to be put into a task of its own: `asyncio.current_task()` is
None in here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from typing import Any, Protocol, TypeVar

T = TypeVar("T", covariant=True)


class _Now(threading.local):
    """Of this thread, that is of its loop."""

    driven: Driven | None = None
    """What runs just now."""


_now = _Now()


class Waiter(Protocol[T]):
    """Somebody waits for this. Who has it sets it, once, unless it is done."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def __await__(self) -> Generator[Any, None, T]: ...


def parked() -> Waiter[Any]:
    """Return something to be awaited at once: the shortest way there is from who sets it to who waits."""
    driven = _now.driven
    return asyncio.get_running_loop().create_future() if driven is None else _Parked(driven)


class _Parked:
    """What a `Driven` waits for. To be awaited by it alone."""

    __slots__ = ("_driven", "_is_done", "_result")

    def __init__(self, driven: Driven) -> None:
        self._driven = driven
        self._is_done = False
        self._result: Any = None

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: Any, /) -> None:
        self._is_done, self._result = True, result
        self._driven.go_on(self)

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._is_done:
            try:
                yield self
            finally:
                self._is_done = True
        return self._result


class Driven(asyncio.Future[None]):
    """A future that is done when the coroutine has ended. Begins with the next turn of the loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._coroutine = coroutine
        self._waits_for: Any = None
        self._cancelled = False
        # A loop that outlives its programs (the simulated world's) finishes what they leave, and has to know of it.
        keep = getattr(loop, "keep", None)
        if keep is not None:
            keep(self, coroutine)
        loop.call_soon(self._step)

    def go_on(self, parked: _Parked) -> None:
        """What it waits for is there."""
        if self._waits_for is not parked:
            return  # Set before it was awaited.
        self._waits_for = None
        if _now.driven is not None:
            # One within another would be as deep as there are sessions.
            self.get_loop().call_soon(self._step)
        else:
            self._step()

    def cancel(self, msg: Any | None = None) -> bool:
        """Throw `CancelledError` into the coroutine, where it waits."""
        if self.done():
            return False
        waits_for, self._cancelled = self._waits_for, True
        if isinstance(waits_for, asyncio.Future):
            # As a task does: who waits for it hears of it when that has ended.
            waits_for.cancel()
        elif waits_for is not None:
            self._waits_for = None
            self.get_loop().call_soon(self._step)
        return True

    def _woken(self, future: asyncio.Future[Any]) -> None:
        self._waits_for = None
        self._step()

    def _step(self) -> None:
        if self.done():
            return
        _now.driven = self
        try:
            if self._cancelled:
                self._cancelled = False
                found = self._coroutine.throw(asyncio.CancelledError())
            else:
                found = self._coroutine.send(None)
        except StopIteration:
            self.set_result(None)
            return
        except asyncio.CancelledError:
            super().cancel()
            return
        except (KeyboardInterrupt, SystemExit) as end:
            self.set_exception(end)
            raise
        except BaseException as problem:
            self.set_exception(problem)
            return
        finally:
            _now.driven = None
        if found is None:
            self.get_loop().call_soon(self._step)
            return
        self._waits_for = found
        if isinstance(found, _Parked):
            if found.done():
                self._waits_for = None
                self.get_loop().call_soon(self._step)
            return
        found._asyncio_future_blocking = False
        found.add_done_callback(self._woken)
        if self._cancelled:
            found.cancel()
