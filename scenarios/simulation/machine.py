"""One world driven step by step: what the state machines play, and what a replay file of theirs plays again.

A `Schedule` is a list of steps and decides everything; a `Run` takes them one after the other, looks for broken
safety after each, and in the end lets calm return and looks for broken liveness. A step that has nothing to act on
does nothing, so any part of a schedule is a schedule. Nothing here chooses steps.

The assumptions of the proof bound what a step may do: a partition and a freeze together are shorter than what the
sender allows a request to be under way, clocks are wrong by seconds, and the person who requeues has looked first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from reference_sender import life
from reference_sender.life import State
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision, Doubt
from scenarios import checks
from scenarios.checks import Finding, Policy
from scenarios.history import History
from scenarios.simulation import promised, sorts
from scenarios.simulation.behaviours import BY_WIRE, Behaviour
from scenarios.simulation.cell import CALM_S, STILL_S, on_terms, until_settled_or
from scenarios.simulation.evidence import history_of, trace_of
from scenarios.simulation.hooks import start_hooks
from scenarios.simulation.processes import CrashPoint, Killed, Process
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.promised import Blur, Promised
from scenarios.simulation.senders import Disk, Owed, ReferenceSender, WorldSender
from scenarios.simulation.timeline import Recorder
from scenarios.simulation.world import BEGIN, World
from simulator.config import read_plan
from simulator.provider.ledger import AttemptState
from simulator.provider.obligations import Obligation, Reported
from simulator.provider.provider import DEFAULT_ACCOUNT

MAILS = 4
WORKERS = 3
#: Longest partition and longest freeze, in seconds: with the provider's own slowness still less than what the
#: sender allows a request that it gave up to be under way.
PARTITION_S = 12.0
FREEZE_S = 55.0
SKEW_S = 5.0
#: Where a worker can be doomed to die, besides `step`.
POINTS: tuple[tuple[str, str], ...] = (
    ("step", ""),
    ("sql", "before"),
    ("sql", "after"),
    ("commit", "lost"),
    ("commit", "unreported"),
    # Not a place in the program: the provider has booked a mail and not answered yet.
    ("acceptance", ""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that is done to the world. What the fields mean is said by the method of `Run` named like `do`."""

    do: str
    number: int = 0
    """Of a mail or of a worker, from 1."""
    name: str = ""
    count: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        words = [self.do.replace("_", " ")]
        words += [f"{self.number}"] if self.number else []
        words += [f"{self.name!r}"] if self.name else []
        words += [f"×{self.count}"] if self.count else []
        words += [f"{self.seconds:g} s"] if self.seconds else []
        return " ".join(words)

    def as_json(self) -> dict[str, Any]:
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name == "do" or getattr(self, field.name) != field.default
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Everything that decides a run."""

    profile: str
    steps: tuple[Step, ...] = ()
    seed: int = 1

    def __str__(self) -> str:
        return f"{self.profile} · " + " → ".join(map(str, self.steps))

    def as_json(self) -> dict[str, Any]:
        return {
            "profile": self.profile,
            "seed": self.seed,
            "steps": [step.as_json() for step in self.steps],
        }


class Run:
    """A world that takes steps. Use it as a context manager: leaving it disposes of the world."""

    def __init__(self, profile: Profile, sender: WorldSender, disk: Disk, *, seed: int = 1) -> None:
        self.profile = profile
        self.sender = sender
        self.steps: list[Step] = []
        self.owed: dict[tuple[str, str], Owed] = {}
        """(ref, recipient) of what is committed, and by which mail."""
        self.workers: list[Process] = []
        self._seed = seed
        self._disk = disk
        self._partitions: list[tuple[float, float]] = []
        self._frozen: set[Process] = set()
        self._skewed = 0
        self._has_terms = False
        self._mails: dict[int, Promised] = {}
        """By number, in the order of their commits."""
        self._by_hand: set[str] = set()
        """Refs that a person has moved: attempts after a refusal are right then."""
        self._checked = 0
        self._doomed: Process | None = None
        """Who dies when so many more mails are booked."""
        self._bookings = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if not self._disk.has("empty"):
            self._disk.wipe()
            self.sender.prepare()
            self._disk.keep("empty")
        self._disk.put_back("empty")
        setup = read_plan(self._document([]), "the profile")
        self.world = World(seed=self._seed, setup=setup)
        self._stack.enter_context(self.world)
        self.recorder = Recorder(self.world, self.sender.said)
        self.recorder.on_booking = self._booked
        self.world.run(self.world.start_provider)
        self._provider = self.world.processes[-1]
        self.start_worker(Step(do="start_worker"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if (look_away := getattr(self._disk, "look_away", None)) is not None:
            look_away()

    @property
    def schedule(self) -> Schedule:
        return Schedule(profile=self.profile.id, steps=tuple(self.steps), seed=self._seed)

    @property
    def trace(self) -> str:
        """Hash of all that was on the wire, who died, and what is committed in the end."""
        digest = hashlib.sha256(trace_of(self.world).encode())
        digest.update(repr([dataclasses.astuple(each) for each in self.recorder.changes]).encode())
        return digest.hexdigest()

    def take(self, step: Step) -> list[Finding]:
        """Take a step; return what is broken now."""
        self.steps.append(step)
        act: Callable[[Step], None] = getattr(self, step.do)
        self.recorder.note("harness", f"— {step}")
        act(step)
        return self.unsafe()

    # --- the steps: application and people ----------------------------------------------------------

    def enqueue(self, step: Step) -> None:
        """The business transaction of mail `number`, of the sort `name`; of one that is promised already, the same event again.

        `seconds`: for how long it is worth sending, where the sort is one that expires.
        """
        known = self._mails.get(step.number)
        owed = self._owed(step) if known is None else known.owed
        self.world.process("application").run(self.sender.enqueue, self.world, owed)
        if known is None:
            self._mails[step.number] = Promised(owed=owed, at=self.world.clock.now())
        self.owed |= {(owed.ref, recipient): owed for recipient in owed.recipients}

    def _owed(self, step: Step) -> Owed:
        name = step.name if sorts.fits(step.name, self.profile) else sorts.PLAIN
        before = [each.owed for each in self._mails.values()]
        return sorts.made(_mail(step.number), name, step.seconds, before)

    def roll_back(self, step: Step) -> None:
        """The business transaction of mail `number`, of the sort `name`, undone: the application dies instead of committing."""
        process = self.world.process("application", crash=CrashPoint("commit", "lost", 1))
        try:
            process.run(self.sender.enqueue, self.world, self._owed(step))
        except Killed:
            return

    def requeue(self, step: Step) -> None:
        """A person looks at mail `number`, asks the provider what it has, and moves the row accordingly."""
        if not isinstance(self.sender, ReferenceSender) or self._under_way():
            return  # Nobody can look honestly while something is still under way.
        ref = _mail(step.number).ref
        operator = self.world.process("operator")
        engine = operator.run(self.sender._engine)
        moved = operator.run(self._requeue, Store(engine), ref)
        operator.run(engine.dispose)
        if moved:
            self._by_hand.add(ref)

    def _requeue(self, store: Store, ref: str) -> bool:
        now = self.world.clock.now()
        moved = False
        for docket in store.find(key=ref, states=[State.FAILED, State.DEAD, State.UNKNOWN]):
            taken = [a for a in self.history().copies_for(docket.recipient) if a.obligation == ref]
            if taken and docket.state is State.UNKNOWN:
                decision = Decision(state=State.ACCEPTED, reason="found out by hand", provider_id=taken[0].id)
            elif not taken:
                decision = Decision(
                    state=State.PENDING, reason="requeued by hand", next_attempt_at=now, doubt=Doubt.CLEAR
                )
            else:
                continue
            moved = store.requeue(docket, decision, now=now) or moved
        return moved

    def _under_way(self) -> bool:
        account = self._account()
        return (
            any(process.frozen for process in self.workers)
            or self.world.network.weather.partitioned
            or any(each.state is not AttemptState.CLOSED for each in account.attempts.values())
            or any(each.state is Reported.SENDING for each in self.sender.said())
        )

    # --- the steps: time and workers ----------------------------------------------------------------

    def wait(self, step: Step) -> None:
        """Let `seconds` pass."""
        self._pass(step.seconds)

    def start_worker(self, step: Step) -> None:
        """Start a worker; its clock is ahead by `seconds` (or behind, below 0)."""
        if len(self._living()) < WORKERS:
            process = self.world.process(f"worker {len(self.workers) + 1}", skew_s=step.seconds)
            process.spawn(self.sender.work, self.world)
            self.workers.append(process)

    def kill(self, step: Step) -> None:
        """Kill worker `number` of the living, now."""
        if (process := self._worker(step)) is not None:
            process.kill()

    def doom(self, step: Step) -> None:
        """Let worker `number` die when it comes by the point `name` (`kind name`) for the `count`-th time from now."""
        if (process := self._worker(step)) is not None:
            kind, _, name = step.name.partition(" ")
            if kind == "acceptance":
                self._doomed, self._bookings = process, max(1, step.count)
            else:
                process.doom(CrashPoint(kind, name, max(1, step.count)))

    def _booked(self) -> None:
        self._bookings -= 1
        if self._bookings == 0 and self._doomed is not None:
            self._doomed.kill("kill -9 between acceptance and answer")

    def freeze(self, step: Step) -> None:
        """Stop worker `number` for `seconds`, `count` steps from now. Each worker is stopped once in its life."""
        process = self._worker(step)
        if process is not None and process not in self._frozen:
            self._frozen.add(process)
            process.freeze(step.count, min(step.seconds, FREEZE_S))

    def thaw(self, step: Step) -> None:
        """Let all stopped workers go on."""
        for process in self._living():
            process.thaw()

    # --- the steps: provider and network ------------------------------------------------------------

    def plan(self, step: Step) -> None:
        """From now on the provider does `name`, `count` times (0: until healed), on the terms that go with it.

        What strikes a look-up says itself how often: for ever, and nobody would come to know anything.
        """
        behaviour = BY_WIRE[self.profile.wire][step.name]
        rule = behaviour.as_rule(self.profile.wire)
        if step.count and not (behaviour.refuses or behaviour.is_asked):
            rule["times"] = step.count
        self._has_terms = bool(behaviour.terms)
        self.world.run(lambda: start_hooks(self.world, [behaviour]))
        self._set_up([rule] if behaviour.rule else [], behaviour)

    def _document(self, rules: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the plan of the provider with these rules (its JSON form)."""
        return {"seed": 1, "rule": rules, **self.profile.provider}

    def _set_up(self, rules: list[dict[str, Any]], *terms: Behaviour) -> None:
        assert self.world.service is not None
        document = read_plan(on_terms(self._document(rules), terms), "the step")
        self.world.service.provider.set_up(DEFAULT_ACCOUNT, document, self.world.clock.now())

    def heal(self, step: Step) -> None:
        """The provider is healthy again."""
        assert self.world.service is not None
        provider, now = self.world.service.provider, self.world.clock.now()
        if self._has_terms:
            # Back to the profile's own.
            provider.set_up(DEFAULT_ACCOUNT, self.world.setup, now)
            self._has_terms = False
        else:
            provider.heal(DEFAULT_ACCOUNT, now)

    def kill_provider(self, step: Step) -> None:
        """Kill the provider; its ledger stays."""
        self._provider.kill()

    def restart_provider(self, step: Step) -> None:
        """Start the provider again, if it is dead."""
        if self._provider.dead:
            self.world.run(self.world.start_provider)
            self._provider = self.world.processes[-1]

    def partition(self, step: Step) -> None:
        """Nothing arrives anywhere for `seconds`."""
        if not self.world.network.weather.partitioned:
            begin, length = self.world.loop.time(), min(step.seconds, PARTITION_S)
            self._partitions.append((begin, begin + length))
            self.world.network.weather.partitioned = True
            self.world.loop.call_at(begin + length, self.world.network.heal)

    # --- the end ------------------------------------------------------------------------------------

    def end(self) -> list[Finding]:
        """Let calm return and time pass until nothing moves; return what is broken then."""
        self.recorder.note("harness", "— calm begins")
        self._bookings = 0
        for process in self._living():
            process.reprieve()
            process.thaw()
        self.restart_provider(Step(do="restart_provider"))
        self.heal(Step(do="heal"))
        if self.world.network.weather.partitioned:
            self.world.network.heal()
        if not self._living():
            self.start_worker(Step(do="start_worker"))

        async def calm() -> bool:
            settled = await until_settled_or(self.world, self.sender, self.profile, CALM_S, lambda: False)
            begun = len(self._account().attempts)
            await self.world.until(lambda: False, within_s=STILL_S, step_s=STILL_S)
            return settled and len(self._account().attempts) == begun

        still = self.world.run(calm)
        findings = self.unsafe()
        history = self.history()
        findings += [each for each in checks.lost(history) if each not in findings]
        if not still:
            findings.append(
                Finding(
                    kind="not quiescent", recipient="", sentence="things still moved when the calm was over"
                )
            )
        if self.profile.policy is Policy.EXACTLY_ONCE:
            findings += [
                Finding(
                    kind="parked",
                    ref=each.key,
                    recipient=each.recipient,
                    sentence="still unknown although the provider can be asked",
                )
                for each in history.said
                if each.state is Reported.UNKNOWN
            ]
        return findings

    # --- what must hold after every step ------------------------------------------------------------

    def history(self) -> History:
        """What a judge may know just now."""
        said = self.sender.said()
        history = history_of(self.world, said)
        states = {(each.key, each.recipient): each.state for each in said}
        history = dataclasses.replace(
            history,
            obligations=tuple(
                Obligation(account=DEFAULT_ACCOUNT, ref=ref, recipient=to, state=states.get((ref, to)))
                for ref, to in self.owed
            ),
        )
        return dataclasses.replace(history, crashes=self._unheard(history))

    def _unheard(self, history: History) -> int:
        """How many answers may have gone unheard or unstored although the provider gave them in full."""
        deaths = sum(1 for _, name, _ in self.world.deaths if name.startswith("worker"))
        # With a provider the memory of what it said last is gone, too.
        deaths += 4 * sum(1 for _, name, _ in self.world.deaths if name == "provider")
        cut_off = 0
        for begin, end in self._partitions:
            start, stop = BEGIN + timedelta(seconds=begin), BEGIN + timedelta(seconds=end)
            cut_off += sum(
                each.opened_at <= stop and (each.closed_at is None or each.closed_at >= start)
                for each in history.attempts
            )
        return deaths + cut_off + 4 * len(self._frozen)

    def unsafe(self) -> list[Finding]:
        """Return what is broken just now, whatever may still happen."""
        history = self.history()
        findings = [
            *checks.duplicated(history, self.profile.policy),
            *checks.unlike_copies(history, self.profile.policy),
            *checks.phantom(history),
            *checks.misdirected(history),
            *checks.misreported(history),
            *self._rows_gone(history),
            *self._moves(),
        ]
        if not any(name == "provider" for _, name, _ in self.world.deaths):
            findings += checks.failed_without_refusal(history)
        findings += checks.again_after_acceptance(history)
        findings += promised.judged([*self._mails.values()], history, self._by_hand, self._blur())
        for ref, recipient in self.owed:
            findings += checks.changed_identity(history, recipient)
            findings += checks.changed_bytes(history, recipient)
            if ref not in self._by_hand:
                findings += checks.again_after_refusal(history, [recipient])
        return findings + [
            Finding(kind="uncaught", recipient="", sentence=each) for each in self.world.complaints
        ]

    def _blur(self) -> Blur:
        """What was done to this world that a judge of moments must allow for."""
        held_up_s = (FREEZE_S if self._frozen else 0.0) + (PARTITION_S if self._partitions else 0.0)
        return Blur(
            now=self.world.clock.now(),
            skew_s=SKEW_S,
            held_up_s=held_up_s,
            is_calm=not (self._frozen or self._partitions or self.world.deaths),
            is_heard=self.profile.hears,
        )

    def _rows_gone(self, history: History) -> Iterator[Finding]:
        """A committed promise is in the outbox."""
        said = {(each.key, each.recipient) for each in history.said}
        for ref, recipient in self.owed:
            if (ref, recipient) not in said:
                sentence = "promised by a committed transaction, and not in the outbox"
                yield Finding(kind="lost", ref=ref, recipient=recipient, sentence=sentence)

    def _moves(self) -> Iterator[Finding]:
        """States change along the sender's own table only; of a sender without one, what has ended stays so."""
        changes = self.recorder.changes[self._checked :]
        self._checked = len(self.recorder.changes)
        for change in changes:
            if not _may(change.who, change.before, change.after, isinstance(self.sender, ReferenceSender)):
                yield Finding(
                    kind="illegal move",
                    ref=change.key,
                    recipient=change.recipient,
                    sentence=f"{change.who} moved it from {change.before} to {change.after}",
                )

    # --- small things -------------------------------------------------------------------------------

    def _pass(self, seconds: float) -> None:
        self.world.run(lambda: self.world.until(lambda: False, within_s=seconds, step_s=max(seconds, 0.001)))

    def _living(self) -> list[Process]:
        return [process for process in self.workers if not process.dead]

    def _worker(self, step: Step) -> Process | None:
        living = self._living()
        return living[(step.number - 1) % len(living)] if living else None

    def _account(self) -> Any:
        assert self.world.service is not None
        return self.world.service.provider.account(DEFAULT_ACCOUNT, self.world.clock.now())


def _mail(number: int) -> Owed:
    names = ("ada", "bob") if number == 2 else (f"user{number}",)
    return Owed(ref=f"order-{number}", recipients=tuple(f"{name}.{number}@example.com" for name in names))


def _may(who: str, before: str | None, after: str | None, has_table: bool) -> bool:
    if before is None:
        return after == Reported.PENDING.value
    if after is None:
        return False
    if not has_table:
        return before not in (Reported.ACCEPTED.value, Reported.EXPIRED.value, Reported.SUPPRESSED.value)
    actors = life.MOVES.get((State(before), State(after)), {})
    if before == after:
        return True
    return bool(actors) if who == "operator" else bool(set(actors) - {life.Actor.PERSON})


def perform(
    schedule: Schedule, sender: WorldSender, disk: Disk, kind: type[Run] = Run
) -> tuple[list[Finding], Run]:
    """Play a schedule to its end, or to the step that breaks something. The run is over; its record remains.

    `kind`: of world that takes the steps.
    """
    run = kind(BY_ID[schedule.profile], sender, disk, seed=schedule.seed)
    with run:
        for step in schedule.steps:
            if findings := run.take(step):
                return findings, run
        return run.end(), run


def schedule_from(facts: Mapping[str, Any]) -> Schedule:
    """Read what `Schedule.as_json` wrote. Raises `ValueError` with a sentence for anything else."""
    steps = []
    if facts.get("profile") not in BY_ID:
        raise ValueError(f"profile is {facts.get('profile')!r}; right would be one of {', '.join(BY_ID)}")
    known = (*STEPS, *(INTAKE_STEPS if BY_ID[facts["profile"]].hears else ()))
    for number, each in enumerate(facts.get("steps", ()), 1):
        try:
            step = Step(**each)
        except TypeError as error:
            raise ValueError(f"step {number} is {each!r}, which is no step: {error}") from error
        if step.do not in known:
            raise ValueError(f"step {number} does {step.do!r}; right would be one of {', '.join(known)}")
        if step.do in ("enqueue", "roll_back") and step.name not in sorts.SORTS:
            right = ", ".join(filter(None, sorts.SORTS))
            raise ValueError(
                f"step {number}: no sort of mail is called {step.name!r}; right would be one of {right}, or none"
            )
        steps.append(step)
    return Schedule(profile=facts["profile"], steps=tuple(steps), seed=int(facts.get("seed", 1)))


#: Where somebody hears, these as well (`scenarios.simulation.listening`).
INTAKE_STEPS = ("storm", "start_intake", "kill_intake")
#: The steps there are; each is a method of `Run`.
STEPS = (
    "enqueue",
    "roll_back",
    "requeue",
    "wait",
    "start_worker",
    "kill",
    "doom",
    "freeze",
    "thaw",
    "plan",
    "heal",
    "kill_provider",
    "restart_provider",
    "partition",
)
