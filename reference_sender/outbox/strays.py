"""Rows that no worker takes and no reconciler asks about: found, and parked as `unknown` with one sentence.

Two kinds. What somebody edited by hand into a state that this program never leaves: `sending` without a lease that ends,
`pending` without a next attempt that comes and waiting for nothing – not even for a paused campaign to go on –,
or for other mail without an end, `unknown` with a next look that never comes. And mail in doubt at a provider
that was taken out of the configuration: a doubt never goes elsewhere, so it would wait for ever. What became of any of
them nobody here can know. Where a text stands that is no time, as SQLite lets it, the sentence says so (`unreadable`).

`sending` is looked at with every pass, there is an index of leases. What is `pending` or `unknown` is gone through once in a while:
whoever edits by hand or takes a provider away can wait for minutes, and a hundred thousand waiting rows are some work.
Must not hold: rows whose worker was lost (`doubts`), or that cannot be read (`unreadable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, and_, exists, literal_column, or_, select, update

from reference_sender.life import State
from reference_sender.outbox.bulk import insert_all
from reference_sender.outbox.rows import AT, IDS, elsewhere, in_state
from reference_sender.outbox.schema import campaign, email_attempt, outgoing_email
from reference_sender.outbox.transactions import record_of
from reference_sender.outbox.unreadable import NoTime, no_times
from reference_sender.policy.routes import Mine

#: So often the rows that are `pending` are gone through, in seconds. No row gets here by what the program does, and
#: parking it ends no hurry: a person has to look next.
LOOK_S = 300.0
#: So many are parked in one transaction.
AT_ONCE = 1_000

_row = outgoing_email.c

#: No time of a row of ours is later: leases and waits are bounded. SQLite puts a text that is no time behind it,
#: PostgreSQL `infinity`.
NEVER = datetime(9000, 1, 1, tzinfo=UTC)


def _never_comes(column: Any) -> Any:
    # Written out, and every database reads it: a name would have to be told by whoever looks (`looks`).
    return column > literal_column(f"'{NEVER:%Y-%m-%d %H:%M:%S.%f}'", column.type)


def _is_no_end(column: Any) -> Any:
    # SQLite puts a text like `3 days` among the times that are still to come, and a number before all of them.
    return or_(_never_comes(column), NoTime(column))


# Who waits for a person has no next look.
_LOOKLESS = and_(in_state(State.UNKNOWN), _is_no_end(_row.next_attempt_at))
_LEASELESS = and_(in_state(State.SENDING), or_(_row.lease_until.is_(None), _is_no_end(_row.lease_until)))
# That is how a pause leaves the mails of a campaign; who resumes it gives them their times anew.
_IS_PAUSED = exists().where(campaign.c.name == _row.campaign, campaign.c.state == "paused")
_AIMLESS = and_(
    in_state(State.PENDING),
    or_(
        _is_no_end(_row.next_attempt_at),
        and_(
            _row.next_attempt_at.is_(None),
            _row.hold_until.is_(None),
            or_(_row.campaign.is_(None), ~_IS_PAUSED),
        ),
    ),
)
_ENDLESS = and_(in_state(State.PENDING), _row.next_attempt_at.is_(None), _is_no_end(_row.hold_until))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """One kind of them."""

    reason: str
    is_edited: bool
    """Nothing in the row can be believed then; a worker may even be sending it just now."""
    waits: bool = False
    """It is `pending`, or `unknown`: in nobody's hands."""
    time: str | None = None
    """The column whose value makes it one, if that is a time."""

    def values(self, now: datetime) -> dict[str, Any]:
        """The columns that parking sets, but for the token."""
        values: dict[str, Any] = {
            "state": State.UNKNOWN,
            "lease_until": None,
            "in_doubt": False,
            "next_attempt_at": now,
            # An edited row goes nowhere by itself, whatever a look-up says: a person made it what it is.
            "if_not_sent": State.DEAD if self.is_edited else State.PENDING,
            "last_error": self.reason,
            "updated_at": now,
        }
        # What it waited for is not believed either.
        return values | ({"doubted_at": now, "hold_until": None} if self.is_edited else {})


LEASELESS = Stray(
    reason="it was `sending` without a lease that ends, as no worker leaves it: the row was edited by hand",
    is_edited=True,
    time="lease_until",
)
AIMLESS = Stray(
    reason="it was `pending` without a next attempt that comes and waited for nothing: the row was edited by hand",
    is_edited=True,
    waits=True,
    time="next_attempt_at",
)
ENDLESS = Stray(
    reason="it was `pending` and waited for other mail, without an end of that: the row was edited by hand",
    is_edited=True,
    waits=True,
    time="hold_until",
)
LOOKLESS = Stray(
    reason="it was `unknown` without a next look that comes: the row was edited by hand",
    is_edited=True,
    waits=True,
    time="next_attempt_at",
)
_GONE = "it is in doubt at a provider that is not configured any more, and only there can it be looked up"
GONE_SENDING = Stray(reason=_GONE, is_edited=False)
GONE_PENDING = Stray(reason=_GONE, is_edited=False, waits=True)

STRAYS: tuple[Stray, ...] = (LEASELESS, GONE_SENDING, AIMLESS, ENDLESS, LOOKLESS, GONE_PENDING)


class Rarely:
    """Whether it is time to go through what is `pending`."""

    def __init__(self) -> None:
        self._looked_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Whether nobody has looked for a while."""
        last = self._looked_at
        return last is None or not timedelta() <= now - last < timedelta(seconds=LOOK_S)

    def found_nothing(self, now: datetime) -> None:
        """Somebody has looked, and there was nothing more to do."""
        self._looked_at = now


def to_look_for(mine: Mine | None, *, pending: bool) -> tuple[Stray, ...]:
    """The kinds that a pass looks for: the first provider's, or one that knows of no others."""
    if mine is None:
        return (LEASELESS, AIMLESS, ENDLESS, LOOKLESS) if pending else (LEASELESS,)
    return tuple(stray for stray in STRAYS if pending or not stray.waits) if mine.first else ()


def are_there(stray: Stray, mine: Mine | None) -> Any:
    """The condition that there are any of a kind."""
    return exists().where(_strays(stray, mine))


def _strays(stray: Stray, mine: Mine | None) -> Any:
    if stray is LEASELESS:
        return _LEASELESS
    if stray is AIMLESS:
        return _AIMLESS
    if stray is ENDLESS:
        return _ENDLESS
    if stray is LOOKLESS:
        return _LOOKLESS
    assert mine is not None, "who is gone can be told only by those who are there"
    providers = mine.providers
    gone = and_(_row.doubted_at.is_not(None), elsewhere(providers))
    if stray is GONE_PENDING:
        return and_(in_state(State.PENDING), gone)
    # Those that had reached their point of no return are parked as lost.
    return and_(in_state(State.SENDING), _row.lease_until < AT, _row.in_doubt.is_(False), gone)


@lru_cache(maxsize=64)
def _these(stray: Stray, mine: Mine | None) -> Any:
    # Nothing of them is read that somebody may have spoiled.
    return (
        select(_row.id, _row.token)
        .where(_strays(stray, mine))
        .limit(AT_ONCE)
        .with_for_update(skip_locked=True)
    )


def park(connection: Connection, strays: Sequence[Stray], mine: Mine | None, now: datetime) -> list[int]:
    """Park rows of these kinds; their ids. Whoever still believes to hold one is fenced out."""
    parked: list[int] = []
    for stray in strays:
        rows = connection.execute(_these(stray, mine), {"at": now}).all()
        if not rows:
            continue
        ids = [row.id for row in rows]
        spoiled = {} if stray.time is None else no_times(connection, _row[stray.time], ids)
        told = {row_id: replace(stray, reason=sentence) for row_id, sentence in spoiled.items()}
        connection.execute(
            update(outgoing_email).where(_row.id.in_(IDS)).values(**stray.values(now), token=_row.token + 1),
            {"ids": ids},
        )
        for row_id, kind in told.items():
            connection.execute(update(outgoing_email).where(_row.id == row_id).values(last_error=kind.reason))
        notes = [note_of(told.get(row.id, stray), row.id, row.token, now) for row in rows]
        insert_all(connection, email_attempt, notes)
        parked += ids
    return parked


def note_of(stray: Stray, row_id: int, token: int, now: datetime) -> dict[str, Any]:
    """What goes on record about one."""
    return record_of(row_id, token, ended_at=now, decision=State.UNKNOWN, reason=stray.reason)
