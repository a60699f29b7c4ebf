"""One cell of the matrix: a fresh world, a script of faults, a crash, a restart, the calm, the findings.

`play` is the whole story and is meant to be read from top to bottom. The same cell always takes the same steps:
its trace (what was on the wire, who died, what was committed) has the same hash in every run.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any

from scenarios import checks
from scenarios.checks import Finding
from scenarios.history import History, Mark, Said, Try
from scenarios.simulation.behaviours import BY_WIRE, Behaviour
from scenarios.simulation.processes import CrashPoint, Killed, Process
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.senders import Disk, Owed, WorldSender
from scenarios.simulation.world import BEGIN, World
from simulator.config import read_plan
from simulator.provider.ledger import AttemptState
from simulator.provider.obligations import PARKED, Obligation, Reported
from simulator.provider.provider import DEFAULT_ACCOUNT, Setup

#: How long a storm may last before a crash point that was not reached counts as not reached, in virtual seconds.
STORM_S = 400.0
#: How long the calm may last before things must have come to an end, in virtual seconds.
CALM_S = 1_200.0
#: How often is looked whether things have come to an end, in virtual seconds.
LOOK_S = 10.0
#: So long nothing may happen after the end, in virtual seconds: longer than a lease, a poll and a look.
STILL_S = 45.0

#: What still moves by itself. Where the provider can be asked, `unknown` does too.
UNSETTLED = {
    checks.Policy.EXACTLY_ONCE: frozenset({Reported.PENDING, Reported.SENDING, Reported.UNKNOWN}),
    checks.Policy.AT_MOST_ONCE: frozenset({Reported.PENDING, Reported.SENDING}),
    checks.Policy.AT_LEAST_ONCE: frozenset({Reported.PENDING, Reported.SENDING}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Who sends what: the size of a world."""

    name: str
    owed: tuple[Owed, ...]
    workers: int = 1


def _owed(number: int, recipients: int = 1) -> Owed:
    names = ("ada", "bob", "eve")[:recipients] if recipients > 1 else (f"user{number}",)
    return Owed(ref=f"order-{number}", recipients=tuple(f"{name}.{number}@example.com" for name in names))


SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(name="one mail", owed=(_owed(1),)),
        Shape(name="two mails, two workers", owed=(_owed(1), _owed(2)), workers=2),
        Shape(name="three recipients", owed=(_owed(1, 3),)),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Everything that decides a run."""

    profile: str
    script: tuple[str, ...] = ()
    """Names of behaviours, one for each attempt from the first; after them the provider is healthy."""
    crash: CrashPoint | None = None
    victim: str = "worker"
    """Who dies at the crash point: worker, application or provider."""
    again: CrashPoint | None = None
    """Where the restarted victim dies once more."""
    shape: str = "one mail"
    seed: int = 1

    def __str__(self) -> str:
        words = [self.profile, self.shape, " → ".join(self.script) or "ok"]
        if self.crash is not None:
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
            "shape": self.shape,
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
    fired: tuple[str, ...] = ()
    """Rules that struck."""
    events: frozenset[str] = frozenset()
    """What *sometimes* happens and happened here."""
    virtual_s: float = 0.0
    history: History = History()
    trace: str = ""
    """Hex SHA-256 of everything that was on the wire, with times."""


def plan_of(profile: Profile, script: tuple[str, ...], *, per_mail: bool = False) -> dict[str, Any]:
    """Return the plan (its JSON form) in which attempt n meets the n-th behaviour of the script."""
    rules = []
    for number, name in enumerate(script, 1):
        behaviour: Behaviour = BY_WIRE[profile.wire][name]
        if behaviour.rule:
            rules.append(
                {"name": f"{number}: {name}", "dialect": profile.wire, "attempt": number, **behaviour.rule}
            )
    return {"seed": 1, "rule": rules, **profile.provider}


@lru_cache(maxsize=256)
def _setup_of(profile: str, script: tuple[str, ...]) -> Setup:
    return read_plan(plan_of(BY_ID[profile], script), "the script")


def play(
    cell: Cell, sender: WorldSender, disk: Disk, watch: Callable[[World], None] = lambda world: None
) -> Outcome:
    """Play a cell to its end. `watch` is given the world before anything happens in it."""
    profile, shape = BY_ID[cell.profile], SHAPES[cell.shape]
    _lay_out(cell, shape, sender, disk)
    setup = _setup_of(cell.profile, cell.script)
    with World(seed=cell.seed, setup=setup) as world:
        watch(world)
        try:
            outcome: Outcome = world.run(lambda: _story(world, cell, profile, shape, sender))
        finally:
            disk.look_away()
        return outcome


def _lay_out(cell: Cell, shape: Shape, sender: WorldSender, disk: Disk) -> None:
    """Put the disk into the state before the storm: empty for a story of the application, else enqueued."""
    if not disk.has("empty"):
        for old in disk.path.parent.glob(disk.path.name + "*"):
            old.unlink()
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


async def _story(world: World, cell: Cell, profile: Profile, shape: Shape, sender: WorldSender) -> Outcome:
    outcome = Outcome(cell=cell)
    marks: list[Mark] = []

    def note(actor: str, text: str) -> None:
        marks.append(Mark(at=world.clock.now(), actor=actor, text=text))

    # --- storm: faults are on -----------------------------------------------------------------------
    provider = await world.start_provider(crash=cell.crash if cell.victim == "provider" else None)
    victims: list[Process] = [provider] if cell.victim == "provider" else []
    if cell.victim == "application":
        victims.append(_business(world, cell, shape, sender, note))

    def start_worker(number: int, crash: CrashPoint | None) -> Process:
        process = world.process(f"worker {number}", crash=crash)
        process.spawn(sender.work, world)
        note("sender", f"{process.name} starts")
        return process

    for number in range(1, shape.workers + 1):
        first = number == 1 and cell.victim == "worker"
        worker = start_worker(number, cell.crash if first else None)
        if first:
            victims.append(worker)

    await until_settled_or(world, sender, profile, STORM_S, lambda: bool(victims) and victims[0].dead)
    if victims:
        # Only what is passed by now is a crash point: in the calm nobody dies.
        outcome.steps, outcome.passed = victims[0].steps, dict(victims[0].passed)
    if cell.crash is not None:
        outcome.reached = victims[0].dead
    if victims and victims[0].dead and cell.victim != "application":
        await asyncio.sleep(1.0)
        if cell.victim == "provider":
            victims.append(await world.start_provider(crash=cell.again))
            note("provider", "provider starts again")
        else:
            victims.append(start_worker(shape.workers + 1, cell.again))
        await until_settled_or(world, sender, profile, STORM_S, lambda: victims[1].dead)
        outcome.again_steps, outcome.again_passed = victims[1].steps, dict(victims[1].passed)
        if cell.again is not None:
            outcome.reached = victims[1].dead
            if victims[1].dead:
                await asyncio.sleep(1.0)
                if cell.victim == "provider":
                    await world.start_provider()
                else:
                    start_worker(shape.workers + 2, None)

    # --- calm: faults are off, until nothing moves --------------------------------------------------
    assert world.service is not None
    world.service.provider.heal(DEFAULT_ACCOUNT, world.clock.now())
    note("harness", "calm begins")
    settled = await until_settled_or(world, sender, profile, CALM_S, lambda: False)
    begun = len(world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now()).attempts)
    await asyncio.sleep(STILL_S)
    return _judge(world, outcome, profile, sender, marks, settled=settled, begun=begun)


def _business(world: World, cell: Cell, shape: Shape, sender: WorldSender, note: Any) -> Process:
    process = world.process("application", crash=cell.crash)
    try:
        for owed in shape.owed:
            process.run(sender.enqueue, world, owed)
    except Killed:
        note("app", f"dies at {cell.crash}")
    return process


async def until_settled_or(
    world: World, sender: WorldSender, profile: Profile, within_s: float, true: Callable[[], bool]
) -> bool:
    """Let time pass until every row has ended or is parked and no attempt is under way, or something is true."""
    unsettled = UNSETTLED[profile.policy]

    def settled() -> bool:
        assert world.service is not None
        account = world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now())
        return all(each.state is AttemptState.CLOSED for each in account.attempts.values()) and all(
            said.state not in unsettled for said in sender.said()
        )

    deadline = world.loop.time() + within_s
    while not true():
        if settled():
            return True
        if world.loop.time() >= deadline:
            return False
        await asyncio.sleep(LOOK_S)
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
    )
    findings = checks.thoroughly(history, profile.policy)
    # Scripts are short and end in health: who gives up or parks needs a reason that the provider gave.
    findings += checks.given_up(history, checks.never_in_doubt(history))
    findings += [Finding(kind="uncaught", recipient="", sentence=complaint) for complaint in world.complaints]
    if profile.policy is checks.Policy.EXACTLY_ONCE:
        findings += _parked_for_ever(history)
    outcome.findings = findings
    outcome.history = history
    outcome.fired = tuple(dict.fromkeys(rule for each in account.decisions for rule in each.rules))
    outcome.events = _events(history)
    outcome.virtual_s = world.loop.time()
    outcome.trace = trace_of(world)
    return outcome


def history_of(
    world: World,
    said: tuple[Said, ...],
    marks: Iterable[Mark] = (),
    *,
    promised: Iterable[tuple[str, str]] | None = None,
    moving: bool = False,
) -> History:
    """Put together what a judge may know of a world just now. `promised` (ref, recipient): by default what is said."""
    assert world.service is not None
    account = world.service.provider.account(DEFAULT_ACCOUNT, world.clock.now())
    deaths = (
        Mark(at=BEGIN + timedelta(seconds=at), actor="harness", text=f"{name} dies: {cause}")
        for at, name, cause in world.deaths
    )
    states = {(each.key, each.recipient): each.state for each in said}
    return History(
        obligations=tuple(
            Obligation(
                account=DEFAULT_ACCOUNT, ref=ref, recipient=recipient, state=states.get((ref, recipient))
            )
            for ref, recipient in (states if promised is None else promised)
        ),
        acceptances=tuple(account.ledger.acceptances),
        attempts=tuple(
            Try(
                id=each.id,
                opened_at=each.opened_at,
                closed_at=each.closed_at,
                stage=each.stage,
                recipients=each.recipients,
                message_id=each.message_id,
                key=each.key,
                accepted=each.accepted,
                answer=each.answer,
                sent=each.sent.value,
                rules=each.rules,
                retry_after_s=_retry_after_s(each.rules),
            )
            for each in account.attempts.values()
        ),
        said=said,
        marks=(*marks, *deaths),
        knows_states=True,
        crashes=sum(1 for _, name, _ in world.deaths if name.startswith("worker")),
        moving=moving,
    )


def _retry_after_s(rules: Iterable[str]) -> float | None:
    """Return what the rules of a script (`2: 503 with retry-after`) made the provider ask for, in seconds."""
    for rule in rules:
        behaviour = BY_WIRE["http"].get(rule.partition(": ")[2])
        if behaviour is not None and "retry_after" in behaviour.rule:
            return float(behaviour.rule["retry_after"])
    return None


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


def _events(history: History) -> frozenset[str]:
    """Say which of the things that must happen sometimes happened here."""
    events = set()
    for each in history.attempts:
        if each.in_doubt:
            events.add("an answer was lost")
        if "replayed" in each.answer:
            events.add("a key was replayed")
        if "in_flight" in each.answer:
            events.add("a key was in flight")
    for said in history.said:
        copies = len(history.copies_for(said.recipient))
        if said.state is Reported.UNKNOWN:
            events.add(f"parked and {'accepted' if copies else 'not accepted'}")
        if said.state is Reported.ACCEPTED and any(
            each.in_doubt for each in history.tries_for(said.recipient)
        ):
            events.add("recovered")
        if said.state is Reported.FAILED:
            events.add("refused for good")
        if copies > 1:
            events.add("a second copy")
    return frozenset(events)


def trace_of(world: World) -> str:
    """Return the hex SHA-256 of all that was on the wire and of who died, with times."""
    digest = hashlib.sha256()
    for wired in world.network.seen:
        digest.update(
            f"{wired.at!r} {wired.connection} {wired.source} {wired.what} ".encode() + wired.data + b"\n"
        )
    for death in world.deaths:
        digest.update(repr(death).encode())
    return digest.hexdigest()
