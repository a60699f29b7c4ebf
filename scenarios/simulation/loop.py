"""An asyncio event loop in virtual time: when nothing is ready, the clock jumps to the next timer.

No file descriptor, no thread, no real clock. What a program asks of the loop that only a real machine could
give is refused by the name of the call, never hung. The network hangs in by `create_connection` and
`create_server`; processes by the handles, each of which belongs to the process that made it.
"""

# The loop's methods only pass on what they are given; typeshed's generic signatures would say nothing more.
# What typeshed hides of asyncio's own loop (`_ready`, `_scheduled`, …) is what makes virtual time possible at all;
# the tests of this room pin it for every Python we support.
# mypy: disable-error-code="override,attr-defined"

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import socket
import threading
from asyncio import base_events, events
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

#: So many rounds of the loop at one instant mean that time will never advance again.
ROUNDS_PER_INSTANT = 20_000
#: Timers less than this apart are due together.
_SAME_INSTANT_S = 1e-9
#: After so many refusals a step is ended, whatever the program catches.
REFUSALS = 100
#: The epoch of every world: 2026-01-01T00:00:00Z, in Unix seconds.
EPOCH_S = 1_767_225_600.0


class SleepsForever(RuntimeError):
    """Nothing is ready and no timer is set: whatever is waited for can never happen."""


class Livelock(RuntimeError):
    """The loop goes round and round without time passing."""


class NotInTheWorld(RuntimeError):
    """A program asked for something real: a thread, a descriptor, a child process."""


class Owner(Protocol):
    """Whom a callback belongs to."""

    dead: bool
    frozen: bool

    def may_step(self) -> bool:
        """Count a step of this owner; False if it is dead or frozen (or dies of this very step)."""
        ...

    def hold(self, handle: events.Handle) -> None:
        """Keep a callback that could not run because the owner is frozen."""
        ...


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("OWNER", default=None)


# The two kinds of handles are asyncio's own, without what only its debug mode and its selector need: a world is a
# hundred thousand of them a second.


class _Handle(events.Handle):
    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: VirtualLoop, context: Any) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False
        self._source_traceback = self._repr = None


class _TimerHandle(events.TimerHandle):
    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: VirtualLoop, context: Any) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False
        self._source_traceback = self._repr = None
        self._when = when
        self._scheduled = True


def _complain(handle: _Handle | _TimerHandle, error: BaseException) -> None:
    about = {"message": f"Exception in callback {handle._callback!r}", "exception": error, "handle": handle}
    handle._loop.call_exception_handler(about)


class VirtualLoop(base_events.BaseEventLoop):
    """The loop. `time()` is seconds since the world began."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._rounds = 0
        """Rounds since time last advanced."""
        self._numbers = itertools.count()
        self.victim: Owner | None = None
        """Whose crash points are told apart by what changes outside of its memory; None: nobody's."""
        self.outside = 0
        """Goes up with everything outside of the victim's memory that changes, or might have changed."""
        self.outside_then = 0
        """How much of that there was when time advanced, or something was on the wire, last."""
        self._kept: list[tuple[asyncio.Future[Any], Any]] = []
        self.network: Any = None
        self.refused: list[str] = []
        """What processes did that there is not in the world, in sentences."""
        self.set_task_factory(_task)  # type: ignore[arg-type] # keyword arguments are passed through
        # Every future asks for it, and `bool()` says False without a step of Python.
        self.get_debug = bool  # type: ignore[method-assign] # asked at every step; bool() is False

    # --- time ---------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    @property
    def rounds(self) -> int:
        """Rounds since time last advanced."""
        return self._rounds

    def _run_once(self) -> None:
        """One round: what is ready runs; if nothing is, the clock goes to the next timer."""
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)[2]._scheduled = False
        if ready or self._stopping:
            self._rounds += 1
            if self._rounds > ROUNDS_PER_INSTANT:
                raise Livelock(
                    f"{ROUNDS_PER_INSTANT} rounds at t={self.now:.6f}s and time does not advance: "
                    "something polls without waiting"
                )
        elif not scheduled:
            raise SleepsForever(f"at t={self.now:.6f}s nothing is ready and no timer is set")
        elif scheduled[0][0] > self.now:
            # Exactly to the timer, not by a sum of floats: a timer that fires one ulp early is set again for ever.
            self.now = scheduled[0][0]
            self._rounds = 0
            self.outside_then = self.outside
        due = self.now + _SAME_INSTANT_S
        while scheduled and scheduled[0][0] < due:
            timer = heapq.heappop(scheduled)[2]
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            # What `Handle._run` does, in the name of the owner.
            context = handle._context
            owner = context.get(OWNER)
            if owner is not self.victim:
                self.outside += 1
            if owner is not None and not owner.may_step():
                if owner.frozen:
                    owner.hold(handle)
                continue
            try:
                context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                _complain(handle, error)

    def _write_to_self(self) -> None:
        pass

    # --- callbacks and whom they belong to ----------------------------------------------------------

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> events.Handle:
        if self._closed:
            self._check_closed()
        if self.victim is not None and context is not None:
            self._hand_over(context)
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> events.TimerHandle:
        if self._closed:
            self._check_closed()
        if self.victim is not None and context is not None:
            self._hand_over(context)
        timer = _TimerHandle(when, callback, args, self, context)
        # With a number, so that timers of one instant fire in the order in which they were set, whatever other
        # timers there are between them.
        heapq.heappush(self._scheduled, (when, next(self._numbers), timer))
        return timer

    def _hand_over(self, context: contextvars.Context) -> None:
        """A callback that somebody sets for somebody else is a change outside of his memory."""
        if context.get(OWNER) is not OWNER.get():
            self.outside += 1

    def forget_timers(self, owner: Owner) -> None:
        """The timers of the dead never fire, and time does not stop at them on its way."""
        for _, _, timer in self._scheduled:
            if timer._context.get(OWNER) is owner:
                timer._cancelled = True

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """A cancelled timer is thrown away when its time comes."""

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> events.Handle:
        if self._thread_id is not None and self._thread_id != threading.get_ident():
            raise NotInTheWorld(
                "call_soon_threadsafe() from another thread: there are no threads in the world"
            )
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Run it inline, so that every run takes the same steps; who waits goes on in the next step, as with threads."""
        future = self.create_future()
        try:
            result = func(*args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.call_soon(unless_over, future, None, error)
        else:
            self.call_soon(unless_over, future, result, None)
        return future

    def take_up(self, held: list[events.Handle]) -> None:
        """Run callbacks that were held back, in the next round, in their order."""
        self._ready.extend(held)

    # --- keeping the dead ---------------------------------------------------------------------------

    def keep(self, future: asyncio.Future[Any], coroutine: Any) -> None:
        """Keep a coroutine that nobody may ever finish, as tasks are kept; `future` is done when it has ended."""
        self._kept.append((future, coroutine))

    def dispose(self) -> None:
        """Close the loop and finish what never finished, now and with no loop running.

        A frozen coroutine of a killed process must not be finished by the garbage collector in the middle of
        somebody else's step: its cleanup would run inside whatever task is current.
        """
        self._ready.clear()
        self._scheduled.clear()
        if self.network is not None:
            self.network.dispose()
        self.close()
        for task, coroutine in reversed(self._kept):
            if not task.done():
                try:
                    coroutine.close()
                except BaseException:
                    # It died long ago; what its `finally` says to a closed loop does not matter.
                    continue
        self._kept.clear()

    # --- the network --------------------------------------------------------------------------------

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **more: Any
    ) -> Any:
        return await self.network.listen(protocol_factory, host, port, **more)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **more: Any
    ) -> Any:
        return await self.network.connect(protocol_factory, host, port, **more)

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        await self.network.sock_connect(sock, address)

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        return self.network.resolve(host, port)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> Any:
        return (sockaddr[0], str(sockaddr[1]))

    # --- what only a real machine has ---------------------------------------------------------------

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        owner = OWNER.get()
        handlers = getattr(owner, "signals", None)
        if handlers is None:
            _refuse("add_signal_handler()")
        context = contextvars.copy_context()
        handlers[sig] = lambda: self.call_soon(callback, *args, context=context)

    def remove_signal_handler(self, sig: int) -> bool:
        handlers = getattr(OWNER.get(), "signals", None)
        return handlers is not None and handlers.pop(sig, None) is not None

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> NoReturn:
        _refuse("add_reader()")

    def add_writer(self, fd: Any, callback: Any, *args: Any) -> NoReturn:
        _refuse("add_writer()")

    async def sock_recv(self, sock: Any, nbytes: int) -> NoReturn:
        _refuse("sock_recv()")

    async def sock_sendall(self, sock: Any, data: Any) -> NoReturn:
        _refuse("sock_sendall()")

    async def sock_accept(self, sock: Any) -> NoReturn:
        _refuse("sock_accept()")

    async def subprocess_exec(self, *args: Any, **more: Any) -> NoReturn:
        _refuse("subprocess_exec()")

    async def subprocess_shell(self, *args: Any, **more: Any) -> NoReturn:
        _refuse("subprocess_shell()")

    async def create_datagram_endpoint(self, *args: Any, **more: Any) -> NoReturn:
        _refuse("create_datagram_endpoint()")

    async def create_unix_connection(self, *args: Any, **more: Any) -> NoReturn:
        _refuse("create_unix_connection()")

    async def create_unix_server(self, *args: Any, **more: Any) -> NoReturn:
        _refuse("create_unix_server()")

    async def connect_read_pipe(self, *args: Any) -> NoReturn:
        _refuse("connect_read_pipe()")


def unless_over(future: asyncio.Future[Any], result: Any, error: BaseException | None = None) -> None:
    """End a future that may have been given up meanwhile: its owner can be late by a whole freeze."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Enough(BaseException):
    """Ends a step of a program that is refused again and again and will not hear it."""


def refuse(sentence: str) -> NoReturn:
    """Refuse what the current process does, and remember it: programs like to swallow exceptions."""
    owner = OWNER.get()
    told = f"{getattr(owner, 'name', 'the program')} {sentence}"
    loop = getattr(owner, "loop", None)
    refused: list[str] | None = getattr(loop, "refused", None)
    if loop is not None and refused is not None:
        loop.outside += 1
        refused.append(told)
        if len(refused) % REFUSALS == 0:
            raise Enough(told)
    raise NotInTheWorld(told)


def _refuse(call: str) -> NoReturn:
    refuse(
        f"called loop.{call}, which needs a real machine; in the world use asyncio streams, "
        "create_connection() or create_server()"
    )


def _task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **more: Any
) -> asyncio.Task[Any]:
    assert isinstance(loop, VirtualLoop)
    task = asyncio.Task(coroutine, loop=loop, **more)
    task._log_destroy_pending = False  # the dead are kept on purpose
    loop._kept.append((task, coroutine))
    return task


@contextmanager
def running_in(loop: VirtualLoop) -> Iterator[VirtualLoop]:
    """Make the loop the current one, and dispose of it at the end."""
    asyncio.set_event_loop(loop)
    try:
        yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.dispose()
