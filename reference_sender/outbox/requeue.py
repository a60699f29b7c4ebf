"""A person moves a row.

Must not hold: who may, and which moves make sense (`life`, `policy.decision`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from reference_sender.life import Actor, Docket, State
from reference_sender.outbox.transactions import Transactions
from reference_sender.policy.decision import Decision


class Requeueing(Transactions):
    """What people do to rows."""

    def requeue(self, docket: Docket, decision: Decision, *, now: datetime) -> bool:
        """A person moves a row: back to pending with fresh caps, or to accepted. False: it moved meanwhile."""
        fresh: dict[str, Any] = {}
        if decision.state is State.PENDING:
            fresh = {
                "attempts": 0,
                "tries": 0,
                "queued_at": now,
                "first_attempt_at": None,
                "expires_at": None,
                "hold_until": None,  # it waited before, and a person wants it to go
            }
        with self._write() as connection:
            return self._move(connection, docket, decision, now, Actor.PERSON, fresh)
