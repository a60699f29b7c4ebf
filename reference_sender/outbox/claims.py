"""Claiming: a worker takes rows, with a lease, before the first byte leaves; and marks the point of no return.

Must not hold: what an answer means, how an attempt ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, exists, or_, select

from reference_sender.life import Docket, Parcel, State
from reference_sender.outbox.bars import LOOKED_AT, parcels_of
from reference_sender.outbox.gated import Gated, SqlPlace
from reference_sender.outbox.looks import look
from reference_sender.outbox.mistyped import park_mistyped
from reference_sender.outbox.passage import Place, pass_through
from reference_sender.outbox.rows import AT, DOCKET_COLUMNS, IDS, in_state, rows_in
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.taking import TAKE, TakingPlace, in_order, takes_what_it_finds, taking
from reference_sender.outbox.unreadable import UNREADABLE, readable
from reference_sender.outbox.waiting import MAY_SOMEBODY_GO, Turnstile
from reference_sender.policy.gate import NOTHING_KNOWN, Gate
from reference_sender.policy.suspects import Suspects, left_lying

_row = outgoing_email.c

# The statements that a worker repeats all day are built once, not at every poll.
_LOST_TO_DEDUPE = rows_in(State.SENDING, _row.lease_until < AT, order=(_row.lease_until, _row.id))
_LOST_UNMARKED = rows_in(
    State.SENDING, _row.lease_until < AT, _row.in_doubt.is_(False), order=(_row.lease_until, _row.id)
)
_DUE = rows_in(
    State.PENDING, _row.next_attempt_at <= AT, order=(_row.priority.desc(), _row.next_attempt_at, _row.id)
)
# Whether there is anything of the kind, and whether anybody who waits for others may go, without a lock on it. One
# EXISTS for each, so that each has its index.
_IS_DUE = exists().where(in_state(State.PENDING), _row.next_attempt_at <= AT)
_TO_CLAIM = {
    dedupes: select(
        or_(_IS_DUE, exists().where(in_state(State.SENDING), _row.lease_until < AT, *marked)),
        MAY_SOMEBODY_GO,
    )
    for dedupes, marked in ((True, ()), (False, (_row.in_doubt.is_(False),)))
}
_TAKE = TAKE.where(_row.id.in_(IDS))
_TAKEN = select(*DOCKET_COLUMNS, *LOOKED_AT).where(_row.id.in_(IDS))


class Claims(Gated):
    """Rows into the hands of a worker."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._in_vain = 0
        """So many claims in a row came back empty-handed."""
        self._turnstile = Turnstile()

    def claim(
        self,
        *,
        now: datetime,
        limit: int,
        lease_s: float,
        dedupes: bool,
        gate: Gate | None = None,
        bulk: int | None = None,
        suspects: Suspects | None = None,
    ) -> list[Parcel]:
        """Take up to `limit` rows and commit `sending` for them, before the first byte of any leaves.

        Due rows, and rows whose lease ran out. Of the latter only those that may be repeated: the lost attempt did
        not reach its point of no return, or the provider dedupes. With `dedupes` the row is in doubt from the claim
        on, because no marker will follow; without, `mark` sets it at the point of no return.

        With a `gate` only what it lets through, for its provider; of that up to `bulk` rows that are not urgent.
        What was lost again and again is taken alone, where `suspects` allows that (without it: whoever claims has
        nothing else in hand), and they are told.
        """
        suspects = suspects or Suspects()
        suspects.begin()
        # Whoever waits for mail only looks, most of the time.
        if self._in_vain > 1 and not self._is_worth_a_claim(now, gate, dedupes=dedupes):
            return []
        leased = now + timedelta(seconds=lease_s)
        taken: list[tuple[int, int]] = []

        def act(connection: Connection, *, at_once: bool = True) -> list[Parcel]:
            suspects.begin()
            if not at_once:
                self._turnstile.forget()
                park_mistyped(connection, now, self._record)
            self._turnstile.turn(connection, now)
            place = self._place(connection, now, unmarked=not dedupes)
            by = None if gate is None else gate.rules.provider
            terms = taking(now, leased, by, doubt=dedupes, beside=suspects.beside)
            # A place of a kind of its own, and one that leaves some of what is found, is looked at first.
            if at_once and type(place) is SqlPlace and takes_what_it_finds(connection, gate):
                place = TakingPlace(connection, now, unmarked=not dedupes, taking=terms)
            lost, due = self._found(
                connection, place, now, limit, bulk, gate, dedupes=dedupes, suspects=suspects
            )
            taken[:] = [(each.id, each.token + 1) for each in (*lost, *due)]
            self._record_lost(connection, lost, now)
            if isinstance(place, TakingPlace):
                return in_order(parcels_of(connection, place.rows, now), taken)
            if taken:
                connection.execute(_TAKE, terms | {"ids": [row_id for row_id, _ in taken]})
            return self._parcels(connection, taken, now, careful=not at_once)

        def unsure() -> list[Parcel]:
            # Nothing was sent yet. What is in our hands by now was committed; nobody else has the same token.
            with self._read() as connection:
                parcels = self._parcels(connection, taken, now)
            return [each for each in parcels if (each.id, each.token) in taken and each.lease_until == leased]

        try:
            parcels = self._in_one(act, unsure=unsure)
        except UNREADABLE:
            # All of it is rolled back. Row by row it is found out which one somebody edited by hand.
            parcels = self._in_one(partial(act, at_once=False), unsure=unsure)
        self._in_vain = 0 if parcels else self._in_vain + 1
        return parcels

    def _is_worth_a_claim(self, now: datetime, gate: Gate | None, *, dedupes: bool) -> bool:
        """Whether there is anything to claim, and may be claimed; asked by statements that lock nothing."""
        anything, waits = look(self.engine, _TO_CLAIM[dedupes], {"at": now})
        if gate is None or waits:
            return bool(anything or waits)
        if not anything:
            gate.saw_nothing()
            return False
        shared = self.gates().get(gate.rules.provider, NOTHING_KNOWN)
        # In an outage there is mail all day long, and nobody needs a lock to find that it may not go.
        return gate.lets_in(shared, now)

    def _record_lost(self, connection: Connection, lost: Sequence[Any], now: datetime) -> None:
        for row in lost:
            self._record(
                connection, row.id, row.token, ended_at=now, decision=State.SENDING, reason="lease ran out"
            )

    def _parcels(
        self, connection: Connection, taken: Sequence[tuple[int, int]], now: datetime, *, careful: bool = True
    ) -> list[Parcel]:
        """The rows as the worker wants them, in this order; whoever is careful parks one that cannot be read."""
        if not taken:
            return []
        ids = [row_id for row_id, _ in taken]
        try:
            rows: Sequence[Any] = connection.execute(_TAKEN, {"ids": ids, "at": now}).all()
            return in_order(parcels_of(connection, rows, now), taken)
        except UNREADABLE:
            if not careful:
                raise
            rows = readable(connection, _TAKEN, taken, now, self._record)
        return in_order(parcels_of(connection, rows, now), taken)

    def _found(
        self,
        connection: Connection,
        place: Place,
        now: datetime,
        limit: int,
        bulk: int | None,
        gate: Gate | None,
        *,
        dedupes: bool,
        suspects: Suspects,
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Rows to take (or taken), lost ones and due ones, with id and the token they had."""
        most = max(limit, 0)
        if gate is not None:
            bulk = most if bulk is None else max(bulk, 0)
            return pass_through(place, gate, room=most, bulk=bulk, now=now, suspects=suspects)
        lost_query = _LOST_TO_DEDUPE if dedupes else _LOST_UNMARKED
        lost_rows = connection.execute(lost_query, {"at": now, "most": most}).all()
        due_rows = connection.execute(_DUE, {"at": now, "most": most - len(lost_rows)}).all()
        # The last loss of those that are lost is not counted yet.
        found = [(row.id, (row.losses or 0) + 1) for row in lost_rows]
        left = left_lying(found + [(row.id, row.losses or 0) for row in due_rows], suspects)
        return [row for row in lost_rows if row.id not in left], [
            row for row in due_rows if row.id not in left
        ]

    def mark(self, docket: Docket, *, now: datetime) -> bool:
        """Commit that this attempt passes its point of no return. False: the row is no longer ours, do not send."""

        def act(connection: Connection) -> bool:
            return self._fenced(connection, docket, {"in_doubt": True, "updated_at": now})

        return self._in_one(act, unsure=lambda: self._in_one(act))

    def renew(self, docket: Docket, *, now: datetime, lease_s: float) -> datetime | None:
        """Give what has waited in a worker's hands a whole lease for its attempt; until when. None: it is no longer ours.

        A lease that is over is renewed as well, as long as nobody else has taken the row: only the token counts.
        """
        until = now + timedelta(seconds=lease_s)

        def act(connection: Connection) -> bool:
            return self._fenced(connection, docket, {"lease_until": until, "updated_at": now})

        return until if self._in_one(act, unsure=lambda: self._in_one(act)) else None
