"""State machines over the world: Hypothesis chooses the steps, `Run` takes them and looks for what is broken.

A machine remembers its steps as a schedule, which is then made small by `shrink` (Hypothesis, which knows nothing
of mails, would take minutes for it) and played again without Hypothesis. Nothing here says what is right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.cache import LRUCache
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scenarios.checks import Finding
from scenarios.simulation.behaviours import BY_WIRE, columns
from scenarios.simulation.machine import Run
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.schedule import (
    FREEZE_S,
    MAILS,
    PARTITION_S,
    POINTS,
    SKEW_S,
    WORKERS,
    Schedule,
    Step,
)
from scenarios.simulation.senders import Disk, WorldSender
from scenarios.simulation.sorts import PAIRS, PLAIN, SORTS, UNDONE, WEIGHTED, fits

#: Where Hypothesis gets the numbers of modules, and where it keeps which of them a strategy allows.
_NUMBERS: dict[str, Callable[[], Any]] = {
    "_get_local_constants": lambda: Constants,
    "CONSTANTS_CACHE": lambda: LRUCache(1024),
}

#: Steps of one schedule at most; the calm comes on top.
STEPS = 16

_mails = st.integers(1, MAILS)
#: A sort of mail, and for how many seconds it is worth sending if it is one that expires.
_sorts = st.tuples(st.sampled_from(WEIGHTED), st.sampled_from((12.0, 1.0, 45.0)))
#: Not the first mail, which is there from the beginning.
_pairs = st.sampled_from(
    [(first, second) for first in range(2, MAILS + 1) for second in range(2, MAILS + 1) if first != second]
)
_workers = st.integers(1, WORKERS)
#: Around what matters: an answer, a lease, a poll and a look-up.
_seconds = st.sampled_from((1.0, 12.0, 22.0, 31.0, 45.0, 90.0))
#: The moment that everything is about comes more often than the others.
_POINTS = (*POINTS, *POINTS[-1:] * 2)


class Broken(AssertionError):
    """A schedule that breaks a promise."""

    def __init__(self, schedule: Schedule, findings: list[Finding]) -> None:
        super().__init__(f"{schedule}: " + "; ".join(f"{each.kind}: {each.sentence}" for each in findings))
        self.schedule = schedule
        self.findings = findings


class Machine(RuleBasedStateMachine):
    """Chooses the next step. `machine_of` makes one for a profile and a sender."""

    profile: ClassVar[Profile]
    sender: ClassVar[WorldSender]
    disk: ClassVar[Disk]
    tried: ClassVar[int] = 0
    run: ClassVar[type[Run]] = Run
    """The kind of world that takes the steps."""

    def __init__(self) -> None:
        super().__init__()
        type(self).tried += 1
        self.is_broken = False
        self.world = self.run(self.profile, self.sender, self.disk).__enter__()

    def teardown(self) -> None:
        """Calm, and a look at what must have come of everything. Then the world is over."""
        try:
            if not self.is_broken and (findings := self.world.end()):
                raise Broken(self.world.schedule, findings)
        finally:
            self.world.__exit__(None, None, None)

    def _do(self, do: str, **details: Any) -> None:
        try:
            findings = self.world.take(Step(do=do, **details))
        except BaseException:
            self.is_broken = True
            raise
        if findings:
            self.is_broken = True
            raise Broken(self.world.schedule, findings)

    # --- the application and people -----------------------------------------------------------------

    @initialize(data=st.data())
    def begins(self, data: st.DataObject) -> None:
        """Without trouble at the provider and a mail, there is nothing to see."""
        self._plan(data)
        self._enqueue(1, data.draw(_sorts))

    @rule(number=_mails, sort=_sorts, seconds=_seconds)
    def enqueues(self, number: int, sort: tuple[str, float], seconds: float) -> None:
        """A new mail, or one that is promised already."""
        self._enqueue(number, sort)
        self._do("wait", seconds=seconds)

    @rule(data=st.data(), mails=_pairs, pair=st.sampled_from(PAIRS), seconds=_seconds)
    def enqueues_two(
        self, data: st.DataObject, mails: tuple[int, int], pair: tuple[str, str], seconds: float
    ) -> None:
        """At once, so that they know of each other while neither has gone, and trouble for the first that goes."""
        self._plan(data)
        for number, sort in zip(mails, pair, strict=True):
            self._enqueue(number, (sort, 0.0))
        self._do("wait", seconds=seconds)

    def _enqueue(self, number: int, sort: tuple[str, float]) -> None:
        name, seconds = sort if fits(sort[0], self.profile) else (PLAIN, 0.0)
        self._do("enqueue", number=number, name=name, seconds=seconds if SORTS[name].expires else 0.0)

    @rule(number=_mails, sort=st.sampled_from(UNDONE))
    def rolls_back(self, number: int, sort: str) -> None:
        """A transaction that never commits, of an order that nobody else has."""
        self._do("roll_back", number=MAILS + number, name=sort)

    @rule(number=_mails)
    def requeues(self, number: int) -> None:
        """A person."""
        self._do("requeue", number=number)

    # --- time ---------------------------------------------------------------------------------------

    @rule(seconds=_seconds)
    def waits(self, seconds: float) -> None:
        """Polls, leases, backoffs and the reconciler live on it."""
        self._do("wait", seconds=seconds)

    # --- workers ------------------------------------------------------------------------------------

    @rule(skew=st.sampled_from((0.0, -SKEW_S, SKEW_S)))
    def starts_worker(self, skew: float) -> None:
        """A restart or one more."""
        self._do("start_worker", seconds=skew)

    @rule(number=_workers)
    def kills(self, number: int) -> None:
        """Now."""
        self._do("kill", number=number)

    @rule(
        number=_workers,
        point=st.sampled_from(POINTS),
        count=st.integers(1, 40),
        mail=_mails,
        sort=_sorts,
        seconds=_seconds,
    )
    def dooms(
        self,
        number: int,
        point: tuple[str, str],
        count: int,
        mail: int,
        sort: tuple[str, float],
        seconds: float,
    ) -> None:
        """At a chosen step, statement or commit to come, with a mail in hand and another worker to take over."""
        kind, name = point
        count = {"step": count, "acceptance": 1 + count % 2}.get(kind, 1 + count % 8)
        self._do("doom", number=number, name=f"{kind} {name}".strip(), count=count)
        self._enqueue(mail, sort)
        self._do("wait", seconds=seconds)
        self._do("start_worker")

    @rule(
        number=_workers,
        count=st.integers(0, 40),
        length=st.sampled_from((35.0, 10.0, FREEZE_S)),
        mail=_mails,
        sort=_sorts,
        seconds=_seconds,
    )
    def freezes(
        self, number: int, count: int, length: float, mail: int, sort: tuple[str, float], seconds: float
    ) -> None:
        """Longer than its lease, or not, with a mail in hand and another worker awake."""
        self._do("freeze", number=number, count=count, seconds=length)
        self._enqueue(mail, sort)
        self._do("wait", seconds=1.0)
        self._do("start_worker")
        self._do("wait", seconds=seconds)

    @rule()
    def thaws(self) -> None:
        """All of them."""
        self._do("thaw")

    # --- provider and network -----------------------------------------------------------------------

    @rule(data=st.data(), seconds=_seconds)
    def changes_plan(self, data: st.DataObject, seconds: float) -> None:
        """A behaviour from the tables, once, twice or until healed."""
        self._plan(data)
        self._do("wait", seconds=seconds)

    def _plan(self, data: st.DataObject) -> None:
        names = [each for each in self._columns() if not BY_WIRE[self.profile.wire][each].terms]
        self._do("plan", name=data.draw(st.sampled_from(names)), count=data.draw(st.sampled_from((1, 2, 0))))

    def _columns(self) -> tuple[str, ...]:
        every = columns(self.profile.id, self.profile.wire)
        # Here anybody may come late to ask.
        return tuple(each for each in every if not BY_WIRE[self.profile.wire][each].is_brief)

    def _terms(self) -> list[str]:
        return [each for each in self._columns() if BY_WIRE[self.profile.wire][each].terms]

    @precondition(lambda self: self._terms())
    @rule(data=st.data(), number=_mails, sort=_sorts, seconds=_seconds)
    def changes_terms(
        self, data: st.DataObject, number: int, sort: tuple[str, float], seconds: float
    ) -> None:
        """Limits, a greylist, other ways of keys, webhooks told first, trouble for whoever asks; with a mail to meet them."""
        self._do("plan", name=data.draw(st.sampled_from(self._terms())), count=1)
        self._enqueue(number, sort)
        self._do("wait", seconds=seconds)

    @rule()
    def heals(self) -> None:
        """For now."""
        self._do("heal")

    @rule(seconds=_seconds)
    def loses_provider(self, seconds: float) -> None:
        """It dies, stays away and comes back."""
        self._do("kill_provider")
        self._do("wait", seconds=seconds)
        self._do("restart_provider")

    @rule(length=st.sampled_from((3.0, 12.0, PARTITION_S)), seconds=_seconds)
    def partitions(self, length: float, seconds: float) -> None:
        """Nothing arrives for a while."""
        self._do("partition", seconds=length)
        self._do("wait", seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a search came to."""

    tried: int
    """Schedules that were played."""
    broken: Broken | None


def search(
    profile: str,
    sender: WorldSender,
    disk: Disk,
    *,
    examples: int,
    dice: int = 1,
    steps: int = STEPS,
    kind: type[Machine] = Machine,
) -> Search:
    """Play so many schedules, or up to the first that breaks something. The same dice, the same schedules."""
    machine: type[Machine] = type(
        "WorldMachine", (kind,), {"profile": BY_ID[profile], "sender": sender, "disk": disk, "tried": 0}
    )
    budget = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        # No shrinking here; no explaining of what was not shrunk.
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=tuple(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    try:
        with _nobodys_numbers():
            run_state_machine_as_test(seed(dice)(machine), settings=budget)
    except Broken as broken:
        return Search(tried=machine.tried, broken=broken)
    return Search(tried=machine.tried, broken=None)


@contextlib.contextmanager
def _nobodys_numbers() -> Iterator[None]:
    """Let Hypothesis draw from what a strategy says, and not from the numbers in the modules that happen to be imported.

    One draw in twenty would be of those, and so would be what a schedule may hold at all: after other tests in the
    process, or with one more module in the program, the same dice would choose other schedules. There is no setting
    for it (`hypothesis.internal.conjecture.providers`); versions that read no modules need none.
    """
    before = {name: getattr(providers, name) for name in _NUMBERS if hasattr(providers, name)}
    for name in before:
        setattr(providers, name, _NUMBERS[name]())
    try:
        yield
    finally:
        for name, each in before.items():
            setattr(providers, name, each)
