"""The gatekeeper: what a worker asks before it claims, and what it tells everybody after an attempt.

One for each worker. What is shared lies in the outbox (`Store.claim` with a gate, `Store.hear`); only the pace, which
follows the latency that this worker sees, is its own.
Must not hold: SQL, the rules themselves (`policy.gate`, `policy.pace`).
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, Protocol

from reference_sender.clock import Clock
from reference_sender.life import Docket
from reference_sender.log import Log, cause_of, quiet
from reference_sender.policy import gate as gates
from reference_sender.policy import pace as pacing
from reference_sender.policy.breaker import Position, Standing, standing
from reference_sender.policy.evidence import Evidence, Outcome
from reference_sender.policy.gate import Gate, GateRules, Shared
from reference_sender.policy.pace import PaceRules

# So early a timer may come, and what it waited for is not there yet.
_LATER_S = 0.001


class Store(Protocol):
    """What the gatekeeper asks of the outbox."""

    def hear(
        self,
        rules: GateRules,
        outcome: Outcome | None,
        evidence: Evidence | None,
        *,
        now: datetime,
        began_at: datetime,
        good_before: int = 0,
    ) -> Shared: ...


class Gatekeeper:
    """Between one worker and the gate of its provider."""

    def __init__(
        self, *, store: Store, rules: GateRules, pace: PaceRules, clock: Clock, log: Log = quiet
    ) -> None:
        self.gate = Gate(rules)
        self._store = store
        self._pace_rules = pace
        self._pace = pacing.begin(pace)
        self._clock = clock
        self._log = log
        self._bulk = 0
        """Mails under way that are not urgent."""
        self._is_counted = bool(rules.rates or rules.in_flight is not None or rules.domains)
        """Whether every mail in hand counts against a limit that all workers share."""

    @property
    def most(self) -> int:
        """How many mails may be under way."""
        return self._pace.most

    @property
    def may_claim_ahead(self) -> bool:
        """Whether mail may wait in our hands: not where every mail in hand is counted, and not in trouble."""
        return not self._is_counted and self.gate.seen.breaker.clean and self.most == self._pace_rules.most

    def is_urgent(self, docket: Docket) -> bool:
        """Whether it may fill a place that is kept free."""
        return docket.priority >= self.gate.rules.urgent_from

    def kept_of(self, places: int) -> int:
        """How many of so many places on the wire only urgent mail may fill."""
        return min(self.gate.rules.reserved, max(places - 1, 0))

    def room_for_urgent(self, in_hand: int, places: int) -> int:
        """How many urgent mails are worth a claim of their own, however much other mail is in our hands."""
        return max(self.kept_of(places) - (in_hand - self._bulk), 0)

    def terms(self, room: int, in_hand: int) -> dict[str, Any]:
        """What a claim of up to `room` rows is told, by a worker that may have so many in its hands."""
        reserved = min(self.gate.rules.reserved, max(in_hand - 1, 0))
        free = in_hand - reserved - self._bulk
        return {"gate": self.gate, "bulk": min(room, max(free, 0)) if reserved else room}

    def wait_s(self, most_s: float) -> float:
        """Seconds until it is worth looking again, at most so many."""
        if self.gate.again_at is None:
            return most_s
        left_s = (self.gate.again_at - self._clock.now()).total_seconds() + _LATER_S
        return min(most_s, max(left_s, _LATER_S))

    def is_shut(self, now: datetime) -> bool:
        """Whether what is in our hands should rather not be sent just now."""
        return self.gate.is_shut(now)

    def begins(self, docket: Docket) -> None:
        """A mail is in our hands."""
        self._bulk += not self.is_urgent(docket)

    def ends(self, docket: Docket) -> None:
        """And no more."""
        self._bulk -= not self.is_urgent(docket)

    async def tell(
        self, outcome: Outcome | None, evidence: Evidence | None, *, began_at: datetime, took_s: float
    ) -> bool:
        """Tell everybody what an attempt saw (None: there was none). True: more may go than before.

        If it cannot be written down it is lost, and the next attempt sees the same.
        """
        gate = self.gate
        if outcome is not None and evidence is not None:
            self._keep_pace(standing(outcome, evidence), evidence, took_s)
        if gates.is_usual(gate.seen, outcome, evidence):
            gate.good += 1
            return False
        now = self._clock.now()
        if not gates.matters(gate.rules, gate.seen, outcome, evidence, now):
            gate.good += outcome is not None
            return False
        good_before, gate.good = gate.good, 0
        try:
            after = await asyncio.to_thread(
                self._store.hear,
                gate.rules,
                outcome,
                evidence,
                now=now,
                began_at=began_at,
                good_before=good_before,
            )
        except Exception as error:
            self._log("hear_failed", error=type(error).__name__, cause=cause_of(error))
            return False
        # Only now: others may have told of the same trouble meanwhile, and it is news once.
        before, gate.seen = gate.seen, after
        self._say(before, after)
        return after.breaker.position is Position.CLOSED and before.breaker.position is not Position.CLOSED

    def _keep_pace(self, news: Standing, evidence: Evidence, took_s: float) -> None:
        most = self._pace.most
        if news in (Standing.BAD, Standing.SHUT):
            if self.gate.seen.breaker.position is Position.CLOSED and self.gate.seen.breaker.in_a_row:
                # One failure is an accident; the second in a row begins to be trouble.
                self._pace = pacing.troubled(self._pace, self._pace_rules)
        elif evidence.code is not None:
            self._pace = pacing.answered(self._pace, self._pace_rules, took_s)
        if self._pace.most != most:
            self._log("pace", provider=self.gate.rules.provider, most=self._pace.most)

    def _say(self, before: Shared, after: Shared) -> None:
        provider = self.gate.rules.provider
        if after.breaker.position is not before.breaker.position:
            self._log(
                "breaker",
                provider=provider,
                position=after.breaker.position.value,
                reason=after.reason,
                until=_text(after.breaker.until),
            )
        if after.paused_until != before.paused_until:
            self._log("paused", provider=provider, reason=after.reason, until=_text(after.paused_until))


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
