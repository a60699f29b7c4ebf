"""What a program in the world must not do, caught at the call and told by its name: never hung, never half real.

While a world is open, a thread, a child process, a real socket or a real wait of one of its processes is refused, and
`time` and `datetime.now` tell virtual time. A step that never ends is interrupted, with the line it stands at.
"""

from __future__ import annotations

import ctypes
import gc
import linecache
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from types import FrameType
from typing import Any

from scenarios.simulation.loop import EPOCH_S, OWNER, NotInTheWorld, VirtualLoop, refuse
from scenarios.simulation.processes import Killed, Process

#: So long, in real seconds, one step of a program may take: it blocks all others meanwhile.
STEP_LIMIT_S = 10.0
#: So often a program may ask for the time in one round of the loop: who asks more often is waiting for it to pass.
LOOKS_PER_ROUND = 100_000

_Patch = tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]


def _refused(call: str, instead: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(*arguments: Any, **more: Any) -> Any:
            if isinstance(OWNER.get(), Process):
                refuse(f"called {call}, {instead}")
            return real(*arguments, **more)

        return stand_in

    return wrap


def _told(name: str, per_second: int | None, *, wall: bool) -> _Patch:
    """A clock of `time` that tells virtual time to a process, skewed as its wall clock is."""

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in() -> Any:
            owner = OWNER.get()
            if not isinstance(owner, Process):
                return real()
            _look(owner, f"time.{name}()")
            seconds = owner.loop.time() + (EPOCH_S + owner.skew_s if wall else 0.0)
            return seconds if per_second is None else int(seconds * per_second)

        return stand_in

    return (time, name, wrap)


def _look(owner: Process, call: str) -> None:
    moment = (owner.loop.time(), owner.loop.rounds)
    if owner.looked_at != moment:
        owner.looked_at, owner.looks = moment, 0
    owner.looks += 1
    if owner.looks > LOOKS_PER_ROUND:
        owner.looks = 0
        refuse(
            f"waits in a loop for {call} to advance, which blocks everything; in the world time passes only "
            "while a program awaits: use `await asyncio.sleep(…)`"
        )


_THREADS = (
    "which starts a thread; the world has one thread: use asyncio, or asyncio.to_thread for a short call"
)
_CHILDREN = "which starts a program outside of the world, where time and network are real"
_SOCKETS = "which dials over the real network; in the world use asyncio streams or create_connection()"

PATCHES: tuple[_Patch, ...] = (
    (
        time,
        "sleep",
        _refused("time.sleep()", "which blocks the loop for real seconds; use `await asyncio.sleep(…)`"),
    ),
    (threading.Thread, "start", _refused("threading.Thread.start()", _THREADS)),
    (subprocess.Popen, "__init__", _refused("subprocess.Popen()", _CHILDREN)),
    (os, "system", _refused("os.system()", _CHILDREN)),
    (os, "fork", _refused("os.fork()", _CHILDREN)),
    (socket.socket, "connect", _refused("socket.connect()", _SOCKETS)),
    (socket.socket, "connect_ex", _refused("socket.connect_ex()", _SOCKETS)),
    (socket.socket, "bind", _refused("socket.bind()", "which listens on the real network")),
    (socket, "getaddrinfo", _refused("socket.getaddrinfo()", "which asks a real name server")),
    _told("time", None, wall=True),
    _told("time_ns", 1_000_000_000, wall=True),
    _told("monotonic", None, wall=False),
    _told("monotonic_ns", 1_000_000_000, wall=False),
    _told("perf_counter", None, wall=False),
)


_dice = random.Random()
_common: random.Random = vars(random)["_inst"]
"""The dice of the module `random` itself."""


def _seeded(real: Callable[..., Any]) -> Callable[..., Any]:
    def stand_in(size: int) -> bytes:
        owner = OWNER.get()
        return _entropy(owner, size) if isinstance(owner, Process) else bytes(real(size))

    return stand_in


def _entropy(owner: Process, size: int) -> bytes:
    if owner.dead:
        raise Killed
    # Whoever comes after it gets other numbers.
    owner.loop.outside += 1
    return _dice.randbytes(size)


def _own_dice(real: Callable[..., Any]) -> Callable[..., Any]:
    def stand_in(dice: random.Random, a: Any = None, version: int = 2) -> None:
        owner = OWNER.get()
        if a is None and isinstance(owner, Process):
            a = _entropy(owner, 32)
        real(dice, a, version)

    return stand_in


#: Where chance comes from: the kernel, also under the name by which `random` and `secrets` know it, and dice that are
#: given no seed.
_CHANCE: tuple[_Patch, ...] = (
    (os, "urandom", _seeded),
    (random, "_urandom", _seeded),
    (random.Random, "seed", _own_dice),
)


def dice() -> int:
    """Return a number that tells apart the states of the dice of the module `random`, which all processes share."""
    return hash(_common.getstate())


_real_now = vars(datetime)["now"]


def _now(kind: type[datetime], tz: tzinfo | None = None) -> datetime:
    owner = OWNER.get()
    if not isinstance(owner, Process):
        told: datetime = _real_now.__get__(None, kind)(tz)
        return told
    _look(owner, "datetime.now()")
    return kind.fromtimestamp(EPOCH_S + owner.skew_s + owner.loop.time(), tz)


_virtual_now = classmethod(_now)


def _set_now(method: Any) -> None:
    # `datetime` is a type of C, whose methods cannot be set from Python: its dictionary can.
    gc.get_referents(vars(datetime))[0]["now"] = method
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))


_before: list[tuple[Any, str, Any]] = []

#: What modules take out of `time` when they are loaded (`from time import monotonic`), and what it is replaced by.
_TAKEN: dict[str, tuple[Any, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    name: (getattr(time, name), wrap) for place, name, wrap in PATCHES if place is time
}
_seen: set[str] = set()
_takers: list[_Patch] = []
"""Modules that hold a real clock of their own. Whether one was loaded before the first world must not matter."""


def _taken() -> list[_Patch]:
    """Return the patches for what modules have taken out of `time`; each module is looked at once."""
    new = sys.modules.keys() - _seen
    _seen.update(new)
    for module in (sys.modules.get(name) for name in sorted(new)):
        held = getattr(module, "__dict__", {})
        if module is not time and not _is_ours(module):
            _takers.extend(
                (module, name, wrap) for name, (real, wrap) in _TAKEN.items() if held.get(name) is real
            )
    return _takers


def _is_ours(module: Any) -> bool:
    # The harness measures in real time.
    return getattr(module, "__name__", "").partition(".")[0] in ("scenarios", "pytest", "_pytest", "xdist")


@contextmanager
def guarded(seed: int = 0) -> Iterator[None]:
    """While this lasts, processes of a world cannot reach the real one: no wait, no thread, no clock, no true dice.

    Whoever makes many worlds one after the other may hold one `guarded()` around them all.
    """
    outermost = not _before
    if outermost:
        for place, name, wrap in (*PATCHES, *_CHANCE, *_taken()):
            _before.append((place, name, vars(place).get(name)))
            setattr(place, name, wrap(getattr(place, name)))
        _set_now(_virtual_now)
    state = _common.getstate()
    # Whoever rolls the module's own dice gets the same numbers in each run of this world.
    for dice in (_dice, _common):
        dice.seed(seed)
    try:
        yield
    finally:
        _common.setstate(state)
        if outermost:
            _set_now(_real_now)
            for place, name, own in _before:
                if own is None:
                    delattr(place, name)  # it was inherited
                else:
                    setattr(place, name, own)
            _before.clear()


class _Watch:
    """Which loop is watched just now, and where it stood at the last look."""

    def __init__(self) -> None:
        self.is_on = False
        self.loop: VirtualLoop | None = None
        self.limit_s = STEP_LIMIT_S
        self.last: tuple[VirtualLoop, float, int] | None = None

    def look(self, _number: int, frame: FrameType | None) -> None:
        loop = self.loop
        moment = None if loop is None else (loop, loop.time(), loop.rounds)
        if loop is not None and moment == self.last:
            owner = OWNER.get()
            name = owner.name if isinstance(owner, Process) else "the harness"
            told = f"{name} has blocked the loop for {self.limit_s:g} real seconds {_where(frame)}"
            loop.refused.append(told)
            raise NotInTheWorld(told)
        self.last = moment


_watch = _Watch()


@contextmanager
def watchdog(loop: VirtualLoop | None, limit_s: float | None = None) -> Iterator[None]:
    """While this lasts, a step of the loop that takes longer than the limit is interrupted where it stands.

    Whoever runs many loops one after the other may hold one of None around them all; the limit is that of the outermost.
    Only in the main thread, where Python hears signals; elsewhere nothing is watched.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _watch.loop = _watch.loop, loop
    try:
        if _watch.is_on:
            yield
        else:
            with _alarms(STEP_LIMIT_S if limit_s is None else limit_s):
                yield
    finally:
        _watch.loop, _watch.last = before, None


@contextmanager
def _alarms(limit_s: float) -> Iterator[None]:
    _watch.is_on, _watch.limit_s, _watch.last = True, limit_s, None
    former = signal.signal(signal.SIGALRM, _watch.look)
    signal.setitimer(signal.ITIMER_REAL, limit_s, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, former)
        _watch.is_on = False


def _where(frame: FrameType | None) -> str:
    """Say where a program stands, in a sentence."""
    if frame is None:
        return "in a call of C"
    file, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(file, line).strip()
    return f"at {os.path.basename(file)}:{line}" + (f", `{source}`" if source else "")
