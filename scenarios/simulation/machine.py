"""One world driven step by step: what the state machines play, and what a replay file of theirs plays again.

A `Schedule` decides everything; a `Run` takes its steps one after the other, looks for broken safety after each
(`safety`), and in the end lets calm return and looks for broken liveness. Nothing here chooses steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from reference_sender.life import State
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Decision, Doubt
from scenarios import checks
from scenarios.checks import Finding, Policy
from scenarios.history import History
from scenarios.simulation import sorts
from scenarios.simulation.behaviours import BY_WIRE, Behaviour
from scenarios.simulation.cell import CALM_S, STILL_S, on_terms, until_settled_or
from scenarios.simulation.evidence import trace_of
from scenarios.simulation.hooks import start_hooks
from scenarios.simulation.processes import CrashPoint, Killed, Process
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.promised import Promised
from scenarios.simulation.safety import Done, Safety
from scenarios.simulation.schedule import FREEZE_S, PARTITION_S, WORKERS, Schedule, Step
from scenarios.simulation.senders import Disk, Owed, ReferenceSender, WorldSender
from scenarios.simulation.timeline import Recorder
from scenarios.simulation.world import World
from simulator.config import read_plan
from simulator.provider.ledger import AttemptState
from simulator.provider.obligations import Reported
from simulator.provider.provider import DEFAULT_ACCOUNT


class Run:
    """A world that takes steps. Use it as a context manager: leaving it disposes of the world."""

    def __init__(self, profile: Profile, sender: WorldSender, disk: Disk, *, seed: int = 1) -> None:
        self.profile = profile
        self.sender = sender
        self.steps: list[Step] = []
        self.done = Done()
        self.workers: list[Process] = []
        self._seed = seed
        self._disk = disk
        self._has_terms = False
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
        self.safety = Safety(self.world, self.sender, self.profile, self.done, self.recorder)
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
        known = self.done.mails.get(step.number)
        owed = self._owed(step) if known is None else known.owed
        self.world.process("application").run(self.sender.enqueue, self.world, owed)
        if known is None:
            self.done.mails[step.number] = Promised(owed=owed, at=self.world.clock.now())
        self.done.owed |= {(owed.ref, recipient): owed for recipient in owed.recipients}

    def _owed(self, step: Step) -> Owed:
        name = step.name if sorts.fits(step.name, self.profile) else sorts.PLAIN
        before = [each.owed for each in self.done.mails.values()]
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
            self.done.by_hand.add(ref)

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
        if process is not None and process not in self.done.frozen:
            self.done.frozen.add(process)
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
            self.done.partitions.append((begin, begin + length))
            self.world.network.weather.partitioned = True
            self.world.loop.call_at(begin + length, self.world.network.heal)

    # --- the end ------------------------------------------------------------------------------------

    def quiet(self) -> None:
        """From now on nothing goes wrong, and somebody works."""
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

    def end(self) -> list[Finding]:
        """Let calm return and time pass until nothing moves; return what is broken then."""
        self.recorder.note("harness", "— calm begins")
        self.quiet()

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

    def history(self) -> History:
        """What a judge may know just now."""
        return self.safety.history()

    def unsafe(self) -> list[Finding]:
        """Return what is broken just now, whatever may still happen."""
        return self.safety.unsafe()

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
