"""A former run, struck again: the same faults at the same moments, without dice, counts or windows of time.

A moment is the same if it is at the same stage of the same attempt of the same mail (`simulator.provider.occasions`).
Rules may be added to a replay; they come after what was recorded.
"""

from __future__ import annotations

from datetime import datetime

from simulator.provider.message import Moment
from simulator.provider.plan import Plan, Recorded, wire_of
from simulator.provider.plan_state import PlanState
from simulator.provider.strike import Held, Hit, Hits, Strike

_Place = tuple[str, str, str, int]


class ReplayState(PlanState):
    """A recording at work."""

    def __init__(self, plan: Plan, *, planted_at: datetime) -> None:
        super().__init__(plan, planted_at=planted_at)
        recorded = plan.recorded or ()
        self.recorded = len(recorded)
        self.struck = 0
        """How many of what was recorded has been struck again."""
        self._strikes = {_place(each): each for each in recorded if each.held is None}
        self._held = {_place(each): each.held for each in recorded if each.held is not None}
        self._places = {(each.wire, each.stage) for each in recorded}

    @property
    def replays(self) -> bool:
        return True

    def is_blind(self, wire: str, stage: str) -> bool:
        return (wire, stage) not in self._places and super().is_blind(wire, stage)

    def stands_at(self, wire: str, stage: str) -> bool:
        return (wire, stage) in self._places or super().stands_at(wire, stage)

    def strike(self, moment: Moment, now: datetime) -> Strike | None:
        again = self._again(moment)
        if again is not None and again.is_final:
            return again
        more = super().strike(moment, now)
        return more if again is None else again if more is None else again.and_then(more)

    def _again(self, moment: Moment) -> Strike | None:
        recorded = self._strikes.get(_moment(moment))
        if recorded is None:
            return None
        self.struck += 1
        parts: list[Strike | None] = []
        hits = Hits(moment)
        for hit in recorded.hits:
            parts.append(hits.add(hit))
            if parts[-1] is not None:
                hits = Hits(moment)  # An address had its say after a rule that only delays.
        parts.append(hits.together())
        first, *others = [part for part in parts if part is not None]
        for other in others:
            first = first.and_then(other)
        return first

    def strike_event(self, moment: Moment, now: datetime) -> list[Hit]:
        recorded = self._strikes.get(_moment(moment))
        self.struck += recorded is not None
        return [*(recorded.hits if recorded is not None else ()), *super().strike_event(moment, now)]

    def held(self, moment: Moment) -> Held | None:
        held = self._held.get(_moment(moment))
        self.struck += held is not None
        return held


def _place(recorded: Recorded) -> _Place:
    return recorded.wire, recorded.stage, recorded.mail, recorded.nth


def _moment(moment: Moment) -> _Place:
    return wire_of(moment.dialect), moment.stage, *moment.occasion


def state_of(plan: Plan, now: datetime) -> PlanState:
    """Return a plan at work: its rules, or what was recorded of a former run."""
    if plan.recorded is not None:
        return ReplayState(plan, planted_at=now)
    return PlanState(plan, planted_at=now)
