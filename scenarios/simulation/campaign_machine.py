"""The state machine of a sender with a campaign: the steps of `machine`, and besides them what people do to the campaign.

The same world with one process more, which puts the mails in. What is demanded of a campaign (`scenarios.simulation.members`) is
asked after every step, whatever happened to workers, to the provider and to the expander meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import ClassVar, Self

from hypothesis import strategies as st
from hypothesis.stateful import rule

from reference_sender.outbox.store import Store
from scenarios.checks import Finding
from scenarios.history import History
from scenarios.simulation import members
from scenarios.simulation.campaigning import (
    IN_HAND,
    OVER,
    expand,
    expander_of,
    move,
    spring,
)
from scenarios.simulation.cell import CALM_S
from scenarios.simulation.machine import Run
from scenarios.simulation.members import Course, Rest
from scenarios.simulation.processes import CrashPoint, Process
from scenarios.simulation.safety import Safety
from scenarios.simulation.schedule import SKEW_S, Step
from scenarios.simulation.senders import ReferenceSender, promise
from scenarios.simulation.shapes import CAMPAIGNS, GAP_S
from scenarios.simulation.stateful import Machine
from simulator.provider.obligations import Obligation
from simulator.provider.provider import DEFAULT_ACCOUNT

#: Whom the campaign of a machine goes to.
MEMBERS = next(iter(CAMPAIGNS.values())).owed
#: Nothing that is said of the end of a pause is later than this.
_FOR_NOW = timedelta(days=1)


class CampaignSafety(Safety):
    """Looks at the campaign as well, once there is one."""

    course: Course | None = None

    def history(self) -> History:
        history = super().history()
        if self.course is None:
            return history
        # By whom they are for: a sender may call them as it likes.
        states = {each.recipient: each.state for each in history.said}
        owed = tuple(
            Obligation(account=DEFAULT_ACCOUNT, ref=ref, recipient=who, state=states.get(who))
            for ref, who in members.promised(MEMBERS, history, self.course)
        )
        return replace(history, obligations=(*history.obligations, *owed))

    def unsafe(self) -> list[Finding]:
        findings = super().unsafe()
        if self.course is not None:
            # A worker whose clock is ahead finds a mail due before its time.
            began_at = self.course.began_at - timedelta(seconds=SKEW_S)
            findings += members.judged(MEMBERS, self.history(), replace(self.course, began_at=began_at))
        return findings


class CampaignRun(Run):
    """A world that takes steps, with a campaign in it from a step on."""

    sender: ReferenceSender
    safety: CampaignSafety
    _expander: Process | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        self.safety = CampaignSafety(self.world, self.sender, self.profile, self.done, self.recorder)
        return self

    # --- the steps ----------------------------------------------------------------------------------

    def begin_campaign(self, step: Step) -> None:
        """The campaign is written down, with whom it is for, and somebody puts its mails in. It begins once."""
        if self.safety.course is None:
            self.world.process("application").run(self._announce)
            self.safety.course = Course(began_at=self.world.clock.now(), gap_s=GAP_S)
            self.start_expander(step)

    def _announce(self) -> None:
        now = self.world.clock.now()
        store = Store(self.sender._engine())
        with store.engine.begin() as connection:
            for owed in MEMBERS:
                promise(connection, owed)
        for owed in (each for each in MEMBERS if each.suppressed):
            store.suppress(owed.recipients[0], reason="hard_bounce", source="world", now=now)
        store.create_campaign(spring(now))
        store.engine.dispose()

    def start_expander(self, step: Step) -> None:
        """Start whoever puts the mails in, if nobody does and there is a campaign."""
        if self.safety.course is not None and (self._expander is None or self._expander.dead):
            self._expander = self.world.process("expander")
            runner = self._expander.run(expander_of, self.sender, self.world, lambda: None)
            self._expander.spawn(expand, runner)

    def kill_expander(self, step: Step) -> None:
        """Kill whoever puts the mails in: now, or (`count`) when he comes by his `count`-th commit from now."""
        if self._expander is None or self._expander.dead:
            return
        if step.count:
            self._expander.doom(CrashPoint("commit", step.name or "lost", step.count))
        else:
            self._expander.kill()

    def move_campaign(self, step: Step) -> None:
        """A person does `name` to the campaign: `pause`, `resume` or `cancel`."""
        if self.safety.course is None:
            return
        before = self._state()
        self.world.process("operator").run(move, self.sender, self.world, step.name)
        if self._state() != before:
            self.safety.course = self._moved(self.safety.course, step.name)

    def _moved(self, course: Course, what: str) -> Course:
        now = self.world.clock.now()
        rests = [
            replace(each, until=now) if each.until is not None and each.until > now else each
            for each in course.rests
        ]
        if what != "resume":
            in_hand = frozenset(each.recipient for each in self.sender.said() if each.state in IN_HAND)
            until = None if what == "cancel" else now + _FOR_NOW
            rests.append(Rest(since=now, until=until, in_hand=in_hand))
        elif self._expander is not None:
            # Whoever put the mails in has gone home in a pause.
            self._expander.kill("the campaign is resumed")
            self.start_expander(Step(do="start_expander"))
        return replace(course, rests=tuple(rests))

    def _state(self) -> str:
        rows = self._disk.rows("SELECT state FROM campaign")
        return str(rows[0][0]) if rows else ""

    # --- the end ------------------------------------------------------------------------------------

    def end(self) -> list[Finding]:
        if self.safety.course is None:
            return super().end()
        self.recorder.note("harness", "— somebody sees to the campaign")
        self.quiet()
        if self._expander is not None:
            self._expander.reprieve()
        self.move_campaign(Step(do="move_campaign", name="resume"))
        self.start_expander(Step(do="start_expander"))
        over = self.world.run(
            lambda: self.world.until(lambda: self._state() in OVER, within_s=CALM_S, step_s=5.0)
        )
        findings = super().end()
        if not over:
            sentence = "the campaign had not come to its end when the calm was over"
            findings.append(Finding(kind="not quiescent", recipient="", sentence=sentence))
        return findings


class CampaignMachine(Machine):
    """Chooses the next step, and what is done to a campaign."""

    run: ClassVar[type[Run]] = CampaignRun

    @rule(seconds=st.sampled_from((1.0, 22.0, 45.0)))
    def begins_campaign(self, seconds: float) -> None:
        """Once in a world."""
        self._do("begin_campaign")
        self._do("wait", seconds=seconds)

    @rule(
        name=st.sampled_from(("pause", "resume", "pause", "resume", "cancel")),
        seconds=st.sampled_from((1.0, 45.0, 90.0)),
    )
    def moves_campaign(self, name: str, seconds: float) -> None:
        """A person; nothing comes of it where it cannot be."""
        self._do("begin_campaign")
        self._do("move_campaign", name=name)
        self._do("wait", seconds=seconds)

    @rule(
        count=st.integers(0, 4),
        name=st.sampled_from(("lost", "unreported")),
        seconds=st.sampled_from((1.0, 45.0, 90.0)),
    )
    def kills_expander(self, count: int, name: str, seconds: float) -> None:
        """Now or at a commit to come; and sooner or later he is there again."""
        self._do("begin_campaign")
        self._do("kill_expander", count=count, name=name)
        self._do("wait", seconds=seconds)
        self._do("start_expander")
