"""One transaction of the outbox, and the two writes that every move is made of: the fenced row, and its record.

A fence is the row's token: it goes up with each claim and each move by others, so that whoever lost the row writes
nothing into it.
Must not hold: which moves there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, insert, update

from reference_sender.life import Actor, Docket, State, may_move
from reference_sender.outbox.engine import READS_ONLY
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.evidence import Evidence

_row = outgoing_email.c

# The statements that a worker repeats all day are built once, not at every poll.
# Where the row is still in the hands of this attempt; the columns to set come with the parameters.
_HELD = update(outgoing_email).where(
    _row.id == bindparam("held_id"),
    _row.token == bindparam("held_token"),
    _row.state == bindparam("held_state", type_=_row.state.type),
)
_RECORD = insert(email_attempt)


class Transactions:
    """What every part of the store is built on."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def _write(self) -> AbstractContextManager[Connection]:
        return self.engine.begin()

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
    def _record(
        connection: Connection,
        email_id: int,
        token: int,
        *,
        ended_at: datetime,
        decision: State,
        reason: str,
        started_at: datetime | None = None,
        evidence: Evidence | None = None,
        provider_id: str | None = None,
        late: bool = False,
    ) -> None:
        seen: dict[str, Any] = {}
        if evidence is not None:
            seen = {
                "phase": evidence.phase.value,
                "code": evidence.code,
                "enhanced": evidence.enhanced,
                "trouble": evidence.trouble,
                "answer": evidence.answer,
            }
        connection.execute(
            _RECORD,
            {
                "email_id": email_id,
                "token": token,
                "started_at": started_at,
                "ended_at": ended_at,
                "decision": decision.value,
                "reason": reason,
                "provider_id": provider_id,
                "late": late,
                **seen,
            },
        )


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
