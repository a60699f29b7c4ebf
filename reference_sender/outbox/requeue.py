"""A person moves a row.

Must not hold: who may, and which moves make sense (`life`, `policy.decision`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from reference_sender.life import Actor, Docket, State
from reference_sender.outbox.transactions import Transactions
from reference_sender.outbox.waiting import hold_lane
from reference_sender.policy.decision import Decision


class Requeueing(Transactions):
    """What people do to rows."""

    def requeue(self, docket: Docket, decision: Decision, *, now: datetime) -> bool:
        """A person moves a row: back to pending with fresh caps, or to accepted. False: it moved meanwhile.

        An ordered one steps out of the order; still no two of its key go at the same time.
        """
        fresh: dict[str, Any] = {}
        if decision.state is State.PENDING:
            fresh = {
                "attempts": 0,
                "tries": 0,
                "losses": None,
                "queued_at": now,
                "first_attempt_at": None,
                "expires_at": None,
                "hold_until": None,  # it waited before, and a person wants it to go
            }

        def act(connection: Connection) -> bool:
            if docket.ordering_key is not None and decision.state is State.PENDING:
                self._hold_lane(connection, docket.ordering_key, docket.id, now)
            return self._move(connection, docket, decision, now, Actor.PERSON, fresh)

        return self._in_one(act)

    @staticmethod
    def _hold_lane(connection: Connection, ordering_key: str, row_id: int, now: datetime) -> None:
        hold_lane(connection, ordering_key, row_id, now)
