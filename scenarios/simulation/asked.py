"""What of a script was met: in which attempt, at which stage the provider asked its plan at all.

A behaviour whose stage its attempt never came to has decided nothing: every other one of the same stage in its place,
or none, makes the very same world. So a world that was played stands for all of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import simulator.provider.replay as setting_up
from scenarios.simulation.behaviours import BY_WIRE, HEALTHY
from simulator.provider.message import Moment
from simulator.provider.plan_state import PlanState
from simulator.provider.strike import Strike

#: Stands for the number of an attempt where the plan was asked whether it has any rule for a stage.
EACH = 0


class Notes:
    """What plans are asked, as long as rules stand: pairs of attempt (from 1; `EACH`: any) and stage."""

    def __init__(self) -> None:
        self.asked: set[tuple[int, str]] = set()
        self.numbers: dict[str, int] = {}
        """Attempt, by its id → its number in the plan that stands now."""
        self._are_over = False

    def add(self, attempt: int, stage: str) -> None:
        """Note a question."""
        if not self._are_over:
            self.asked.add((attempt, stage))

    def end(self) -> None:
        """From now on the provider is healthy, whatever stood in the script."""
        self._are_over = True


@contextmanager
def noted(notes: Notes) -> Iterator[None]:
    """While this lasts, every plan that is set up notes what it is asked."""

    class Noted(PlanState):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            notes.numbers = {}

        # A plan that has nothing to say is not asked; here it is asked as one with rules is, at every stage.

        def is_blind(self, wire: str, stage: str) -> bool:
            return False

        def misses(self, wire: str, **mail: Any) -> bool:
            return False

        def _index(self, start: int, now: datetime) -> None:
            super()._index(start, now)
            self.blind_to = frozenset()

        def stands_at(self, wire: str, stage: str) -> bool:
            notes.add(EACH, stage)
            return super().stands_at(wire, stage)

        def strike(self, moment: Moment, now: datetime) -> Strike | None:
            notes.add(notes.numbers.setdefault(moment.attempt, len(notes.numbers) + 1), moment.stage)
            return super().strike(moment, now)

    before = vars(setting_up)["PlanState"]
    vars(setting_up)["PlanState"] = Noted
    try:
        yield
    finally:
        vars(setting_up)["PlanState"] = before


def met(wire: str, script: Sequence[str], asked: frozenset[tuple[int, str]]) -> tuple[str, ...]:
    """Return a script with those of its behaviours that were met, others left out: what decides the run.

    Two scripts of which this is the same, by the questions of a run of one of them, make the same run, if in both or in
    neither of them workers are asked to stop.
    """
    behaviours = BY_WIRE[wire]

    def is_met(number: int, name: str) -> bool:
        if name not in behaviours:
            return True  # a mark
        if behaviours[name].terms:
            return True  # They are in force whatever is asked.
        stage = behaviours[name].rule.get("stage", "")
        return (number, stage) in asked or (EACH, stage) in asked

    left = [name if is_met(number, name) else HEALTHY.name for number, name in enumerate(script, 1)]
    while left and left[-1] == HEALTHY.name:
        left.pop()
    return tuple(left)


def to_come(
    wire: str, script: Sequence[str], over: Collection[int], standing: Collection[str]
) -> tuple[str, ...]:
    """Return a script without the behaviours whose attempts are over: they will not strike any more.

    A refusal that sticks to its mail will, and terms are in force to the end. Of a rule that shows by standing there, its stage is left as a mark.
    """
    left = []
    for number, name in enumerate(script, 1):
        behaviour = BY_WIRE[wire][name]
        stage = behaviour.rule.get("stage", "")
        if number not in over or behaviour.refuses or behaviour.terms:
            left.append(name)
        else:
            left.append(f"({stage})" if stage in standing else HEALTHY.name)
    return tuple(left)


def says_goodbye(wire: str, script: Sequence[str]) -> bool:
    """Tell whether workers are asked to stop at the end of this script."""
    return any(BY_WIRE[wire][name].on_stop for name in script)
