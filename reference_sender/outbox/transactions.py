"""One transaction of the outbox, and the two writes that every move is made of: the fenced row, and its record.

A fence is the row's token: it goes up with each claim and each move by others, so that whoever lost the row writes
nothing into it.
Must not hold: which moves there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, bindparam, insert, select, update
from sqlalchemy.exc import DBAPIError

from reference_sender.life import Actor, Docket, State, may_move
from reference_sender.outbox.engine import READS_ONLY
from reference_sender.outbox.rows import IDS
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.trouble import Trouble, trouble_of
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.evidence import Evidence

_row = outgoing_email.c
_T = TypeVar("_T")
_AT_ONCE = 4  # so often a transaction is begun that others push aside; then its caller should pause

# The statements that a worker repeats all day are built once, not at every poll.
# Where the row is still in the hands of this attempt; the columns to set come with the parameters.
_HELD = update(outgoing_email).where(
    _row.id == bindparam("held_id"),
    _row.token == bindparam("held_token"),
    _row.state == bindparam("held_state", type_=_row.state.type),
)
_STANDS = select(_row.id, _row.token, _row.state).where(_row.id.in_(IDS)).order_by(_row.id).with_for_update()
_RECORD = insert(email_attempt)


class Transactions:
    """What every part of the store is built on."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def _write(self) -> AbstractContextManager[Connection]:
        return self.engine.begin()

    def _in_one(self, act: Callable[[Connection], _T], *, unsure: Callable[[], _T] | None = None) -> _T:
        """Act in one transaction, and do it again where the database rolled it back because others were in the way.

        If the connection broke while the commit was under way, it may be committed or not: `unsure` looks and tells.
        Without it that error goes to the caller, like every other.
        """
        for left in reversed(range(_AT_ONCE)):
            acted = False
            try:
                with self._write() as connection:
                    result = act(connection)
                    acted = True
                return result
            except DBAPIError as error:
                trouble = trouble_of(error)
                if trouble is Trouble.UNSURE and acted and unsure is not None:
                    return unsure()
                if trouble is not Trouble.AT_ONCE or not left:
                    raise
        raise AssertionError("the last round returns or raises")

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            connection.info[READS_ONLY] = True
            try:
                yield connection
            finally:
                # The note stays with the connection in the pool, and its next user may write.
                connection.info.pop(READS_ONLY, None)

    @staticmethod
    def _fenced(connection: Connection, docket: Docket, values: dict[str, Any]) -> bool:
        """Write only if the row is still in the hands of this attempt."""
        held = {"held_id": docket.id, "held_token": docket.token, "held_state": docket.state}
        return connection.execute(_HELD, values | held).rowcount == 1

    @staticmethod
    def _held_of(connection: Connection, dockets: Sequence[Docket]) -> set[tuple[int, int]]:
        """Those (id, token) that are still in the hands of their attempts; locked, so that they stay so until the commit."""
        found = {
            (row.id, row.token): row.state
            for row in connection.execute(_STANDS, {"ids": [docket.id for docket in dockets]})
        }
        keys = {(docket.id, docket.token): docket.state for docket in dockets}
        return {key for key, state in keys.items() if found.get(key) == state}

    def _move(
        self,
        connection: Connection,
        docket: Docket,
        decision: Decision,
        now: datetime,
        actor: Actor,
        extra: dict[str, Any],
    ) -> bool:
        stays = decision.state is docket.state
        assert stays or may_move(actor, docket.state, decision.state), decision
        # The token goes up, so that whoever still believes to hold the row is fenced out.
        values = settlement(docket, decision, None, now) | {"token": docket.token + 1} | extra
        if stays:
            del values["last_error"]  # why it became unknown matters more than why it still is
        moved = self._fenced(connection, docket, values)
        if moved and not stays:
            self._record(
                connection,
                docket.id,
                docket.token,
                ended_at=now,
                decision=decision.state,
                reason=f"{actor.value}: {decision.reason}",
                provider_id=decision.provider_id,
            )
        return moved

    @staticmethod
    def _record(connection: Connection, email_id: int, token: int, **more: Any) -> None:
        """Put one attempt on record; `more` as in `record_of`."""
        connection.execute(_RECORD, record_of(email_id, token, **more))


def record_of(
    email_id: int,
    token: int,
    *,
    ended_at: datetime,
    decision: State,
    reason: str,
    started_at: datetime | None = None,
    evidence: Evidence | None = None,
    provider_id: str | None = None,
    provider: str | None = None,
    late: bool = False,
) -> dict[str, Any]:
    """A row of `email_attempt`, all columns named, so that many of them are one statement."""
    return {
        "email_id": email_id,
        "token": token,
        "provider": provider,
        "started_at": started_at,
        "ended_at": ended_at,
        "phase": evidence.phase.value if evidence else None,
        "code": evidence.code if evidence else None,
        "enhanced": evidence.enhanced if evidence else None,
        "trouble": evidence.trouble if evidence else None,
        "answer": evidence.answer if evidence else None,
        "decision": decision.value,
        "reason": reason,
        "provider_id": provider_id,
        "late": late,
    }


def settlement(
    docket: Docket, decision: Decision, evidence: Evidence | None, now: datetime
) -> dict[str, Any]:
    """The columns that a decision sets."""
    values: dict[str, Any] = {
        "state": decision.state,
        "next_attempt_at": decision.next_attempt_at,
        "lease_until": None,
        "in_doubt": False,
        "if_not_sent": decision.if_not_sent,
        "updated_at": now,
    }
    if decision.doubt is Doubt.NEW:
        values["doubted_at"] = now
    elif decision.doubt is Doubt.CLEAR:
        values["doubted_at"] = None
    if decision.refund:
        values["attempts"] = max(docket.attempts - 1, 0)
    if decision.may_repeat:
        values["may_repeat"] = True
    if decision.state is State.ACCEPTED:
        values |= {"provider_id": decision.provider_id, "accepted_at": now, "last_error": None}
    else:
        values["last_error"] = decision.reason
    if evidence is not None:
        values |= {"last_code": evidence.code, "raw_answer": evidence.answer}
    return values
