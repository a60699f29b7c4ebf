"""Rows whose outcome nobody knows: how they become `unknown`, which of them are due for a look, and how it ends.

Must not hold: decisions about what a look-up means.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Engine, and_, bindparam, exists, false, func, or_, select, true, update

from reference_sender.life import Actor, Docket, State
from reference_sender.outbox import strays
from reference_sender.outbox.looks import look
from reference_sender.outbox.rows import AT, DOCKET_COLUMNS, IDS, elsewhere, facts_of, in_state
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.strays import Stray
from reference_sender.outbox.suspects import ONE_MORE
from reference_sender.outbox.transactions import Transactions
from reference_sender.outbox.unreadable import UNREADABLE, readable
from reference_sender.policy.decision import Decision
from reference_sender.policy.routes import Mine

_row = outgoing_email.c

_MARKED = and_(in_state(State.SENDING), _row.in_doubt.is_(True), _row.lease_until < AT)
_LOST_MARKED = select(_row.id, _row.token).where(_MARKED).with_for_update(skip_locked=True)
_LATE = (
    select(email_attempt.c.provider_id)
    .where(
        email_attempt.c.email_id == bindparam("email"),
        email_attempt.c.late.is_(True),
        email_attempt.c.decision == State.ACCEPTED.value,
    )
    .limit(1)
)
_THESE = select(*DOCKET_COLUMNS).where(_row.id.in_(IDS))
_NUMBERED = (_row.id, _row.token)
_DOUBTFUL = (
    select(*DOCKET_COLUMNS)
    .where(in_state(State.UNKNOWN), _row.next_attempt_at <= AT)
    .order_by(_row.next_attempt_at, _row.id)
    .limit(bindparam("most"))
)


class Doubts(Transactions):
    """What the reconciler asks for."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._rarely = strays.Rarely()

    def has_doubts(self, *, now: datetime, dedupes: bool, mine: Mine | None = None) -> bool:
        """Whether there is anything that `park_lost` would park or `doubtful` would find: one statement that locks nothing."""
        kinds = strays.to_look_for(mine, pending=(rarely := self._rarely.is_due(now)))
        (has_some,) = look(self.engine, _any_doubt(mine, kinds, dedupes=dedupes), {"at": now})
        if rarely and kinds and not has_some:
            self._rarely.found_nothing(now)
        return bool(has_some)

    def park_lost(self, *, now: datetime, dedupes: bool, mine: Mine | None = None) -> list[int]:
        """Turn rows whose lease ran out after the point of no return into `unknown`, and those that nobody takes; their ids.

        Where the provider dedupes no lost row is to be parked: `claim` takes it up again. With `mine` only those of
        one provider; the first one's also those of providers that are not configured any more, whatever they did, and
        what strays (`strays`).
        """
        kinds = strays.to_look_for(mine, pending=(rarely := self._rarely.is_due(now)))
        looks = _looks(mine, kinds, dedupes=dedupes)
        if looks is None:
            return []
        is_there, lost = looks
        with self._read() as connection:
            is_lost, *are_there = connection.execute(is_there, {"at": now}).one()
        found = [stray for stray, there in zip(kinds, are_there, strict=True) if there]
        if rarely and kinds and not found:
            self._rarely.found_nothing(now)
        parked: list[int] = []
        if is_lost or found:
            with self._write() as connection:
                if is_lost:
                    parked += self._park_lost(connection, lost, now)
                parked += strays.park(connection, found, mine, now)
        return parked

    def _park_lost(self, connection: Connection, lost: Any, now: datetime) -> list[int]:
        rows = connection.execute(lost, {"at": now}).all()
        if rows:
            reason = "the worker was lost after the point of no return"
            connection.execute(
                update(outgoing_email)
                .where(_row.id.in_([row.id for row in rows]))
                .values(
                    state=State.UNKNOWN,
                    token=_row.token + 1,
                    losses=ONE_MORE,
                    lease_until=None,
                    in_doubt=False,
                    # Not when the lease ended: the lost worker may have gone on for longer than that.
                    doubted_at=now,
                    next_attempt_at=now,
                    if_not_sent=State.PENDING,
                    last_error=reason,
                    updated_at=now,
                )
            )
            for row in rows:
                self._record(
                    connection, row.id, row.token, ended_at=now, decision=State.UNKNOWN, reason=reason
                )
        return [row.id for row in rows]

    def doubtful(self, *, now: datetime, limit: int, mine: Mine | None = None) -> list[Docket]:
        """Unknown rows whose next look is due; with `mine` those that only this provider can be asked about.

        One that cannot be read is parked for a person and holds up no other.
        """
        due = {"at": now, "most": limit}
        try:
            with self._read() as connection:
                rows: Sequence[Any] = connection.execute(_doubtful_of(mine), due).all()
        except UNREADABLE:
            with self._write() as connection:
                found = connection.execute(_doubtful_of(mine, _NUMBERED).with_for_update(), due).all()
                taken = [(row.id, row.token) for row in found]
                rows = readable(connection, _THESE, taken, now, self._record)
        return [Docket(**facts_of(row)) for row in rows]

    def homeless(self, providers: Sequence[str]) -> dict[str, int]:
        """How many mails are in doubt at providers that are not among these, by provider: nobody takes or asks about them."""
        doubted = or_(_row.doubted_at.is_not(None), _row.in_doubt.is_(True))
        undone = or_(*(in_state(each) for each in (State.PENDING, State.SENDING, State.UNKNOWN)))
        query = (
            select(_row.provider, func.count())
            .where(undone, doubted, elsewhere(providers))
            .group_by(_row.provider)
            .order_by(_row.provider)
        )
        with self._read() as connection:
            return {str(provider): count for provider, count in connection.execute(query)}

    def late_acceptance(self, docket: Docket) -> str | None:
        """The provider's id from an answer that came after the lease was lost: as good as a look-up."""
        with self._read() as connection:
            return connection.execute(_LATE, {"email": docket.id}).scalar()

    def resolve(self, docket: Docket, decision: Decision, *, now: datetime) -> bool:
        """Move an unknown row, if it is still as we saw it. False: somebody else was faster."""
        with self._write() as connection:
            return self._move(connection, docket, decision, now, Actor.RECONCILER, {})


def _is_mine(mine: Mine) -> Any:
    own = _row.provider == mine.provider
    return or_(own, _row.provider.is_(None)) if mine.first else own


@lru_cache(maxsize=64)
def _doubtful_of(mine: Mine | None, columns: Sequence[Any] = DOCKET_COLUMNS) -> Any:
    query = _DOUBTFUL.with_only_columns(*columns)
    return query if mine is None else query.where(_is_mine(mine))


@lru_cache(maxsize=64)
def _any_doubt(mine: Mine | None, kinds: tuple[Stray, ...], *, dedupes: bool) -> Any:
    """The query of `has_doubts`. One EXISTS for each kind, so that each has its index."""
    due = [in_state(State.UNKNOWN), _row.next_attempt_at <= AT]
    looks = _looks(mine, kinds, dedupes=dedupes)
    lost = () if looks is None else looks[0].selected_columns
    return select(or_(*lost, exists().where(*due, *(() if mine is None else (_is_mine(mine),)))))


@lru_cache(maxsize=64)
def _looks(mine: Mine | None, kinds: tuple[Stray, ...], *, dedupes: bool) -> tuple[Any, Any] | None:
    """Queries: whether there are lost rows to be parked, and strays of each kind; and those lost ones. None: nobody's are.

    One statement, however much is looked for.
    """
    whose: list[Any] = []
    if not dedupes:
        whose.append(true() if mine is None else _is_mine(mine))
    if mine is not None and mine.first:
        whose.append(elsewhere(mine.providers))
    if not whose and not kinds:
        return None
    is_whose = or_(*whose) if whose else false()
    is_lost = exists().where(_MARKED, is_whose) if whose else false()
    return select(is_lost, *(strays.are_there(stray, mine) for stray in kinds)), _LOST_MARKED.where(is_whose)
