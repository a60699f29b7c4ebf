"""One cell of the matrix: a fresh world, a script of faults, a crash, a restart, the calm, the findings.

`play` is the whole story and is meant to be read from top to bottom. The same cell always takes the same steps:
its trace (what was on the wire, who died, what was committed) has the same hash in every run.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any

from scenarios import checks
from scenarios.checks import Finding
from scenarios.history import History, Mark
from scenarios.simulation import guards, manners
from scenarios.simulation.asked import Notes, noted
from scenarios.simulation.behaviours import BY_WIRE, Behaviour
from scenarios.simulation.evidence import fired_in, future_of, history_of, trace_of, tries_of, try_of
from scenarios.simulation.hooks import start_hooks
from scenarios.simulation.processes import CrashPoint, Killed, Process
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.rest import Rest
from scenarios.simulation.senders import Disk, WorldSender
from scenarios.simulation.shapes import EVERY_SHAPE, Shape
from scenarios.simulation.sometimes import events_of
from scenarios.simulation.world import BEGIN, World
from simulator.config import read_plan
from simulator.config.rules import read_rules
from simulator.provider.ledger import AttemptState
from simulator.provider.obligations import PARKED, Reported
from simulator.provider.provider import DEFAULT_ACCOUNT, Setup
from simulator.provider.rule import Rule

#: How long a storm may last before a crash point that was not reached counts as not reached, in virtual seconds.
STORM_S = 400.0
#: How long the calm may last before things must have come to an end, in virtual seconds.
CALM_S = 1_200.0
#: How often is looked whether things have come to an end, in virtual seconds.
LOOK_S = 10.0
#: The kind of crash point at which a process is not killed but stopped for a while.
FREEZE = "freeze"
#: So long it is stopped, in virtual seconds: past its lease, and past the poll that hands its mail to somebody else.
FROZEN_S = 35.0
#: So long nothing may happen after the end, in virtual seconds: longer than a lease, a poll and a look.
STILL_S = 45.0

#: Kinds of findings about waits that a clock decides.
OF_CLOCKS = frozenset({"too fast", "too early", "pressed"})

#: What still moves by itself. Where the provider can be asked, `unknown` does too.
UNSETTLED = {
    checks.Policy.EXACTLY_ONCE: frozenset({Reported.PENDING, Reported.SENDING, Reported.UNKNOWN}),
    checks.Policy.AT_MOST_ONCE: frozenset({Reported.PENDING, Reported.SENDING}),
    checks.Policy.AT_LEAST_ONCE: frozenset({Reported.PENDING, Reported.SENDING}),
}


#: Who may die: where nobody hears what becomes of the mails (False), and where somebody does.
VICTIMS: Mapping[bool, tuple[str, ...]] = {
    False: ("worker", "application", "provider"),
    True: ("intake", "worker"),
}
#: Who may die where the shape is a campaign: who writes its rows, who sends them, who pauses and cancels it.
CAMPAIGNERS = ("expander", "worker", "person")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Everything that decides a run."""

    profile: str
    script: tuple[str, ...] = ()
    """Names of behaviours, one for each attempt from the first; after them the provider is healthy."""
    crash: CrashPoint | None = None
    victim: str = "worker"
    """Who dies at the crash point: one of `VICTIMS`, or where there is a campaign of `CAMPAIGNERS`."""
    again: CrashPoint | None = None
    """Where the restarted victim dies once more."""
    frozen_s: float = FROZEN_S
    """At a crash point of kind `freeze` the victim is stopped (SIGSTOP) for so long, then it goes on.

    Its name is empty (at the n-th step), or it is the kind and name of another one: then behind that.
    """
    skew_s: float = 0.0
    """By how much the clock of every other worker is wrong, beginning with the second."""
    shape: str = "one mail"
    is_asked: bool = False
    """Whether the provider asks its plan at every stage, also one that has nothing to say: otherwise it may go a shorter
    way, with other steps to die at. So it is wherever it must be known what was met."""
    seed: int = 1

    def __str__(self) -> str:
        words = [self.profile, self.shape, " → ".join(self.script) or "ok"]
        if self.skew_s:
            words.append(f"every other clock {self.skew_s:+g} s")
        if self.crash is not None and self.crash.kind == FREEZE:
            where = self.crash.name or "step"
            words.append(f"{self.victim} is frozen for {self.frozen_s:g} s at {where} #{self.crash.count}")
        elif self.crash is not None:
            words.append(f"{self.victim} dies at {self.crash}")
        if self.again is not None:
            words.append(f"and again at {self.again}")
        return " · ".join(words)

    def as_json(self) -> dict[str, Any]:
        return {
            "profile": self.profile,
            "script": list(self.script),
            "crash": _point_json(self.crash),
            "victim": self.victim,
            "again": _point_json(self.again),
            "frozen_s": self.frozen_s,
            "skew_s": self.skew_s,
            "shape": self.shape,
            "is_asked": self.is_asked,
            "seed": self.seed,
        }


def _point_json(point: CrashPoint | None) -> dict[str, Any] | None:
    return None if point is None else {"kind": point.kind, "name": point.name, "count": point.count}


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a cell came to."""

    cell: Cell
    findings: list[Finding] = field(default_factory=list)
    reached: bool = True
    """False: the victim never came by its crash point (the cell says nothing then)."""
    steps: int = 0
    passed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """What the victim came by, for a dry run: the crash points of the script."""
    again_steps: int = 0
    again_passed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    moments: Mapping[tuple[str, str], Sequence[Hashable]] = field(default_factory=dict)
    """For each (kind, name) what was outside of the victim's memory whenever it came by, if it was asked for."""
    again_moments: Mapping[tuple[str, str], Sequence[Hashable]] = field(default_factory=dict)
    fired: tuple[str, ...] = ()
    """Rules that struck."""
    asked: frozenset[tuple[int, str]] = frozenset()
    """In which attempt and at which stage the plan was asked for rules, if that was noted (`scenarios.simulation.asked`)."""
    events: frozenset[str] = frozenset()
    """What *sometimes* happens and happened here."""
    virtual_s: float = 0.0
    history: History = History()
    future: str = ""
    """The same of what came after the last death of a worker, and what the outbox and the ledger said in the end."""
    trace: str = ""
    """Hex SHA-256 of everything that was on the wire, with times."""


def plan_of(profile: Profile, script: tuple[str, ...], *, per_mail: bool = False) -> dict[str, Any]:
    """Return the plan (its JSON form) in which attempt n meets the n-th behaviour of the script."""
    rules = []
    for number, name in enumerate(script, 1):
        behaviour: Behaviour = BY_WIRE[profile.wire][name]
        if behaviour.rule:
            rules.append(behaviour.as_rule(profile.wire, attempt=number) | {"name": f"{number}: {name}"})
    return on_terms(
        {"seed": 1, "rule": rules, **profile.provider}, (BY_WIRE[profile.wire][name] for name in script)
    )


def on_terms(document: dict[str, Any], behaviours: Iterable[Behaviour]) -> dict[str, Any]:
    """Return the plan with the terms of these behaviours as well; where two say different things, the later one counts."""
    document = dict(document)
    for behaviour in behaviours:
        for key, more in behaviour.terms.items():
            known = document.get(key)
            if known and key == "webhooks":
                pass  # Whoever listens already goes on listening.
            elif isinstance(more, Mapping):
                document[key] = {**(known or {}), **more}
            else:
                # Two limits of one name cannot be, and a rule that is there need not be there twice.
                said = {each.get("name", str(each)) for each in more}
                document[key] = [
                    *(each for each in known or () if each.get("name", str(each)) not in said),
                    *more,
                ]
    return document


@lru_cache(maxsize=4096)
def setup_of(profile: str, script: tuple[str, ...]) -> Setup:
    """Return the same plan, read; a rule that stood at the same place before is not read again."""
    behaviours = BY_WIRE[BY_ID[profile].wire]
    if not script or any(behaviours[name].terms for name in script):
        return read_plan(plan_of(BY_ID[profile], script), "the script")
    base = setup_of(profile, ())
    rules = tuple(
        _rule_of(BY_ID[profile].wire, name, number)
        for number, name in enumerate(script, 1)
        if behaviours[name].rule
    )
    return replace(base, plan=replace(base.plan, rules=rules))


@lru_cache(maxsize=4096)
def _rule_of(wire: str, name: str, number: int) -> Rule:
    rule = BY_WIRE[wire][name].as_rule(wire, attempt=number) | {"name": f"{number}: {name}"}
    return read_rules([rule], "the script")[0]


def play(
    cell: Cell,
    sender: WorldSender,
    disk: Disk,
    watch: Callable[[World], None] = lambda world: None,
    *,
    moments: bool = False,
    notes: Notes | None = None,
) -> Outcome:
    """Play a cell to its end. `watch` is given the world before anything happens in it.

    `moments`: remember, for whoever is to die next (the victim, or if it dies here its successor), which of its crash
    points are one and the same. `notes`: note what the plan is asked.
    """
    profile, shape = BY_ID[cell.profile], EVERY_SHAPE[cell.shape]
    _lay_out(cell, shape, sender, disk)
    setup = setup_of(cell.profile, cell.script)
    noting = noted(notes or Notes()) if notes is not None or cell.is_asked else nullcontext()
    with World(seed=cell.seed, setup=setup) as world, noting:
        watch(world)
        try:
            outcome: Outcome = world.run(
                lambda: _story(world, cell, profile, shape, sender, disk, moments, notes)
            )
        finally:
            disk.look_away()
        return outcome


def _lay_out(cell: Cell, shape: Shape, sender: WorldSender, disk: Disk) -> None:
    """Put the disk into the state before the storm: empty for a story of the application, else enqueued."""
    if not disk.has("empty"):
        disk.wipe()
        sender.prepare()
        disk.keep("empty")
    if cell.victim == "application":
        disk.put_back("empty")
        return
    if not disk.has(shape.name):
        disk.put_back("empty")
        with World(seed=cell.seed) as world:
            for owed in shape.owed:
                sender.enqueue(world, owed)
        disk.keep(shape.name)
    disk.put_back(shape.name)


async def _story(
    world: World,
    cell: Cell,
    profile: Profile,
    shape: Shape,
    sender: WorldSender,
    disk: Disk,
    moments: bool,
    notes: Notes | None,
) -> Outcome:
    outcome = Outcome(cell=cell)
    marks: list[Mark] = []

    def victim(process: Process) -> None:
        if not moments:
            return
        observed: Callable[[], Hashable] = guards.dice
        if cell.victim == "provider":
            # Of the provider the judge knows what it had in mind, too.
            observed = lambda: (guards.dice(), tries_of(world))  # noqa: E731 - named by what it is for
        elif notes is not None:
            observed = Rest(world, process, disk.rows, try_of, notes, world.loop.time())
        process.tell_moments(observed)

    first_victim = victim if cell.crash is None else _nobody
    second_victim = victim if cell.crash is not None else _nobody

    def note(actor: str, text: str) -> None:
        marks.append(Mark(at=world.clock.now(), actor=actor, text=text))

    # --- storm: faults are on -----------------------------------------------------------------------
    victims: list[Process] = []
    await start_hooks(world, (BY_WIRE[profile.wire][name] for name in cell.script))
    if cell.victim == "provider":
        victims.append(await world.start_provider(crash=cell.crash, watch=first_victim))
    else:
        await world.start_provider()
    if cell.victim == "application":
        victims.append(_business(world, cell, shape, sender, note, first_victim))

    def start_worker(
        number: int, crash: CrashPoint | None = None, watch: Callable[[Process], None] = _nobody
    ) -> Process:
        process = world.process(
            f"worker {number}",
            crash=None if crash is not None and crash.kind == FREEZE else crash,
            skew_s=0.0 if number % 2 else cell.skew_s,
        )
        if crash is not None and crash.kind == FREEZE:
            process.freeze(after=crash.count, seconds=cell.frozen_s, at=crash.name)
        watch(process)
        process.spawn(sender.work, world)
        note("sender", f"{process.name} starts")
        return process

    for number in range(1, shape.workers + 1):
        first = number == 1 and cell.victim == "worker"
        worker = start_worker(number, cell.crash if first else None, first_victim if first else _nobody)
        if first:
            victims.append(worker)

    def struck() -> bool:
        return bool(victims) and (victims[0].dead or victims[0].frozen)

    # A successor must be there before the frozen one goes on, so the harness looks more often then.
    freezes = _freezes(cell)
    await until_settled_or(world, sender, profile, STORM_S, struck, 1.0 if freezes else LOOK_S)
    if victims:
        # Only what is passed by now is a crash point: in the calm nobody dies.
        outcome.steps, outcome.passed = victims[0].steps, dict(victims[0].passed)
        outcome.moments = _moments_of(victims[0])
    if cell.crash is not None:
        outcome.reached = struck()
    if struck() and freezes:
        note("harness", f"{victims[0].name} is frozen")
        start_worker(shape.workers + 1)
        await asyncio.sleep(cell.frozen_s)
        victims[0].thaw()
        note("harness", f"{victims[0].name} goes on")
        await until_settled_or(world, sender, profile, STORM_S, lambda: False)
    elif struck() and cell.victim != "application":
        await asyncio.sleep(1.0)
        if cell.victim == "provider":
            victims.append(await world.start_provider(crash=cell.again, watch=second_victim))
            note("provider", "provider starts again")
        else:
            victims.append(start_worker(shape.workers + 1, cell.again, second_victim))
        await until_settled_or(world, sender, profile, STORM_S, lambda: victims[1].dead)
        outcome.again_steps, outcome.again_passed = victims[1].steps, dict(victims[1].passed)
        outcome.again_moments = _moments_of(victims[1])
        if cell.again is not None:
            outcome.reached = victims[1].dead
            if victims[1].dead:
                await asyncio.sleep(1.0)
                if cell.victim == "provider":
                    await world.start_provider()
                else:
                    start_worker(shape.workers + 2)
    if any(BY_WIRE[profile.wire][name].on_stop for name in cell.script):
        # What a provider makes of a goodbye is only seen by who says it.
        for process in [each for each in world.processes if each.name.startswith("worker")]:
            process.terminate()
        note("harness", "workers are asked to stop")
        await asyncio.sleep(LOOK_S)
        start_worker(shape.workers + 3)

    # --- calm: faults are off, until nothing moves --------------------------------------------------
    assert world.service is not None
    if notes is not None:
        notes.end()
        outcome.asked = frozenset(notes.asked)
    world.service.provider.heal(DEFAULT_ACCOUNT, world.clock.now())
    note("harness", "calm begins")
    settled = await until_settled_or(world, sender, profile, CALM_S, lambda: False)
    if profile.policy is checks.Policy.AT_LEAST_ONCE and Reported.UNKNOWN in {
        each.state for each in sender.said()
    }:
        # What will be repeated and what waits for a person look the same until the next look of the reconciler.
        await asyncio.sleep(STILL_S)
        settled = await until_settled_or(world, sender, profile, CALM_S, lambda: False)
    begun = len(world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now()).attempts)
    await asyncio.sleep(STILL_S)
    return _judge(world, outcome, profile, sender, marks, settled=settled, begun=begun)


def _freezes(cell: Cell) -> bool:
    return cell.crash is not None and cell.crash.kind == FREEZE


def _nobody(process: Process) -> None:
    """Nobody watches this process."""


def _moments_of(process: Process) -> Mapping[tuple[str, str], Sequence[Hashable]]:
    """Return what it has noted so far; what it comes by from now on is no crash point."""
    noted, process.moments = process.moments or {}, None
    if process.loop.victim is process:
        process.loop.victim = None
    return noted


def _business(
    world: World,
    cell: Cell,
    shape: Shape,
    sender: WorldSender,
    note: Any,
    watch: Callable[[Process], None],
) -> Process:
    process = world.process("application", crash=cell.crash)
    watch(process)
    try:
        for owed in shape.owed:
            process.run(sender.enqueue, world, owed)
    except Killed:
        note("app", f"dies at {cell.crash}")
    return process


async def until_settled_or(
    world: World,
    sender: WorldSender,
    profile: Profile,
    within_s: float,
    true: Callable[[], bool],
    every_s: float = LOOK_S,
) -> bool:
    """Let time pass until every row has ended or is parked and no attempt is under way, or something is true.

    However often is asked whether it is true, the other question is asked at the same times: a dry run ends when the
    runs do whose crash points it lists.
    """
    unsettled = UNSETTLED[profile.policy]

    def settled() -> bool:
        assert world.service is not None
        account = world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now())
        return all(each.state is AttemptState.CLOSED for each in account.attempts.values()) and all(
            said.state not in unsettled for said in sender.said()
        )

    deadline = world.loop.time() + within_s
    rounds_to_a_look = round(LOOK_S / every_s)
    for number in itertools.count():
        if true():
            break
        if number % rounds_to_a_look == 0 and settled():
            return True
        if world.loop.time() >= deadline:
            return False
        await asyncio.sleep(every_s)
    return True


def _judge(
    world: World,
    outcome: Outcome,
    profile: Profile,
    sender: WorldSender,
    marks: list[Mark],
    *,
    settled: bool,
    begun: int,
) -> Outcome:
    assert world.service is not None
    account = world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now())
    said = sender.said()
    history = history_of(
        world,
        said,
        marks,
        promised=sender.promised(),
        moving=not settled or len(account.attempts) != begun,
        frozen=int(_freezes(outcome.cell) and outcome.reached),
    )
    findings = findings_of(
        history,
        profile,
        provider_died=any(name == "provider" for _, name, _ in world.deaths),
        complaints=world.complaints,
        clocks_agree=not outcome.cell.skew_s,
    )
    everybody = EVERY_SHAPE[outcome.cell.shape].owed
    # All of a shape is enqueued in the first instant.
    ends = {
        each.ref: BEGIN + timedelta(seconds=each.expires_s)
        for each in everybody
        if each.expires_s is not None
    }
    outcome.findings = manners.judged(everybody, history, findings, ends)
    for owed in everybody:
        if owed.within_s is not None and outcome.cell.crash is None and set(outcome.cell.script) <= {"ok"}:
            for recipient in owed.recipients:
                outcome.findings += checks.late(history, recipient, within_s=owed.within_s)
    outcome.history = history
    outcome.fired = fired_in(world)
    outcome.events = events_of(world, history, profile, overtaken=_freezes(outcome.cell) and outcome.reached)
    outcome.virtual_s = world.loop.time()
    outcome.trace = trace_of(world)
    outcome.future = future_of(world, history)
    return outcome


def findings_of(
    history: History,
    profile: Profile,
    *,
    provider_died: bool,
    complaints: Iterable[str],
    clocks_agree: bool = True,
) -> list[Finding]:
    """Return what is wrong with the history of a cell: the same questions on every level."""
    findings = checks.thoroughly(history, profile.policy)
    # Here it is known what was said to everybody, and who died over it.
    findings += checks.pressed(history) + checks.flooded(history)
    # Scripts are short and end in health: who gives up or parks needs a reason that the provider gave. What it gave
    # one who was in the middle of a mail when it died, it could not write down.
    if not provider_died:
        findings += checks.given_up(history, checks.never_in_doubt(history))
    findings += [Finding(kind="uncaught", recipient="", sentence=complaint) for complaint in complaints]
    if profile.policy is checks.Policy.EXACTLY_ONCE:
        findings += _parked_for_ever(history)
    if "rate_per_s" in profile.sender:
        findings += checks.too_fast(history)
        if not clocks_agree:
            # On SQLite each worker has the time of its own clock: to who is ahead every wait is over too soon. Elsewhere
            # he only finds out at a poll, which is later than any wait.
            findings = [each for each in findings if each.kind not in OF_CLOCKS]
    return findings


def _parked_for_ever(history: History) -> list[Finding]:
    """Where the provider can be asked, nothing may stay parked: the evidence is there (L4 of the theory)."""
    return [
        Finding(
            kind="parked",
            ref=each.key,
            recipient=each.recipient,
            sentence=f"still {each.state.value} although the provider can be asked",
        )
        for each in history.said
        if each.state in PARKED
    ]
