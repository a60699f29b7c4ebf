"""A process of the model level, and its `kill -9`: the one of the wire level, with less to own and to count."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Hashable
from typing import Any, Protocol, cast

from scenarios.simulation import processes
from scenarios.simulation.byteless.loop import NOBODY, StepLoop
from scenarios.simulation.loop import OWNER, VirtualLoop
from scenarios.simulation.processes import CrashPoint, Killed

STEP = ("step", "")

Moments = dict[tuple[str, str], list[Hashable]]
"""For each crash point, n-th time by n-th time: what there was outside of the process's memory when it came by."""


class Perishable(Protocol):
    """Something of a process that a kernel cleans up."""

    def die(self) -> None: ...


class Process(processes.Process):
    """One incarnation of a program."""

    def __init__(
        self,
        loop: StepLoop,
        name: str,
        *,
        crash: CrashPoint | None = None,
        skew_s: float = 0.0,
        moment: Callable[[], Hashable] | None = None,
        on_death: Callable[[processes.Process, str], None],
    ) -> None:
        """`moment`: count what it comes by, and note with each crash point what there is outside of its memory."""
        # Not the parent's `__init__`: what the wire level needs would be a tenth of a cell here.
        self.loop = cast(VirtualLoop, loop)
        self.steps_loop = loop
        self.name = name
        self.skew_s = skew_s
        self.crash = crash
        self.dead = self.frozen = False
        self.cause = ""
        self.signals: dict[int, Callable[[], object]] = {}
        self.watcher = None
        self.belongings: list[Any] = []
        self.steps = 0
        self.seen: Moments = {}
        self.named: dict[int, tuple[str, str, int]] = {}
        """The last point of a name (kind, name, n-th time) that it came by, step by step."""
        self._moment = moment
        self._tell = on_death
        self._held: list[Any] = []
        self._kind, self._point, self._left = "", "", 0
        self._frozen_for_s: float | None = None
        if crash is not None:
            self._kind, self._point, self._left = crash.kind, crash.name, crash.count
        self.is_watched = moment is not None or self._kind == "step"
        """Whether `may_step` has anything to say before a callback runs."""

    def spawn(self, function: Callable[..., Any], *args: Any) -> Any:
        context = contextvars.copy_context()
        context.run(OWNER.set, self)
        return context.run(lambda: self.steps_loop.create_task(function(*args)))

    def stop_counting(self) -> None:
        """What it comes by from now on is not noted."""
        if self._moment is not None:
            self._moment = None
            self.is_watched = self.dead or self.frozen or self._kind == "step"

    # --- crash points -------------------------------------------------------------------------------

    def may_step(self) -> bool:
        if self.dead or self.frozen:
            return False
        self.steps += 1
        if self._moment is not None:
            self.seen.setdefault(STEP, []).append(self._moment())
        if self._kind == "step" and self.steps == self._left:
            if self._frozen_for_s is None:
                self.kill(f"crash point {self.crash}")
            else:
                self._stop()
            return False
        return True

    def passes(self, kind: str, name: str) -> None:
        if self.dead:
            raise Killed
        if self._moment is not None:
            moments = self.seen.setdefault((kind, name), [])
            moments.append(self._moment())
            self.named[self.steps] = kind, name, len(moments)
        if name == self._point and kind == self._kind:
            self._left -= 1
            if self._left == 0:
                if self._frozen_for_s is None:
                    self.kill(f"crash point {self.crash}")
                    raise Killed
                self._stop()

    # --- stopped and continued ----------------------------------------------------------------------

    def freezes(self, at: CrashPoint, seconds: float) -> None:
        """SIGSTOP for so long: before a step, or behind the step in which it comes by a point of another kind."""
        self._kind, self._point, self._left = at.kind, at.name, at.count
        self._frozen_for_s = seconds
        self.is_watched = self.is_watched or at.kind == "step"

    def _stop(self) -> None:
        self.frozen = self.is_watched = True
        self._kind = ""
        assert self._frozen_for_s is not None
        self.steps_loop.call_later(self._frozen_for_s, self.thaw, context=NOBODY)

    def thaw(self) -> None:
        if self.frozen and not self.dead:
            self.frozen = False
            self.is_watched = self._moment is not None
            held, self._held = self._held, []
            self.steps_loop.take_up(held)

    def hold(self, handle: Any) -> None:
        self._held.append(handle)

    # --- the end ------------------------------------------------------------------------------------

    def kill(self, cause: str = "kill -9") -> None:
        if self.dead:
            return
        self.dead = self.is_watched = True
        self.frozen = False
        self.cause = cause
        for belonging in self.belongings:
            belonging.die()
        self._tell(self, cause)
