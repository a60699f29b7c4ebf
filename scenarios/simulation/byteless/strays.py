"""Rows that nobody takes, in the outbox in memory: the questions of `reference_sender.outbox.strays`.

Only the questions are answered here; what follows from the answers is the sender's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from reference_sender.life import State
from reference_sender.outbox.strays import (
    AIMLESS,
    ENDLESS,
    GONE_PENDING,
    GONE_SENDING,
    LEASELESS,
    LOOKLESS,
    NEVER,
    Stray,
)
from reference_sender.policy.routes import Mine

Row = Mapping[str, Any]


def kind_of(row: Row, kinds: Sequence[Stray], mine: Mine | None, now: datetime) -> Stray | None:
    """Of which of these kinds a row is, if of any."""
    return next((kind for kind in kinds if _is(kind, row, mine, now)), None)


def _is(kind: Stray, row: Row, mine: Mine | None, now: datetime) -> bool:
    if kind is LOOKLESS:
        look = row["next_attempt_at"]
        return row["state"] is State.UNKNOWN and look is not None and bool(look > NEVER)
    if row["state"] is not (State.PENDING if kind.waits else State.SENDING):
        return False
    lease = row["lease_until"]
    if kind is LEASELESS:
        return lease is None or lease > NEVER
    at, until = row["next_attempt_at"], row["hold_until"]
    if kind is AIMLESS:
        return until is None if at is None else bool(at > NEVER)
    if kind is ENDLESS:
        return at is None and until is not None and bool(until > NEVER)
    is_gone = row["doubted_at"] is not None and mine is not None and mine.is_nobodys(row["provider"])
    if kind is GONE_PENDING:
        return is_gone
    assert kind is GONE_SENDING
    return is_gone and not row["in_doubt"] and lease is not None and lease < now
