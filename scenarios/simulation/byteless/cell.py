"""One cell at the model level: the story of `scenarios.simulation.cell`, told without bytes and without a harness task.

The same cell means the same thing on both levels: who dies where, when a successor starts, how long calm lasts, and
what the judge is asked. A test plays cells on both and compares their histories.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from reference_sender.life import State
from scenarios.checks import Finding, Policy
from scenarios.history import History, Mark
from scenarios.simulation.asked import Notes, noted
from scenarios.simulation.behaviours import BY_WIRE
from scenarios.simulation.byteless.outbox import Shelf
from scenarios.simulation.byteless.process import STEP, Moments, Process
from scenarios.simulation.byteless.sender import OnlyOnTheWire, Sender
from scenarios.simulation.byteless.world import World
from scenarios.simulation.cell import (
    CALM_S,
    FREEZE,
    LOOK_S,
    STILL_S,
    STORM_S,
    UNSETTLED,
    Cell,
    Outcome,
    findings_of,
    setup_of,
)
from scenarios.simulation.evidence import struck, try_of
from scenarios.simulation.processes import CrashPoint, Killed
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.shapes import SHAPES, Shape
from simulator.provider.ledger import AttemptState
from simulator.provider.obligations import Obligation, Reported
from simulator.provider.provider import DEFAULT_ACCOUNT, Setup


@dataclass(slots=True, kw_only=True)
class Told(Outcome):
    """What a cell came to at this level."""

    named: Mapping[int, tuple[str, str, int]] = field(default_factory=dict)
    """The last point of a name (kind, name, n-th time) in each step of the victim, if it was asked to count."""


class Shelves:
    """What lies on the shelf when a story begins, by shape: rendered once for all worlds."""

    def __init__(self) -> None:
        self._laid: dict[str, Shelf] = {}

    def laid_out(self, cell: Cell, shape: Shape, sender: Sender) -> Shelf:
        """Return a shelf of its own: empty for a story of the application, else with every mail enqueued."""
        if cell.victim == "application":
            return Shelf()
        if shape.name not in self._laid:
            world = World(seed=cell.seed, setup=Setup(), shelf=Shelf())
            for owed in shape.owed:
                sender.enqueue(world, owed)
            self._laid[shape.name] = world.shelf
        return self._laid[shape.name].copy()


@lru_cache(maxsize=8192)
def _found(history: History, profile: str, complaints: tuple[str, ...]) -> tuple[Finding, ...]:
    """Judge a history; most cells come to one that another cell has come to before."""
    return tuple(findings_of(history, BY_ID[profile], provider_died=False, complaints=complaints))


def forget_judgements() -> None:
    """Forget which histories were judged already (for whoever measures)."""
    _found.cache_clear()


def play(
    cell: Cell, sender: Sender, shelves: Shelves, *, counts: bool = False, notes: Notes | None = None
) -> Told:
    """Play a cell to its end. Raises `OnlyOnTheWire`.

    `counts`: note, for whoever is to die next (the victim, or its successor if it dies here), the moments of all the
    crash points it comes by. `notes`: note what the plan is asked.
    """
    if notes is not None:
        with noted(notes):
            return _played(cell, sender, shelves, counts, notes)
    return _played(cell, sender, shelves, counts, None)


def _played(cell: Cell, sender: Sender, shelves: Shelves, counts: bool, notes: Notes | None) -> Told:
    if (shape := SHAPES.get(cell.shape)) is None:
        raise OnlyOnTheWire(f"{cell.shape!r} says more of its mails at enqueue than the model level can")
    if cell.victim not in ("worker", "application"):
        raise OnlyOnTheWire(f"the victim is {cell.victim!r}; at the model level only the sender dies")
    for name in cell.script:
        if BY_WIRE[BY_ID[cell.profile].wire][name].needs_bytes:
            raise OnlyOnTheWire(f"{name!r} needs requests that wait for each other, or webhooks")
    world = World(
        seed=cell.seed,
        setup=setup_of(cell.profile, cell.script),
        shelf=shelves.laid_out(cell, shape, sender),
    )
    with world.loop.current():
        outcome = _Story(world, cell, shape, sender, counts, notes).told()
    if world.loop.refused:
        raise OnlyOnTheWire(world.loop.refused[0])
    return outcome


class _Story:
    """Storm, recovery, calm, verdict."""

    def __init__(
        self,
        world: World,
        cell: Cell,
        shape: Shape,
        sender: Sender,
        counts: bool,
        notes: Notes | None,
    ) -> None:
        self._notes = notes
        self._world = world
        self._cell = cell
        self._shape = shape
        self._sender = sender
        self._counts = counts
        self._profile: Profile = BY_ID[cell.profile]
        self._unsettled = frozenset(State(each.value) for each in UNSETTLED[self._profile.policy])
        self._looked_at: Hashable = None
        self._account = world.provider.accounts[DEFAULT_ACCOUNT]
        self._marks: list[Mark] = []

    def told(self) -> Told:
        """Tell it; the same steps as `_story` of the wire level, in the same order."""
        world, cell, shape = self._world, self._cell, self._shape
        outcome = Told(cell=cell)
        first_counts = self._counts and cell.crash is None
        victim: Process | None = None
        if cell.victim == "application":
            victim = self._business(first_counts)
        for number in range(1, shape.workers + 1):
            if number == 1 and cell.victim == "worker":
                victim = self._start_worker(number, cell.crash, counts=first_counts)
            else:
                self._start_worker(number)
        assert victim is not None
        freezes = cell.crash is not None and cell.crash.kind == FREEZE

        def struck() -> bool:
            return victim.dead or victim.frozen

        self._until_settled_or(STORM_S, struck, 1.0 if freezes else LOOK_S)
        outcome.steps, outcome.moments, outcome.passed = _noted(victim)
        outcome.named = victim.named
        if cell.crash is not None:
            outcome.reached = struck()
        if struck() and freezes:
            self._note("harness", f"{victim.name} is frozen")
            self._start_worker(shape.workers + 1)
            self._pass(cell.frozen_s)
            victim.thaw()
            self._note("harness", f"{victim.name} goes on")
            self._until_settled_or(STORM_S)
        elif struck() and cell.victim != "application":
            self._pass(1.0)
            successor = self._start_worker(
                shape.workers + 1, cell.again, counts=self._counts and cell.crash is not None
            )
            self._until_settled_or(STORM_S, lambda: successor.dead)
            outcome.again_steps, outcome.again_moments, outcome.again_passed = _noted(successor)
            if cell.again is not None:
                outcome.reached = successor.dead
                if successor.dead:
                    self._pass(1.0)
                    self._start_worker(shape.workers + 2)
        if any(BY_WIRE[self._profile.wire][name].on_stop for name in cell.script):
            for process in [each for each in world.processes if each.name.startswith("worker")]:
                process.terminate()
            self._note("harness", "workers are asked to stop")
            self._pass(LOOK_S)
            self._start_worker(shape.workers + 3)

        if self._notes is not None:
            self._notes.end()
            outcome.asked = frozenset(self._notes.asked)
        world.provider.heal(DEFAULT_ACCOUNT, world.now)
        self._note("harness", "calm begins")
        settled = self._until_settled_or(CALM_S)
        if self._profile.policy is Policy.AT_LEAST_ONCE and Reported.UNKNOWN in {
            each.state for each in self._sender.said(world.shelf)
        }:
            self._pass(STILL_S)
            settled = self._until_settled_or(CALM_S)
        begun = len(self._account.attempts)
        self._pass(STILL_S)
        self._judge(outcome, moving=not settled or len(self._account.attempts) != begun, frozen=freezes)
        return outcome

    # --- what is done -------------------------------------------------------------------------------

    def _business(self, counts: bool) -> Process:
        process = self._world.process("application", crash=self._cell.crash, counts=counts)
        try:
            for owed in self._shape.owed:
                process.run(self._sender.enqueue, self._world, owed)
        except Killed:
            self._note("app", f"dies at {self._cell.crash}")
        return process

    def _start_worker(self, number: int, crash: CrashPoint | None = None, *, counts: bool = False) -> Process:
        freezes = crash is not None and crash.kind == FREEZE
        process = self._world.process(
            f"worker {number}",
            crash=None if freezes else crash,
            skew_s=0.0 if number % 2 else self._cell.skew_s,
            counts=counts,
        )
        if crash is not None and freezes:
            kind, _, name = (crash.name or "step").partition(" ")
            process.freezes(CrashPoint(kind, name, crash.count), self._cell.frozen_s)
        process.spawn(self._sender.work, self._world)
        self._note("sender", f"{process.name} starts")
        return process

    def _note(self, actor: str, text: str) -> None:
        self._marks.append(Mark(at=self._world.now, actor=actor, text=text))

    def _pass(self, seconds: float) -> None:
        loop = self._world.loop
        loop.run_until(loop.now + seconds)

    def _until_settled_or(
        self, within_s: float, true: Callable[[], bool] = lambda: False, every_s: float = LOOK_S
    ) -> bool:
        loop = self._world.loop
        deadline = loop.now + within_s
        rounds_to_a_look = round(LOOK_S / every_s)
        for number in itertools.count():
            if true():
                break
            if number % rounds_to_a_look == 0 and self._settled():
                return True
            if loop.now >= deadline:
                return False
            loop.run_until(loop.now + every_s)
        return True

    def _settled(self) -> bool:
        # A look at a world in which nothing has happened since the last look sees the same.
        seen = self._world.shelf.commits, self._world.events.count
        if seen == self._looked_at:
            return False
        self._looked_at = seen
        for attempt in self._account.attempts.values():
            if attempt.state is not AttemptState.CLOSED:
                return False
        settled = all(row["state"] not in self._unsettled for row in self._world.shelf.emails.values())
        if settled:
            self._looked_at = None
        return settled

    # --- what is made of it -------------------------------------------------------------------------

    def _judge(self, outcome: Outcome, *, moving: bool, frozen: bool) -> None:
        world = self._world
        said = self._sender.said(world.shelf)
        states = {(each.key, each.recipient): each.state for each in said}
        history = History(
            obligations=tuple(
                Obligation(
                    account=DEFAULT_ACCOUNT, ref=ref, recipient=recipient, state=states.get((ref, recipient))
                )
                for ref, recipient in world.shelf.business
            ),
            acceptances=tuple(self._account.ledger.acceptances),
            attempts=tuple(map(try_of, self._account.attempts.values())),
            said=said,
            knows_states=True,
            crashes=sum(name.startswith("worker") for _, name, _ in world.deaths)
            + int(frozen and outcome.reached),
            moving=moving,
        )
        outcome.findings = list(_found(history, self._cell.profile, tuple(world.complaints)))
        outcome.history = dataclasses.replace(history, marks=tuple(self._marks))
        outcome.fired = struck((rule for each in history.attempts for rule in each.rules), self._account)
        outcome.virtual_s = world.loop.now


def _noted(process: Process) -> tuple[int, Moments, dict[tuple[str, str], int]]:
    """Return what it has noted so far; what it comes by from now on is no crash point: in the calm nobody dies."""
    moments = process.seen
    process.stop_counting()
    passed = {point: len(seen) for point, seen in moments.items() if point != STEP}
    return len(moments.get(STEP, ())), moments, passed
