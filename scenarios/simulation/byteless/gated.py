"""What all workers know of a provider, on a shelf: the same that the sender keeps in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from reference_sender.life import State
from reference_sender.outbox.passage import Found, Wanted
from reference_sender.policy.bucket import Bucket, Rate, full
from reference_sender.policy.gate import NOTHING_KNOWN, Shared
from reference_sender.policy.routes import domain_of
from reference_sender.policy.suspects import is_suspect


class ShelfPlace:
    """Rows and gates within one transaction. `unmarked`: of lost rows only those that are not in doubt."""

    def __init__(self, transaction: Any, now: datetime, *, unmarked: bool) -> None:
        self._transaction = transaction
        self._now = now
        self._unmarked = unmarked

    def known(self) -> dict[str, Shared]:
        return dict(self._transaction.gates)

    def locked(self, provider: str) -> Shared:
        shared: Shared = self._transaction.gates.get(provider, NOTHING_KNOWN)
        return shared

    def keep(self, provider: str, shared: Shared) -> None:
        self._transaction.gates = {**self._transaction.gates, provider: shared}

    def bucket(self, name: str, rate: Rate) -> Bucket:
        bucket: Bucket = self._transaction.buckets.get(name) or full(rate, self._now)
        return bucket

    def fill(self, name: str, bucket: Bucket) -> None:
        self._transaction.buckets = {**self._transaction.buckets, name: bucket}

    def under_way(self) -> Sequence[tuple[str, str | None]]:
        return [
            (row["recipient"], row["provider"])
            for row in self._transaction.emails.values()
            if row["state"] is State.SENDING and row["lease_until"] >= self._now
        ]

    def find(self, wanted: Wanted) -> list[Found]:
        rows = [row for row in self._transaction.emails.values() if self._is(row, wanted)]
        rows.sort(key=_by_lease if wanted.lost else by_urgency)
        return [
            Found(id=row["id"], token=row["token"], recipient=row["recipient"], priority=row["priority"])
            for row in rows[: wanted.most]
        ]

    def has_suspects(self) -> bool:
        rows = self._transaction.emails.values()
        return any((self._is_lost(row) or self._is_due(row)) and is_suspect(losses(row)) for row in rows)

    def sees(self, wanted: Wanted) -> bool:
        return bool(self.find(wanted))

    def _is(self, row: Mapping[str, Any], wanted: Wanted) -> bool:
        priority = row["priority"]
        return (
            (self._is_lost(row) if wanted.lost else self._is_due(row))
            and is_suspect(losses(row)) is wanted.suspects
            and (wanted.from_priority is None or priority >= wanted.from_priority)
            and (wanted.below_priority is None or priority < wanted.below_priority)
            and (wanted.above_priority is None or priority > wanted.above_priority)
            and (row["attempts"] > 0 or not wanted.tried)
            and domain_of(row["recipient"]) not in wanted.not_to
            and wanted.share.takes(
                mail_class=row["mail_class"],
                sender=row["sender"],
                recipient=row["recipient"],
                provider=row["provider"],
                doubted=row["doubted_at"] is not None or (row["state"] is State.SENDING and row["in_doubt"]),
            )
        )

    def _is_lost(self, row: Mapping[str, Any]) -> bool:
        if row["state"] is not State.SENDING or (self._unmarked and row["in_doubt"]):
            return False
        return bool(row["lease_until"] < self._now)

    def _is_due(self, row: Mapping[str, Any]) -> bool:
        at = row["next_attempt_at"]
        return row["state"] is State.PENDING and at is not None and at <= self._now


def _by_lease(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["lease_until"], row["id"]


def losses(row: Mapping[str, Any]) -> int:
    """So often a row was lost with its worker, the loss included that nobody has counted yet."""
    return (row["losses"] or 0) + (row["state"] is State.SENDING)


def by_urgency(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The order in which due rows go."""
    return -row["priority"], row["next_attempt_at"], row["id"]
