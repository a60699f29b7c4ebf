"""How rows of `outgoing_email` are chosen and read: the words that the queries of the outbox have in common.

Must not hold: whole queries, moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import bindparam, literal, literal_column, select

from reference_sender.life import Bar, Parcel, State
from reference_sender.outbox.columns import StateName
from reference_sender.outbox.schema import outgoing_email

_row = outgoing_email.c

DOCKET_COLUMNS = (
    _row.id,
    _row.token,
    _row.state,
    _row.dedupe_key.label("key"),
    _row.idempotency_key,
    _row.message_id,
    _row.sender,
    _row.recipient,
    _row.attempts,
    _row.tries,
    _row.queued_at,
    _row.first_attempt_at,
    _row.lease_until,
    _row.expires_at,
    _row.doubted_at,
    _row.if_not_sent,
    _row.provider_id,
    _row.last_error,
    _row.last_code,
    _row.priority,
    _row.provider,
    _row.mail_class,
    _row.traceparent,
    _row.ordering_key,
    _row.losses,
)

_NAMES = tuple(column.key for column in DOCKET_COLUMNS)
# The constructor of a frozen class of so many fields takes five times as long as setting them one by one, and for every
# mail that is a tenth of what its claim costs.
_SETTERS = tuple(getattr(Parcel, name).__set__ for name in _NAMES)
_SET_BAR, _SET_RAW = (getattr(Parcel, name).__set__ for name in ("bar", "raw"))

AT = bindparam("at", type_=_row.updated_at.type)
"""The moment of the call."""
IDS: Any = bindparam("ids", expanding=True)


def in_state(state: State) -> Any:
    """The condition that a row is in this state."""
    # Written out, not as a parameter: the planner uses a partial index only if it can see the condition.
    return _row.state == spelled(state)


def spelled(state: State) -> Any:
    """A state, written out."""
    return literal_column(f"'{state.value}'", StateName())


def spelled_all(states: Iterable[State]) -> list[Any]:
    """States for `IN`, written out: a list of values would be put into the statement anew each time it is asked."""
    return [spelled(state) for state in states]


def elsewhere(providers: Collection[str]) -> Any:
    """The condition that a row was last at a provider that is none of these."""
    # One parameter each, not a list of values, for the same reason.
    return _row.provider.not_in([literal(each, _row.provider.type) for each in providers])


def rows_in(state: State, *conditions: Any, order: Sequence[Any]) -> Any:
    """A query for the ids, tokens and losses of up to `:most` rows, locked; it leaves out what somebody else has locked."""
    # SKIP LOCKED: a second claimer takes other rows instead of waiting for ours. SQLite has no row locks and needs
    # none, BEGIN IMMEDIATE has locked the whole file; there the clause is left out by the compiler.
    return (
        select(_row.id, _row.token, _row.losses)
        .where(in_state(state), *conditions)
        .order_by(*order)
        .limit(bindparam("most"))
        .with_for_update(skip_locked=True)
    )


def facts_of(row: Any) -> dict[str, Any]:
    """The columns of a docket, by its names."""
    # They come first in every query that asks for them; `raw` may follow. By name it would take ten times as long.
    return dict(zip(_NAMES, row, strict=False))


def parcel_of(row: Any, *, bar: Bar | None, raw: bytes) -> Parcel:
    """A claimed row as the worker wants it. The columns of a docket come first in it, as in `facts_of`."""
    parcel = object.__new__(Parcel)
    for set_field, value in zip(_SETTERS, row, strict=False):
        set_field(parcel, value)
    _SET_BAR(parcel, bar)
    _SET_RAW(parcel, raw)
    return parcel
