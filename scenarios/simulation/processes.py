"""Processes of the world, and `kill -9` for them.

A process is a context: it owns every callback, timer, connection, listener and database connection made in
it. Killing it means that none of its code ever runs again (no `except`, no `finally`), its sockets are closed
as a kernel does, its open transactions are rolled back, and what was committed stays.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
from asyncio.events import Handle
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scenarios.simulation.loop import OWNER, VirtualLoop


class Killed(BaseException):
    """Unwinds the plain code of a process that was killed inside a call; its I/O is dead already."""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where a process dies: the n-th time it comes by `kind` and `name`.

    Kinds: `step` (a callback of the loop, before it runs), `sql` with name `before` or `after`, `commit` with
    name `lost` (before) or `unreported` (after), `point` with the name of a point in the program, `reply` with
    the name of a class of bytes read.
    """

    kind: str
    name: str
    count: int

    def __str__(self) -> str:
        return f"{self.kind} {self.name} #{self.count}".replace("  ", " ")


_STEP = ("step", "")
_PARTIAL = ("reply", "partial")


class Perishable(Protocol):
    """Something of a process that the kernel or a database server cleans up."""

    def die(self) -> None: ...


class Watcher(Protocol):
    """Who is told what became durable, for timelines and invariants."""

    def committed(self, process: Process, statements: tuple[str, ...]) -> None:
        """A transaction of this process is committed; these statements wrote something in it."""
        ...

    def booked(self, process: Process | None, records: Sequence[Any]) -> None:
        """The provider's disk has these records."""
        ...

    def died(self, process: Process, cause: str) -> None:
        """A process was killed."""
        ...


class Process:
    """One incarnation of a program."""

    def __init__(
        self,
        loop: VirtualLoop,
        name: str,
        *,
        crash: CrashPoint | None = None,
        skew_s: float = 0.0,
        on_death: Callable[[Process, str], None] | None = None,
    ) -> None:
        self.loop = loop
        self.name = name
        self.crash = crash
        self.skew_s = skew_s
        self.dead = False
        self.frozen = False
        self.signals: dict[int, Callable[[], object]] = {}
        self.passed: Counter[tuple[str, str]] = Counter()
        self.belongings: list[Perishable] = []
        self.died: asyncio.Future[None] = loop.create_future()
        self.cause = ""
        self._on_death = on_death
        self.watcher: Watcher | None = None
        self.looked_at = (-1.0, 0)
        """When it last asked for the time, and `looks`: how often since then."""
        self.looks = 0
        self._held: list[Handle] = []
        self._freezes_at: int | None = None
        self._freezes_behind: tuple[tuple[str, str], int] | None = None
        self._frozen_for_s: float | None = None
        self._crash_key = None if crash is None else (crash.kind, crash.name)
        self._counts_steps = crash is None or crash.kind == "step"
        self.steps = 0
        self.moments: dict[tuple[str, str], list[Hashable]] | None = None
        """For each crash point that it came by, n-th time by n-th time: what was outside of its memory then."""
        self._observed: Callable[[], Hashable] = tuple

    def spawn(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> asyncio.Task[Any]:
        """Run a coroutine function as (part of) this process."""
        context = contextvars.copy_context()
        context.run(OWNER.set, self)
        return context.run(lambda: self.loop.create_task(function(*args)))

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call plain code as this process."""
        context = contextvars.copy_context()
        context.run(OWNER.set, self)
        return context.run(function, *args)

    # --- crash points -------------------------------------------------------------------------------

    def may_step(self) -> bool:
        if self.dead or self.frozen:
            return False
        if self._counts_steps:
            self.steps += 1
            if self.moments is not None:
                self._note(_STEP)
            if self.steps == self._freezes_at:
                self._stop()
                return False
            if self.crash is not None and self.steps == self.crash.count:
                self.kill(f"crash point {self.crash}")
                return False
        return True

    def passes(self, kind: str, name: str) -> None:
        """Come by a crash point. Raises `Killed` if this is where the process dies."""
        if self.dead:
            raise Killed
        where = (kind, name)
        self.passed[where] += 1
        if self.moments is not None:
            self._note(where)
        if self._crash_key == where and self.crash is not None and self.passed[where] == self.crash.count:
            self.kill(f"crash point {self.crash}")
            raise Killed
        if self._freezes_behind == (where, self.passed[where]):
            self._stop()

    def reads(self, data: bytes, hand: Callable[[bytes], None]) -> None:
        """Let the program read what arrived: crash points before it, in the middle of a line, and after it."""
        self.passes("reply", "unread")
        if self._would_die("reply", "partial"):
            # Half of the first line, which no program can take for an answer.
            hand(data[: max(1, (data.find(b"\r\n") if b"\r\n" in data else len(data)) // 2)])
        self.passes("reply", "partial")
        hand(data)
        self.passes("reply", "whole")

    def _would_die(self, kind: str, name: str) -> bool:
        crash = self.crash
        return (
            crash is not None
            and self._crash_key == (kind, name)
            and self.passed[kind, name] + 1 == crash.count
        )

    def doom(self, point: CrashPoint) -> None:
        """Let it die at a crash point, counted from now on. A later doom takes the place of an earlier one."""
        passed = self.steps if point.kind == "step" else self.passed[point.kind, point.name]
        self.crash = CrashPoint(point.kind, point.name, passed + point.count)
        self._crash_key = (point.kind, point.name)

    def reprieve(self) -> None:
        """Take back what it was doomed to."""
        self.crash = self._crash_key = self._freezes_at = self._freezes_behind = None

    # --- classes of crash points ----------------------------------------------------------------------

    def tell_moments(self, observed: Callable[[], Hashable] = tuple) -> None:
        """From now on remember, at each crash point, what was outside of this process's memory.

        Two crash points with equal moments are the same crash: see "Crash points that are one" in docs/proof.md.
        `observed`: what there is outside besides what the loop counts.
        """
        self.loop.victim = self
        self.moments = {}
        self._observed = observed

    def _note(self, where: tuple[str, str]) -> None:
        assert self.moments is not None
        moment: Hashable = (self.loop.now, self.loop.outside, self._observed())
        if where == _PARTIAL:
            # Whoever dies here has read half a line, which he does in no other run: what he does then is not known.
            moment = (moment, self.passed[where])
        self.moments.setdefault(where, []).append(moment)

    # --- stopped and continued ----------------------------------------------------------------------

    def freeze(self, after: int = 0, seconds: float | None = None, *, at: str = "") -> None:
        """SIGSTOP, now or before the n-th step from now, for so long or until `thaw`.

        With `at` (`point after claim`) it is stopped behind the step in which it comes by there for the n-th time.
        Nothing of it runs, and its timers run out all the same.
        """
        self._frozen_for_s = seconds
        if at:
            kind, _, name = at.partition(" ")
            self._freezes_behind = (kind, name), self.passed[kind, name] + max(1, after)
        elif after:
            self._freezes_at = self.steps + after
        else:
            self._stop()

    def _stop(self) -> None:
        self.frozen = True
        self._freezes_at = self._freezes_behind = None
        if self._frozen_for_s is not None:
            due = self.loop.time() + self._frozen_for_s
            self.loop.call_at(due, self.thaw, context=contextvars.Context())

    def thaw(self) -> None:
        """SIGCONT: what came meanwhile is dealt with now, in the order in which it came."""
        self._freezes_at = None
        if self.frozen and not self.dead:
            self.frozen = False
            held, self._held = self._held, []
            self.loop.take_up(held)

    def hold(self, handle: Handle) -> None:
        """Keep a callback until the process goes on."""
        self._held.append(handle)

    # --- the end ------------------------------------------------------------------------------------

    def kill(self, cause: str = "kill -9") -> None:
        """SIGKILL."""
        if self.dead:
            return
        self.dead = True
        self.frozen = False
        self.cause = cause
        self.loop.network.kill(self)
        self.loop.forget_timers(self)
        for belonging in self.belongings:
            belonging.die()
        if self._on_death is not None:
            self._on_death(self, cause)
        if not self.died.done():
            # Whoever waits for the death is somebody else: set it in nobody's context.
            contextvars.Context().run(self.died.set_result, None)

    def terminate(self) -> None:
        """SIGTERM: what the program made of it, or death."""
        handler = self.signals.get(signal.SIGTERM)
        if handler is None:
            self.kill("SIGTERM without a handler")
        else:
            handler()


def point(name: str) -> None:
    """Come by a named point of the program, if this code runs in a process of a world."""
    owner = OWNER.get()
    if isinstance(owner, Process):
        owner.passes("point", name)
