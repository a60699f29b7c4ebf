"""Which rows are suspects, in SQL: lost with their worker so often that they go alone.

`outgoing_email.losses` counts it, until an attempt of the row comes to an end. Of a row that is found with its lease run
out the last loss is not counted yet.
Must not hold: what follows from it (`policy.suspects`).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, exists, func, literal_column, or_

from reference_sender.life import State
from reference_sender.outbox.rows import AT, in_state
from reference_sender.outbox.schema import outgoing_email
from reference_sender.policy.suspects import LOST_TOGETHER

_row = outgoing_email.c

_BEFORE: dict[bool, ColumnElement[Any]] = {
    lost: literal_column(str(LOST_TOGETHER - 1 if lost else LOST_TOGETHER)) for lost in (True, False)
}

#: One loss more.
ONE_MORE = func.coalesce(_row.losses, 0) + 1


def suspected(*, lost: bool) -> Any:
    """The condition that a row is a suspect: one that is lost, or one that is due."""
    return _row.losses >= _BEFORE[lost]


def unsuspected(*, lost: bool) -> Any:
    """The condition that it is none."""
    # Through a function, so that no planner takes this for a use of the index of the few.
    return func.coalesce(_row.losses, 0) < _BEFORE[lost]


def any_suspect(*unmarked: Any) -> Any:
    """Whether there is one that is due, or lost and, where that is a condition, unmarked."""
    return exists().where(
        suspected(lost=True),
        or_(
            and_(in_state(State.SENDING), _row.lease_until < AT, *unmarked),
            and_(in_state(State.PENDING), _row.next_attempt_at <= AT, suspected(lost=False)),
        ),
    )
