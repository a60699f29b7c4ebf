"""Mail that waits for other mail: for one that it depends on, or for its turn under an ordering key.

A row that waits is `pending` without a next attempt, and no claim sees it, so a thousand of them cost the others
nothing. It is let through when what it waits for has come to an end – whichever, `bars` looks at that when it is
claimed – or when it has waited until `hold_until`. Claims do this once a second; who settles a mail with an ordering
key lets the next one through at once.

    the other mail is              a mail that depends on it        the next of the same ordering key
    accepted                       goes                             goes
    failed, expired, suppressed    expires, unsent                  goes: the order is kept by those that are sent
    dead                           waits: a person may requeue it   goes
    pending, sending               waits                            waits
    unknown                        waits: it may be accepted        waits: it may still be sent, by a person or a look-up
    not enqueued (yet)             waits                            –

Nobody waits for ever: at `hold_until` (its own expiry, or two days after the enqueue) it expires, unsent.
Must not hold: what becomes of a row that is let through.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, exists, literal_column, or_, select, update

from reference_sender.life import State
from reference_sender.outbox.engine import insert_or_update
from reference_sender.outbox.rows import AT, IDS, in_state, spelled, spelled_all
from reference_sender.outbox.schema import ordering_lane, outgoing_email
from reference_sender.policy.bars import AFTER_DEPENDENCY

#: The longest wait for another mail, in seconds, of a mail that has no end of its own. Whoever enqueues one that must wait
#: longer, or not as long, says when it expires: that is a fact of the mail, not of the program.
HOLD_S = 2 * 86_400.0
#: So often is looked who may go, in seconds. Who settles an ordered mail does not wait for it.
LOOK_S = 1.0
#: So many are let through at a time.
_AT_ONCE = 1_000

UNFINISHED = (State.PENDING, State.SENDING, State.UNKNOWN)

_row = outgoing_email.c
_other = outgoing_email.alias("other")

_SETTLED = [state for state in State if state in AFTER_DEPENDENCY]


def _before_it(*behind: Any) -> Any:
    """Somebody of its ordering key is before it: an older one, or one behind it of which all of this is true."""
    return exists().where(
        _other.c.ordering_key == _row.ordering_key,
        _other.c.id != _row.id,
        or_(and_(_other.c.id < _row.id, _other.c.state.in_(spelled_all(UNFINISHED))), and_(*behind)),
    )


# Also behind it, where a person has put an older one back.
_UNDER_WAY = _other.c.state == spelled(State.SENDING)
_BEFORE_IT = _before_it(_UNDER_WAY)
#: The same for rows that one claim has just taken together, `ids`: of those the oldest goes, or each would wait for all.
BEFORE_IT_IN_CLAIM = _before_it(_UNDER_WAY, _other.c.id.not_in(IDS))
_IT_DEPENDS_ON = _other.c.dedupe_key == _row.depends_on
_MAY_GO = or_(
    _row.hold_until <= AT,
    and_(
        or_(
            _row.depends_on.is_(None),
            and_(
                exists().where(_IT_DEPENDS_ON),
                ~exists().where(_IT_DEPENDS_ON, _other.c.state.not_in(spelled_all(_SETTLED))),
            ),
        ),
        or_(_row.ordering_key.is_(None), ~_BEFORE_IT),
    ),
)
_WAITS = and_(in_state(State.PENDING), _row.hold_until.is_not(None), _row.next_attempt_at.is_(None))

#: Whether anybody may go; locks nothing.
MAY_SOMEBODY_GO = exists().where(_WAITS, _MAY_GO)
# By a sum, or SQLite goes through the whole table in the order of its numbers rather than sort the few that wait.
_THOSE_WHO_MAY = (
    select(_row.id)
    .where(_WAITS, _MAY_GO)
    .order_by(_row.id + literal_column("0"))
    .limit(_AT_ONCE)
    .with_for_update(skip_locked=True)
)
_THE_NEXT = _THOSE_WHO_MAY.where(_row.ordering_key == bindparam("lane")).limit(1)
_LET_GO = (
    update(outgoing_email)
    .where(_row.id.in_(IDS), _WAITS)
    # Not before its own time, which its age counts from, too.
    .values(next_attempt_at=case((_row.queued_at > AT, _row.queued_at), else_=AT), updated_at=AT)
    .execution_options(synchronize_session=False)
)
_LANE_HELD = (
    select(_row.id)
    .where(
        _row.ordering_key == bindparam("lane"),
        or_(_row.state.in_(spelled_all((State.PENDING, State.SENDING))), _row.id == bindparam("email")),
    )
    .order_by(_row.id)
    .with_for_update()
)
_LANE_BUSY = select(
    exists().where(_row.ordering_key == bindparam("lane"), _row.state.in_(spelled_all(UNFINISHED)))
)


class Turnstile:
    """Lets those through who may go, once in a while."""

    def __init__(self) -> None:
        self._looked_at: datetime | None = None

    def turn(self, connection: Connection, now: datetime) -> int:
        """Look, if it is time to; how many were let through."""
        last = self._looked_at
        if last is not None and timedelta() <= now - last < timedelta(seconds=LOOK_S):
            return 0
        self._looked_at = now
        return _let_go(connection, connection.execute(_THOSE_WHO_MAY, {"at": now}).scalars().all(), now)

    def forget(self) -> None:
        """What the last look let through was rolled back."""
        self._looked_at = None


def let_next_go(connection: Connection, ordering_key: str, now: datetime) -> int:
    """Let the next mail of an ordering key through, if nobody is before it; how many that was."""
    found = connection.execute(_THE_NEXT, {"at": now, "lane": ordering_key}).scalars().all()
    return _let_go(connection, found, now)


def _let_go(connection: Connection, ids: Sequence[Any], now: datetime) -> int:
    if not ids:
        return 0
    return connection.execute(_LET_GO, {"ids": list(ids), "at": now}).rowcount


def hold_until(now: datetime, expires_at: datetime | None) -> datetime:
    """Until when a mail waits for another one."""
    return now + timedelta(seconds=HOLD_S) if expires_at is None else expires_at


def enter_lane(connection: Connection, ordering_key: str, now: datetime) -> bool:
    """Take one's place under an ordering key until the end of the transaction; whether somebody is there already.

    Two that enqueue under one key wait for each other, so the numbers of rows are in the order of commits.
    """
    _lock_lane(connection, ordering_key, now)
    return bool(connection.execute(_LANE_BUSY, {"lane": ordering_key}).scalar())


def hold_lane(connection: Connection, ordering_key: str, row_id: int, now: datetime) -> None:
    """Keep what is under an ordering key as it is until the end of the transaction, to put a finished row back there.

    Who enqueues under it comes before or after, and so does whoever claims: either he has seen the row that is put
    back, or we wait for him, and who claims that row sees his.
    """
    _lock_lane(connection, ordering_key, now)
    connection.execute(_LANE_HELD, {"lane": ordering_key, "email": row_id}).all()


def _lock_lane(connection: Connection, ordering_key: str, now: datetime) -> None:
    connection.execute(
        insert_or_update(
            connection.dialect.name,
            {"ordering_key": ordering_key, "enqueued_at": now},
            table=ordering_lane,
            key=("ordering_key",),
            update=("enqueued_at",),
        )
    )


def has_come_about(connection: Connection, event_key: str) -> bool:
    """Whether a mail that others depend on is accepted, for all of its recipients."""
    found = connection.execute(select(_row.state).where(_row.dedupe_key == event_key)).scalars().all()
    return bool(found) and all(state is State.ACCEPTED for state in found)


def depends_in_a_circle(connection: Connection, event_key: str, depends_on: str) -> bool:
    """Whether a mail that depends on that one would wait for itself."""
    seen = {event_key}
    wanted: str | None = depends_on
    while wanted is not None and wanted not in seen:
        seen.add(wanted)
        wanted = connection.execute(
            select(_row.depends_on).where(_row.dedupe_key == wanted, _row.depends_on.is_not(None)).limit(1)
        ).scalar()
    return wanted == event_key
