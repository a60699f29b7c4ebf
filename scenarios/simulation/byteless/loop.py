"""The loop of the model level: asyncio's tasks and futures on a list of callbacks and a heap of timers.

It goes the same rounds in virtual time as the loop of the wire level, without network, handles and guards: whoever
drives it says until when. A callback belongs to the process in whose context it was made, as there.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

from scenarios.simulation.loop import OWNER, ROUNDS_PER_INSTANT, Livelock
from scenarios.simulation.processes import Killed

#: The context of what belongs to nobody: the provider, and the harness.
NOBODY = contextvars.Context()
#: So many callbacks at one instant mean that time will never advance again.
CALLBACKS_PER_INSTANT = 10 * ROUNDS_PER_INSTANT

#: By so much the number of a timer is smaller that goes before others.
_FIRST = 1 << 40

_Callback = tuple[Callable[..., Any], tuple[Any, ...], contextvars.Context]


class OutOfReach(BaseException):
    """Something was asked for that there is not at the model level. No `Exception`: senders catch those and go on."""


def refuse(sentence: str) -> NoReturn:
    """Raise `OutOfReach`, and remember it in the running loop: a task that ends by it says nothing."""
    loop: Any = events._get_running_loop()
    if isinstance(loop, StepLoop):
        loop.refused.append(sentence)
    raise OutOfReach(sentence)


class Timer:
    """What `call_at` returns."""

    __slots__ = ("args", "callback", "cancelled_", "context")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...], context: contextvars.Context):
        self.callback = callback
        self.args = args
        self.context = context
        self.cancelled_ = False

    def cancel(self) -> None:
        self.cancelled_ = True

    def cancelled(self) -> bool:
        return self.cancelled_


class _InNextStep:
    """What a call in a thread came to: to be had after one step, as every call in a thread lets others go first."""

    __slots__ = ("_error", "_result")

    def __init__(self, result: Any, error: BaseException | None) -> None:
        self._result = result
        self._error = error

    def __await__(self) -> Generator[None, None, Any]:
        yield
        if self._error is not None:
            raise self._error
        return self._result


class StepLoop:
    """The loop: what asyncio's tasks and futures, and the sender, ask of one. `time()` is seconds since the world began."""

    def __init__(self) -> None:
        self.now = 0.0
        self.complaints: list[str] = []
        """What nobody caught, in the code of a living process."""
        self.refused: list[str] = []
        """What was asked for and is not to be had here, in sentences: what is found then says nothing."""
        self._ready: deque[_Callback] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = 0
        self._tasks: list[tuple[asyncio.Task[Any], Coroutine[Any, Any, Any]]] = []

    # --- driving it ---------------------------------------------------------------------------------

    def run_until(self, due: float) -> None:
        """Let everything happen that is due before this instant, then it is this instant. Raises `Livelock`.

        What is due at the very instant comes behind what the caller does now, as behind a harness that wakes first.
        """
        ready, timers = self._ready, self._timers
        take, left = ready.popleft, CALLBACKS_PER_INSTANT
        while True:
            while ready:
                callback, args, context = take()
                owner: Any = context.get(OWNER)
                if owner is not None and owner.is_watched and not owner.may_step():
                    if owner.frozen:
                        owner.hold((callback, args, context))
                    continue
                try:
                    context.run(callback, *args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.call_exception_handler(
                        {"message": f"Exception in callback {callback!r}", "exception": error}
                    )
                left -= 1
                if not left:
                    raise Livelock(
                        f"{CALLBACKS_PER_INSTANT} callbacks at t={self.now:.6f}s: time stands still"
                    )
            if not timers or timers[0][0] >= due:
                break
            self.now = when = max(timers[0][0], self.now)
            left = CALLBACKS_PER_INSTANT
            while timers and timers[0][0] <= when:
                timer = heapq.heappop(timers)[2]
                if not timer.cancelled_:
                    ready.append((timer.callback, timer.args, timer.context))
        self.now = max(self.now, due)

    def take_up(self, held: list[Any]) -> None:
        """Run callbacks that were held back, in their order."""
        self._ready.extend(held)

    @contextmanager
    def current(self) -> Iterator[None]:
        """While this lasts, it is the running loop; at the end what never finished is closed."""
        before = events._get_running_loop()
        events._set_running_loop(cast(asyncio.AbstractEventLoop, self))
        try:
            yield
        finally:
            self._dispose()
            events._set_running_loop(before)

    def _dispose(self) -> None:
        self._ready.clear()
        self._timers.clear()
        for task, coroutine in reversed(self._tasks):
            if not task.done():
                try:
                    coroutine.close()
                except BaseException:
                    # It died long ago; what its `finally` says to a loop that is over does not matter.
                    continue
        self._tasks.clear()
        self._ready.clear()

    # --- what asyncio asks for ----------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    #: False. Every future and task asks for it, so it is answered without a call of Python's.
    get_debug = bool

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        this: Any = self
        return asyncio.Future(loop=this)

    def create_task(self, coro: Any, **more: Any) -> asyncio.Task[Any]:
        this: Any = self
        task = asyncio.Task(coro, loop=this, **more)
        task._log_destroy_pending = False  # type: ignore[attr-defined] # the dead are kept on purpose
        self._tasks.append((task, coro))
        return task

    def call_soon(self, callback: Any, *args: Any, context: contextvars.Context | None = None) -> Any:
        self._ready.append((callback, args, contextvars.copy_context() if context is None else context))

    def call_at(
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        timer = Timer(callback, args, contextvars.copy_context() if context is None else context)
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, timer))
        return timer

    def call_first(self, delay: float, callback: Any, *args: Any) -> Any:
        """The same as `call_later`, before everything else that is due at that instant: a deadline was set long ago."""
        timer = Timer(callback, args, contextvars.copy_context())
        self._numbers += 1
        heapq.heappush(self._timers, (self.now + delay, self._numbers - _FIRST, timer))
        return timer

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Run it inline; who waits goes on in the next step, as with threads."""
        try:
            return _InNextStep(func(*args), None)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return _InNextStep(None, error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what nobody caught, unless it is the end of a killed process."""
        error = context.get("exception")
        if not isinstance(error, Killed):
            self.complaints.append(f"{context.get('message')}: {error!r}")

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        owner: Any = OWNER.get()
        context = contextvars.copy_context()
        owner.signals[sig] = lambda: self.call_soon(callback, *args, context=context)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> NoReturn:
        refuse("it calls call_soon_threadsafe(), and there are no threads at the model level")


def sleep(loop: StepLoop, seconds: float) -> asyncio.Future[None]:
    """Return what is done when so much time has passed: as good as a coroutine, without a task to run it."""
    future = loop.create_future()
    loop.call_later(seconds, _over, future)
    return future


def _over(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
