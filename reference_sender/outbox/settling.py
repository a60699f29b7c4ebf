"""Settling: how an attempt ended, written into its row by the worker that holds it, and kept as evidence otherwise.

Must not hold: decisions about what an answer means.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, literal, update

from reference_sender.life import FINAL, Actor, Docket, State, may_move
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.transactions import Transactions, settlement
from reference_sender.outbox.waiting import let_next_go
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.evidence import Evidence

_row = outgoing_email.c


class Settling(Transactions):
    """The end of an attempt."""

    def settle(
        self,
        docket: Docket,
        decision: Decision,
        *,
        now: datetime,
        evidence: Evidence | None = None,
        started_at: datetime | None = None,
    ) -> bool:
        """Write the end of an attempt. False: the lease was lost; the result is kept as a late attempt only."""
        assert may_move(Actor.WORKER, State.SENDING, decision.state), decision
        with self._write() as connection:
            held = self._fenced(connection, docket, settlement(docket, decision, evidence, now))
            self._record(
                connection,
                docket.id,
                docket.token,
                ended_at=now,
                started_at=started_at,
                evidence=evidence,
                decision=decision.state,
                reason=decision.reason,
                provider_id=decision.provider_id,
                late=not held,
            )
            if not held:
                self._hear_late(connection, docket, decision, now)
            elif docket.ordering_key is not None and decision.state in FINAL:
                self._let_next_go(connection, docket.ordering_key, now)
        return held

    @staticmethod
    def _let_next_go(connection: Connection, ordering_key: str, now: datetime) -> None:
        let_next_go(connection, ordering_key, now)

    @staticmethod
    def _hear_late(connection: Connection, docket: Docket, decision: Decision, now: datetime) -> None:
        """No state changes. But what a lost worker may have sent after its lease is a doubt of this moment.

        A "not found" from before says nothing about it; and if the row is parked, the reconciler should look now.
        """
        news: dict[str, Any] = {
            "next_attempt_at": case(
                (_row.state == State.UNKNOWN, literal(now, _row.updated_at.type)), else_=_row.next_attempt_at
            )
        }
        if decision.state is State.ACCEPTED or decision.doubt is Doubt.NEW:
            news["doubted_at"] = now
        connection.execute(
            update(outgoing_email)
            .where(_row.id == docket.id, _row.state.in_([State.PENDING, State.SENDING, State.UNKNOWN]))
            .values(news)
        )
