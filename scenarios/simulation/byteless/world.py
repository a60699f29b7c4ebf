"""A world of the model level: one loop, one shelf, the provider's core, and processes that can be killed.

    world = World(seed=1, setup=plan, shelf=shelf)
    with world.loop.current():
        worker = world.process("worker 1", crash=CrashPoint("commit", "lost", 2))
        worker.spawn(sender.work, world)
        world.loop.run_until(40.0)

Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from reference_sender.policy.evidence import Wire
from scenarios.simulation import processes
from scenarios.simulation.byteless.http import HttpDoor
from scenarios.simulation.byteless.line import TURN, Events, Line
from scenarios.simulation.byteless.loop import StepLoop, sleep
from scenarios.simulation.byteless.outbox import Shelf
from scenarios.simulation.byteless.process import Process
from scenarios.simulation.byteless.smtp import SmtpDoor
from scenarios.simulation.loop import OWNER
from scenarios.simulation.processes import CrashPoint
from scenarios.simulation.world import BEGIN
from simulator.provider.ledger import Attempt
from simulator.provider.provider import Provider, Setup


class Clock:
    """Virtual time, wrong by `skew_s`; it is asked far more often than time passes."""

    def __init__(self, loop: StepLoop, skew_s: float = 0.0) -> None:
        self._loop = loop
        self._begin = BEGIN + timedelta(seconds=skew_s)
        self.told_at = 0.0
        self.told = self._begin

    def now(self) -> datetime:
        at = self._loop.now
        if at != self.told_at:
            self.told_at, self.told = at, self._begin + timedelta(seconds=at)
        return self.told

    def monotonic(self) -> float:
        return self._loop.now

    def sleep(self, seconds: float) -> Any:
        return sleep(self._loop, seconds)

    def alarm(self, seconds: float, call: Callable[[], object]) -> Any:
        return self._loop.call_later(seconds, call)


class _Core(Provider):
    """The provider's core, where nobody keeps a copy of each attempt: here the provider never dies."""

    def _keep(self, attempt: Attempt) -> None:
        pass


class World:
    """One world, and the provider's house in it."""

    def __init__(self, *, seed: int, setup: Setup, shelf: Shelf) -> None:
        self.seed = seed
        self.shelf = shelf
        self.loop = StepLoop()
        self.clock = Clock(self.loop)
        self.provider: Provider = _Core(seed=seed, setup=setup, now=BEGIN)
        self.processes: list[Process] = []
        self.deaths: list[tuple[float, str, str]] = []
        self.lines: list[Line] = []
        self.events = Events()
        """Whatever happened on lines and at the provider: while this stays, nothing has."""

    @property
    def now(self) -> datetime:
        clock, at = self.clock, self.loop.now
        return clock.told if at == clock.told_at else clock.now()

    def time(self) -> float:
        return self.loop.now

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.loop.call_at(ceil(self.loop.now + seconds), act)

    @property
    def complaints(self) -> list[str]:
        return self.loop.complaints

    def process(
        self, name: str, *, crash: CrashPoint | None = None, skew_s: float = 0.0, counts: bool = False
    ) -> Process:
        """Make a process; nothing runs in it yet. `counts`: it notes the moment of each crash point it comes by."""
        process = Process(
            self.loop,
            name,
            crash=crash,
            skew_s=skew_s,
            moment=self.moment if counts else None,
            on_death=self._died,
        )
        self.processes.append(process)
        return process

    def moment(self) -> Hashable:
        """Return what stands for everything outside of a process's memory: equal moments, equal worlds without it."""
        return self.loop.now, self.shelf.commits, self.events.count

    async def dial(self, wire: Wire) -> Line:
        """Connect the current process with the provider."""
        await TURN
        owner = OWNER.get()
        assert isinstance(owner, Process)
        line = Line(self.loop, owner, self.events)
        self.lines.append(line)
        line.serve((HttpDoor if wire is Wire.HTTP else SmtpDoor)(self, line).serve())
        return line

    def release(self) -> None:
        """Let go every answer that is held back."""
        for line in self.lines:
            line.release()

    def _died(self, process: processes.Process, cause: str) -> None:
        self.deaths.append((self.loop.now, process.name, cause))
