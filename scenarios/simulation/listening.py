"""The state machine of a sender that hears: the steps of `machine`, and besides them storms and kills of the intake.

The same world with one process more. In the end what was told and acknowledged is laid beside what the sender knows,
whatever happened to its workers, to the provider and to the intake meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

from hypothesis import strategies as st
from hypothesis.stateful import rule

from scenarios import hearing
from scenarios.checks import Finding
from scenarios.simulation.behaviours import BY_WIRE
from scenarios.simulation.intake import ListeningSender, is_told, tellings
from scenarios.simulation.machine import Run
from scenarios.simulation.processes import CrashPoint, Process
from scenarios.simulation.profiles import Profile
from scenarios.simulation.schedule import Step
from scenarios.simulation.senders import Disk, WorldSender
from scenarios.simulation.stateful import Machine
from scenarios.simulation.storms import BY_NAME, INTAKE_HOST, Storm, webhooks_of

#: Storms that a machine lets come up. Of those that need a batch from the first event on there is none.
NAMES = tuple(name for name, storm in BY_NAME.items() if not storm.webhooks)
#: What becomes of which mail: the addresses of `machine`.
_FATES = (
    ("user1.*", "clicked"),
    ("bob.*", "hard_bounce"),
    ("user3.*", "soft_bounce"),
    ("user4.*", "complaint"),
)
#: How long it may take until everything is told and dealt with, once it is calm, in virtual seconds.
TOLD_S = 900.0


class ListeningRun(Run):
    """A world that takes steps, with an intake in it."""

    sender: ListeningSender
    _storm: Storm = BY_NAME["nothing wrong"]
    _intake: Process | None = None

    def __init__(self, profile: Profile, sender: WorldSender, disk: Disk, *, seed: int = 1) -> None:
        # Whatever the profile says of others: here somebody hears, and only he puts addresses on the list.
        super().__init__(replace(profile, hears=True), sender, disk, seed=seed)

    def __enter__(self) -> Self:
        super().__enter__()
        self.world.network.names["intake"] = INTAKE_HOST
        self.start_intake(Step(do="start_intake"))
        return self

    def _document(self, rules: list[dict[str, Any]]) -> dict[str, Any]:
        fates = [
            {"name": f"{who} is {fate}", "fault": "fate", "fate": fate, "after_s": 4.0, "recipient": who}
            for who, fate in _FATES
        ]
        storm = [
            {"name": f"{number}: {self._storm.name}", **each}
            for number, each in enumerate(self._storm.rules, 1)
            # What happens to mails is up to the other steps.
            if str(each["fault"]).startswith("webhook_")
        ]
        return super()._document([*rules, *fates, *storm]) | {"webhooks": webhooks_of(self._storm)}

    # --- the steps ----------------------------------------------------------------------------------

    def storm(self, step: Step) -> None:
        """From now on events are told as in the storm `name`; mails are taken as they should."""
        self._storm = BY_NAME[step.name]
        self._set_up([])

    def start_intake(self, step: Step) -> None:
        """Start the intake, if it is dead."""
        if self._intake is None or self._intake.dead:
            self._intake = self.world.process("intake")
            self._intake.spawn(self.sender.hear, self.world)

    def kill_intake(self, step: Step) -> None:
        """Kill the intake: now, or (`count`) when it comes by its `count`-th commit from now."""
        if self._intake is None or self._intake.dead:
            return
        if step.count:
            self._intake.doom(CrashPoint("commit", step.name or "lost", step.count))
        else:
            self._intake.kill()

    # --- the end ------------------------------------------------------------------------------------

    def end(self) -> list[Finding]:
        if self._intake is not None:
            self._intake.reprieve()
        self.start_intake(Step(do="start_intake"))
        findings = super().end()
        over = self.world.run(
            lambda: self.world.until(
                lambda: is_told(self.world) and self.sender.undone() == 0, within_s=TOLD_S, step_s=5.0
            )
        )
        findings += hearing.judge(list(tellings(self.world)), self.sender.mind())
        if not over:
            sentence = "events were still told or waited when everything should have been over"
            findings.append(Finding(kind="not quiescent", recipient="", sentence=sentence))
        return findings


class ListeningMachine(Machine):
    """Chooses the next step, and the weather on the way of events."""

    run: ClassVar[type[Run]] = ListeningRun

    def _columns(self) -> tuple[str, ...]:
        """What happens to attempts; what happens to events is another step."""
        return tuple(
            name
            for name, each in BY_WIRE[self.profile.wire].items()
            if not each.is_told and (not each.profiles or self.profile.id in each.profiles)
        )

    @rule(name=st.sampled_from(NAMES), seconds=st.sampled_from((1.0, 12.0, 45.0)))
    def storms(self, name: str, seconds: float) -> None:
        """Another weather."""
        self._do("storm", name=name)
        self._do("wait", seconds=seconds)

    @rule(
        count=st.integers(0, 12),
        name=st.sampled_from(("lost", "unreported")),
        seconds=st.sampled_from((1.0, 22.0)),
    )
    def kills_intake(self, count: int, name: str, seconds: float) -> None:
        """Now or at a commit to come; and sooner or later it is there again."""
        self._do("kill_intake", count=count, name=name)
        self._do("wait", seconds=seconds)
        self._do("start_intake")
