"""Settling: how an attempt ended, written into its row by the worker that holds it, and kept as evidence otherwise.

Must not hold: decisions about what an answer means.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, bindparam, case, exists, literal, select, update

from reference_sender.life import FINAL, Actor, Docket, State, may_move
from reference_sender.outbox.bulk import Held, NotAllHeld, change_held
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.transactions import Transactions, record_of, settlement
from reference_sender.outbox.waiting import let_next_go
from reference_sender.policy.decision import Decision, Doubt, Ended
from reference_sender.policy.evidence import Evidence

_row = outgoing_email.c
_attempt = email_attempt.c

_IN_HAND = Held(table=outgoing_email, key=("id", "token"), also=f"state = '{State.SENDING.value}'")
_WRITTEN = select(
    exists().where(
        _attempt.email_id == bindparam("email"),
        _attempt.token == bindparam("of"),
        _attempt.late.is_(False),
        _attempt.decision == bindparam("what"),
        _attempt.reason == bindparam("why"),
    )
)


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
        """Write the end of an attempt. False: the lease was lost; the result is kept as a late attempt only.

        Writing the same end again changes nothing and is answered as the first time: whoever lost the answer to a
        commit may ask again.
        """
        ended = Ended(docket=docket, decision=decision, evidence=evidence, started_at=started_at)
        assert may_move(Actor.WORKER, State.SENDING, decision.state), decision

        def act(connection: Connection) -> bool:
            return self._settle(connection, ended, now)

        return self._in_one(act, unsure=lambda: self._in_one(act))

    def settle_all(self, group: Sequence[Ended], *, now: datetime) -> list[bool]:
        """Write the ends of several attempts in one transaction, each fenced as in `settle`: all of them, or none."""
        for ended in group:
            assert may_move(Actor.WORKER, State.SENDING, ended.decision.state), ended.decision

        def act(connection: Connection, *, looks: bool = False) -> list[bool]:
            return self._settle_together(connection, group, now, looks=looks)

        try:
            return self._in_one(act, unsure=lambda: self._in_one(act))
        except NotAllHeld:
            # All of it is rolled back. It is rare that somebody has lost his row, so only now it is looked who.
            act = partial(act, looks=True)
            return self._in_one(act, unsure=lambda: self._in_one(act))

    def _settle(self, connection: Connection, ended: Ended, now: datetime) -> bool:
        docket, decision = ended.docket, ended.decision
        held = self._fenced(connection, docket, _values(ended, now))
        if not held and self._is_on_record(connection, ended):
            return True
        self._record(connection, docket.id, docket.token, **_ending(ended, now), late=not held)
        if not held:
            self._hear_late(connection, docket, decision, now)
        elif docket.ordering_key is not None and decision.state in FINAL:
            self._let_next_go(connection, docket.ordering_key, now)
        return held

    def _settle_together(
        self, connection: Connection, group: Sequence[Ended], now: datetime, *, looks: bool
    ) -> list[bool]:
        """The same for many, in a few statements."""
        written = self._write_held(connection, group, now, looks=looks)
        for ended in group:
            lane = ended.docket.ordering_key
            if lane is not None and ended.decision.state in FINAL and _key_of(ended) in written:
                self._let_next_go(connection, lane, now)
        # The others in the long way: their result is evidence, and belongs to no row any more.
        return [_key_of(ended) in written or self._settle(connection, ended, now) for ended in group]

    def _write_held(
        self, connection: Connection, group: Sequence[Ended], now: datetime, *, looks: bool
    ) -> set[tuple[int, int]]:
        """Write those whose row is still in the hands of the attempt; (id, token) of each.

        With `looks` it is looked before who they are, and their rows are locked until the commit.
        """
        held = self._held_of(connection, [ended.docket for ended in group]) if looks else None
        alike: dict[tuple[str, ...], tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
        for ended in group:
            if held is not None and _key_of(ended) not in held:
                continue
            docket = ended.docket
            values = _values(ended, now)
            changes, records = alike.setdefault(tuple(values), ([], []))
            changes.append(values | {"id": docket.id, "token": docket.token})
            records.append(record_of(docket.id, docket.token, **_ending(ended, now)))
        for changes, records in alike.values():
            change_held(connection, _IN_HAND, changes, email_attempt, records)
        return {_key_of(ended) for ended in group} if held is None else held

    @staticmethod
    def _is_on_record(connection: Connection, ended: Ended) -> bool:
        """Whether this very end was written before, by a commit whose answer was lost."""
        return bool(
            connection.execute(
                _WRITTEN,
                {
                    "email": ended.docket.id,
                    "of": ended.docket.token,
                    "what": ended.decision.state.value,
                    "why": ended.decision.reason,
                },
            ).scalar()
        )

    @staticmethod
    def _let_next_go(connection: Connection, ordering_key: str, now: datetime) -> None:
        let_next_go(connection, ordering_key, now)

    @staticmethod
    def _hear_late(connection: Connection, docket: Docket, decision: Decision, now: datetime) -> None:
        """Nobody loses the row by it. But what a lost worker may have sent after its lease is a doubt of this moment.

        A "not found" from before says nothing about it; and if the row is parked, the reconciler should look now. So it should
        if the worker was told yes and the row waits to be sent once more, under a policy that repeats what is in doubt.
        """
        asked_now = [State.UNKNOWN]
        news: dict[str, Any] = {}
        if decision.state is State.ACCEPTED:
            asked_now.append(State.PENDING)
            is_waiting = _row.state == State.PENDING
            news["state"] = case((is_waiting, literal(State.UNKNOWN, _row.state.type)), else_=_row.state)
            news["last_error"] = case(
                (is_waiting, "a worker that had lost it was told yes"), else_=_row.last_error
            )
        # MySQL assigns one after the other and looks at what it has assigned: either state will do here.
        news["next_attempt_at"] = case(
            (_row.state.in_(asked_now), literal(now, _row.updated_at.type)), else_=_row.next_attempt_at
        )
        if decision.state is State.ACCEPTED or decision.doubt is Doubt.NEW:
            news["doubted_at"] = now
        connection.execute(
            update(outgoing_email)
            .where(_row.id == docket.id, _row.state.in_([State.PENDING, State.SENDING, State.UNKNOWN]))
            .values(news)
        )


def _key_of(ended: Ended) -> tuple[int, int]:
    return ended.docket.id, ended.docket.token


def _values(ended: Ended, now: datetime) -> dict[str, Any]:
    """The columns that the end of an attempt sets."""
    values = settlement(ended.docket, ended.decision, ended.evidence, now)
    # Its worker lives: whatever was lost before, it was not this mail's fault.
    return values if ended.docket.losses is None else values | {"losses": None}


def _ending(ended: Ended, now: datetime) -> dict[str, Any]:
    """What goes on record about it."""
    return {
        "ended_at": now,
        "started_at": ended.started_at,
        "evidence": ended.evidence,
        "decision": ended.decision.state,
        "reason": ended.decision.reason,
        "provider_id": ended.decision.provider_id,
        "provider": None if ended.evidence is None else ended.docket.provider,
    }
