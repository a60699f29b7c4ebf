"""Taking: rows become `sending`, with a new token and a lease, found and changed and read in one statement.

That is for databases that return what they change; elsewhere `claims` does it in three. Where some of
what is found is left lying – domains with limits – it must be found first, too.
Must not hold: which rows may go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, func, literal_column, update

from reference_sender.life import Parcel, State
from reference_sender.outbox.bars import LOOKED_AT
from reference_sender.outbox.gated import SqlPlace
from reference_sender.outbox.passage import Found, Wanted
from reference_sender.outbox.rows import AT, DOCKET_COLUMNS
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.suspects import ONE_MORE
from reference_sender.policy.gate import Gate

_row = outgoing_email.c

_BESIDE = bindparam("beside", type_=_row.losses.type)

#: The change; its parameters are `taking`.
TAKE = update(outgoing_email).ordered_values(
    # A lost attempt that was in doubt stays in doubt for ever, also when this one ends well defined. It comes
    # first because MySQL works from left to right: behind it, state and in_doubt would be the new ones.
    (
        _row.doubted_at,
        case((and_(_row.state == State.SENDING, _row.in_doubt), AT), else_=_row.doubted_at),
    ),
    (
        _row.losses,
        case(
            (_row.state == State.SENDING, ONE_MORE - _BESIDE),
            # In advance: if it is lost beside a suspect, that counts for nothing (`policy.suspects`).
            (_BESIDE == 1, func.coalesce(_row.losses, 0) - _BESIDE),
            else_=_row.losses,
        ),
    ),
    (_row.in_doubt, bindparam("doubt", type_=_row.in_doubt.type)),
    (_row.state, State.SENDING),
    (_row.token, _row.token + 1),
    (_row.attempts, _row.attempts + 1),
    (_row.tries, _row.tries + 1),
    (_row.lease_until, bindparam("leased", type_=_row.lease_until.type)),
    (_row.first_attempt_at, func.coalesce(_row.first_attempt_at, AT)),
    # Committed before the first byte leaves: in doubt, it must be known whom to ask.
    (_row.provider, func.coalesce(bindparam("by", type_=_row.provider.type), _row.provider)),
    (_row.updated_at, AT),
)
# As the database has it: it is compared, and not read.
_DUE_SINCE: Any = literal_column("outgoing_email.next_attempt_at").label("due_since")


def taking(
    now: datetime, leased: datetime, provider: str | None, *, doubt: bool, beside: bool = False
) -> dict[str, Any]:
    """The parameters of `TAKE`: a lease until `leased`, by whom, whether it is in doubt from now on, and beside a suspect."""
    return {"at": now, "leased": leased, "by": provider, "doubt": doubt, "beside": int(beside)}


def takes_what_it_finds(connection: Connection, gate: Gate | None) -> bool:
    """Whether all that a claim finds may be taken, by a database that returns what it changes."""
    return gate is not None and not gate.rules.domains and bool(connection.dialect.update_returning)


def in_order(found: Mapping[int, Parcel], taken: Iterable[tuple[int, int]]) -> list[Parcel]:
    """Those that are there, in the order in which they (id, token) were taken."""
    return [found[row_id] for row_id, _ in taken if row_id in found]


class TakingPlace(SqlPlace):
    """A place where what is found is taken at once: `rows` are those, with everything that is looked at."""

    def __init__(
        self, connection: Connection, now: datetime, *, unmarked: bool, taking: dict[str, Any]
    ) -> None:
        super().__init__(connection, now, unmarked=unmarked)
        self._taking = taking
        self.rows: list[Any] = []

    def _ask(self, query: Any, wanted: Wanted) -> list[Found]:
        rows: Sequence[Any] = self._connection.execute(query, self._taking | {"most": wanted.most}).all()
        rows = sorted(rows, key=_by_lease_or_urgency if wanted.lost else _by_urgency)
        self.rows += rows
        return [
            Found(id=row.id, token=row.token - 1, recipient=row.recipient, priority=row.priority)
            for row in rows
        ]

    def _query(self, wanted: Wanted) -> Any:
        these = self._those(wanted).with_only_columns(_row.id)
        if self._connection.dialect.name == "postgresql":
            # As an array: whatever the planner thinks of a LIMIT that it does not know, it goes by the primary key.
            chosen = _row.id == func.any(func.array(these.scalar_subquery()))
        else:
            chosen = _row.id.in_(these)
        return TAKE.where(chosen).returning(*DOCKET_COLUMNS, *LOOKED_AT, _DUE_SINCE)


def _by_urgency(row: Any) -> tuple[Any, ...]:
    return -row.priority, row.due_since, row.id


def _by_lease_or_urgency(row: Any) -> tuple[Any, ...]:
    # The old leases are gone with the change.
    return -row.priority, row.id
