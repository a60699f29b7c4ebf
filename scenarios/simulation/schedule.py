"""A schedule: the steps that a world takes one after the other (`machine`), and everything else that decides a run.

A step that has nothing to act on does nothing, so any part of a schedule is a schedule. The assumptions of the proof
bound what a step may do: a partition and a freeze together are shorter than what the sender allows a request to be
under way, clocks are wrong by seconds, and the person who requeues has looked first. Nothing here chooses steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scenarios.simulation import sorts
from scenarios.simulation.profiles import BY_ID

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


#: Where somebody hears, these as well (`scenarios.simulation.listening`).
INTAKE_STEPS = ("storm", "start_intake", "kill_intake")
#: Elsewhere these (`scenarios.simulation.campaign_machine`), and what a person may do to a campaign.
CAMPAIGN_STEPS = ("begin_campaign", "start_expander", "kill_expander", "move_campaign")
MOVES = ("pause", "resume", "cancel")
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


def schedule_from(facts: Mapping[str, Any]) -> Schedule:
    """Read what `Schedule.as_json` wrote. Raises `ValueError` with a sentence for anything else."""
    steps = []
    if facts.get("profile") not in BY_ID:
        raise ValueError(f"profile is {facts.get('profile')!r}; right would be one of {', '.join(BY_ID)}")
    known = (*STEPS, *(INTAKE_STEPS if BY_ID[facts["profile"]].hears else CAMPAIGN_STEPS))
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
        if step.do == "move_campaign" and step.name not in MOVES:
            raise ValueError(
                f"step {number}: nobody does {step.name!r} to a campaign; right would be one of {', '.join(MOVES)}"
            )
        steps.append(step)
    return Schedule(profile=facts["profile"], steps=tuple(steps), seed=int(facts.get("seed", 1)))
