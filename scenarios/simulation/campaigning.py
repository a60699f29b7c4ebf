"""A campaign in a world: cells whose victim may be who writes its rows, who sends them, or who pauses and cancels it.

The real `Runner` reads the audience page by page from the business's own table, and the real worker sends what is due.
In the end the judge (`scenarios.simulation.members`) asks whether each member had his mail once, and nobody while the
campaign rested or when it was over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reference_sender.audience import Query
from reference_sender.campaigns import Runner
from reference_sender.message import Mail
from reference_sender.outbox.campaigns import Campaign, CampaignState, planned
from reference_sender.outbox.engine import open_engine
from reference_sender.outbox.store import Store
from reference_sender.policy.classes import MailClass
from reference_sender.templates import Templates
from scenarios import checks
from scenarios.checks import Finding
from scenarios.simulation import guards, members
from scenarios.simulation.cell import CALM_S, LOOK_S, STILL_S, STORM_S, UNSETTLED, Cell, Outcome, setup_of
from scenarios.simulation.evidence import fired_in, future_of, history_of, trace_of
from scenarios.simulation.members import Course, Rest
from scenarios.simulation.processes import CrashPoint, Killed, Process
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.senders import Disk, ReferenceSender, pointed, promise
from scenarios.simulation.shapes import CAMPAIGN, EVERY_SHAPE, GAP_S, PAGE_ROWS, Shape
from scenarios.simulation.world import BEGIN, World, WorldClock
from simulator.provider.ledger import AttemptState
from simulator.provider.obligations import Reported
from simulator.provider.provider import DEFAULT_ACCOUNT

#: The audience: the business's own table, in which other mails are promised, too.
AUDIENCE = Query(
    query="SELECT * FROM (SELECT CAST(replace(ref, 'campaign-spring-user-', '') AS INTEGER) AS id, recipient AS address, ref"
    " FROM business WHERE ref LIKE 'campaign-%') WHERE id > :after ORDER BY id LIMIT :limit"
)
#: Where a campaign stands when nothing more is put in.
OVER = frozenset({CampaignState.DONE.value, CampaignState.CANCELLED.value})
#: What no pause and no cancel reaches.
IN_HAND = frozenset({Reported.SENDING, Reported.UNKNOWN})


def lay_out(shape: Shape, sender: ReferenceSender, disk: Disk) -> None:
    """Put the disk into the state before the storm: the audience is there, and the campaign is written down."""
    if not disk.has("empty"):
        disk.wipe()
        sender.prepare()
        disk.keep("empty")
    if not disk.has(shape.name):
        disk.put_back("empty")
        engine = open_engine(disk.url)
        store = Store(engine)
        with engine.begin() as connection:
            for owed in shape.owed:
                promise(connection, owed)
        for owed in (each for each in shape.owed if each.suppressed):
            store.suppress(owed.recipients[0], reason="hard_bounce", source="world", now=BEGIN)
        store.create_campaign(spring(BEGIN))
        engine.dispose()
        disk.keep(shape.name)
    disk.put_back(shape.name)


def spring(now: datetime) -> Campaign:
    """The campaign as it is written down, to begin now."""
    return planned(
        CAMPAIGN,
        sender="Shop <shop@example.org>",
        mail_class=MailClass.NEWSLETTER,
        template="spring",
        parameters={},
        audience=AUDIENCE.told(),
        page_rows=PAGE_ROWS,
        gap_s=GAP_S,
        now=now,
    )


def play(
    cell: Cell,
    sender: ReferenceSender,
    disk: Disk,
    watch: Callable[[World], None] = lambda world: None,
    *,
    moments: bool = False,
) -> Outcome:
    """Play a cell to its end. `watch` and `moments` as in `cell.play`."""
    shape = EVERY_SHAPE[cell.shape]
    lay_out(shape, sender, disk)
    with World(seed=cell.seed, setup=setup_of(cell.profile, cell.script)) as world:
        watch(world)
        try:
            outcome: Outcome = world.run(lambda: _Story(world, cell, shape, sender, disk, moments).told())
        finally:
            disk.look_away()
        return outcome


@dataclass(slots=True)
class _Expander:
    process: Process
    runner: Runner


@dataclass(slots=True)
class _Story:
    """Storm, recovery, calm, verdict."""

    world: World
    cell: Cell
    shape: Shape
    sender: ReferenceSender
    disk: Disk
    moments: bool
    victims: list[Process] = field(default_factory=list)
    """Who dies, and who comes after him."""
    expanders: dict[int, _Expander] = field(default_factory=dict)
    rests: list[Rest] = field(default_factory=list)
    _person: Process | None = None
    _moves: list[tuple[float, str]] = field(default_factory=list)

    async def told(self) -> Outcome:
        """Tell it."""
        assert self.shape.moves is not None
        self._moves = [*self.shape.moves]
        await self.world.start_provider()
        worker = self._start("worker", lambda process: process.spawn(self.sender.work, self.world))
        for number in range(self.shape.expanders, 0, -1):
            self._start_expander(number)
        settled = await self._until(STORM_S, lambda: not self._moves and self._is_over(), worker)
        outcome = self._outcome()
        account = self._account()
        assert self.world.service is not None
        self.world.service.provider.heal(DEFAULT_ACCOUNT, self.world.clock.now())
        settled = settled or await self._until(CALM_S, self._is_over, worker)
        begun = len(account.attempts)
        await asyncio.sleep(STILL_S)
        return self._judged(outcome, moving=not settled or len(account.attempts) != begun)

    # --- who lives ----------------------------------------------------------------------------------

    def _start(self, role: str, live: Callable[[Process], Any], number: int = 1) -> list[Process]:
        """Start somebody; a victim dies as the cell says, and its successor may once more. Return where the living one stands."""
        place: list[Process] = []
        place.append(self._process(role, number))
        live(place[0])
        return place

    def _process(self, role: str, number: int = 1) -> Process:
        is_victim = role == self.cell.victim and number == 1
        crash: CrashPoint | None = None
        if is_victim and len(self.victims) < 2:
            crash = (self.cell.crash, self.cell.again)[len(self.victims)]
        process = self.world.process(f"{role} {number}", crash=crash)
        if is_victim:
            if self.moments and len(self.victims) == (self.cell.crash is not None):
                process.tell_moments(guards.dice)
            self.victims.append(process)
        return process

    def _start_expander(self, number: int) -> None:
        process = self._process("expander", number)

        def between() -> None:
            """The other one takes a whole step, here and nowhere else: this one has read and not yet written."""
            other = self.expanders.get(2)
            if number == 1 and other is not None and not other.process.dead:
                other.process.run(other.runner.step)

        runner = process.run(expander_of, self.sender, self.world, between)
        self.expanders[number] = _Expander(process, runner)
        if number == 1:
            process.spawn(expand, runner)

    def _look_after(self, worker: list[Process]) -> None:
        """Whoever is dead is started again."""
        if worker[0].dead:
            worker[:] = self._start("worker", lambda process: process.spawn(self.sender.work, self.world))
        for number, each in [*self.expanders.items()]:
            if each.process.dead:
                self._start_expander(number)

    # --- what a person does ---------------------------------------------------------------------------

    def _interfere(self) -> None:
        while self._moves and self.world.loop.time() >= self._moves[0][0]:
            if self._person is None or self._person.dead:
                self._person = self._process("person")
            what = self._moves[0][1]
            try:
                self._person.run(move, self.sender, self.world, what)
            except Killed:
                return
            self._moves.pop(0)
            self._note(what)

    def _note(self, what: str) -> None:
        now = self.world.clock.now()
        if what == "resume":
            self.rests[-1] = replace(self.rests[-1], until=now)
            for number in self.expanders:
                self._start_expander(number)
            return
        in_hand = frozenset(each.recipient for each in self.sender.said() if each.state in IN_HAND)
        until = None if what == "cancel" else now + timedelta(days=1)
        self.rests.append(Rest(since=now, until=until, in_hand=in_hand))

    # --- time ---------------------------------------------------------------------------------------

    async def _until(self, within_s: float, true: Callable[[], bool], worker: list[Process]) -> bool:
        deadline = self.world.loop.time() + within_s
        while not true():
            if self.world.loop.time() >= deadline:
                return False
            await asyncio.sleep(LOOK_S / 5)
            self._interfere()
            self._look_after(worker)
        return True

    def _is_over(self) -> bool:
        ((state,),) = self.disk.rows("SELECT state FROM campaign")
        unsettled = UNSETTLED[self._profile.policy]
        return (
            state in OVER
            and all(each.state is AttemptState.CLOSED for each in self._account().attempts.values())
            and all(each.state not in unsettled for each in self.sender.said())
        )

    @property
    def _profile(self) -> Profile:
        return BY_ID[self.cell.profile]

    def _account(self) -> Any:
        assert self.world.service is not None
        return self.world.service.provider.account(DEFAULT_ACCOUNT, self.world.clock.now())

    # --- what is made of it -------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        """What the victim came by so far: in the calm nobody dies."""
        first = self.victims[0] if self.victims else None
        second = self.victims[1] if len(self.victims) > 1 else None
        outcome = Outcome(cell=self.cell)
        if first is not None:
            outcome.steps, outcome.passed = first.steps, dict(first.passed)
            outcome.moments, first.moments = first.moments or {}, None
        if second is not None:
            outcome.again_steps, outcome.again_passed = second.steps, dict(second.passed)
            outcome.again_moments, second.moments = second.moments or {}, None
        if self.cell.crash is not None:
            outcome.reached = first is not None and first.dead
        if self.cell.again is not None:
            outcome.reached = second is not None and second.dead
        return outcome

    def _judged(self, outcome: Outcome, *, moving: bool) -> Outcome:
        world, owed = self.world, self.shape.owed
        course = Course(began_at=BEGIN, gap_s=GAP_S, rests=tuple(self.rests))
        said = self.sender.said()
        seen = history_of(world, said, promised=())
        history = history_of(world, said, promised=members.promised(owed, seen, course), moving=moving)
        findings = checks.thoroughly(history, self._profile.policy) + members.judged(owed, history, course)
        findings += checks.given_up(history, checks.never_in_doubt(history))
        findings += [Finding(kind="uncaught", recipient="", sentence=each) for each in world.complaints]
        outcome.findings, outcome.history = findings, history
        outcome.fired = fired_in(world)
        outcome.virtual_s = world.loop.time()
        outcome.trace, outcome.future = trace_of(world), future_of(world, history)
        return outcome


# --- what the processes do ------------------------------------------------------------------------------


def expander_of(sender: ReferenceSender, world: World, between: Callable[[], None]) -> Runner:
    """Make who writes the rows, in the process that calls. `between` is called when a page was read and is not written yet."""
    now = WorldClock(world.loop)
    store = sender.open_store()
    for name in ("waiting_of_campaign", "move_campaign", "write_page"):
        setattr(store, name, pointed(name, getattr(store, name)))
    write_page = store.write_page

    def overtaken(*arguments: Any, **more: Any) -> bool:
        between()
        return write_page(*arguments, **more)

    setattr(store, "write_page", overtaken)  # noqa: B010 - it is a method
    return sender.runner(store=store, name=CAMPAIGN, templates=_Plain(Path()), clock=now)


async def expand(runner: Runner) -> None:
    """The life of an expander, as `campaign run` has it: it ends when the campaign is over, or rests."""
    store = runner._store
    if store.campaign(CAMPAIGN).state is CampaignState.READY:
        store.move_campaign(CAMPAIGN, CampaignState.RUNNING, now=runner._now())
    await runner.run()


def move(sender: ReferenceSender, world: World, what: str) -> None:
    """A person pauses, resumes or cancels the campaign."""
    store = sender.open_store()
    if what == "resume":
        state = CampaignState.DONE if store.campaign(CAMPAIGN).whole else CampaignState.RUNNING
    else:
        state = {"pause": CampaignState.PAUSED, "cancel": CampaignState.CANCELLED}[what]
    store.move_campaign(CAMPAIGN, state, now=world.clock.now())
    store.engine.dispose()


class _Plain(Templates):
    """The same words for everybody. No file is read for it, and nothing is compiled."""

    def mail(
        self, name: str, parameters: Mapping[str, Any], *, sender: str, recipients: Sequence[str], **_: Any
    ) -> Mail:
        return Mail(
            sender=sender,
            recipients=tuple(recipients),
            subject="Spring is here",
            text="Come and see!\n",
            headers={"X-Obligation": str(parameters["ref"])},
        )
