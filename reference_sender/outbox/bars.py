"""What the data say against sending a row that was just claimed, in the transaction that claims it.

Most rows need one look at the suppression list, which rides on the query that reads them; only those with something
special about them are asked more.
Must not hold: what becomes of a barred row (`policy.bars`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, exists, or_, select

from reference_sender.life import Bar, Parcel, State
from reference_sender.outbox import attachments
from reference_sender.outbox.rows import IDS, parcel_of
from reference_sender.outbox.schema import campaign, outgoing_email
from reference_sender.outbox.suppression import is_suppressed
from reference_sender.outbox.waiting import BEFORE_IT_IN_CLAIM
from reference_sender.policy.bars import AFTER_DEPENDENCY, is_unfit
from reference_sender.sealing import is_sealed

_row = outgoing_email.c
_newer = outgoing_email.alias("newer")

#: What is read of a claimed row besides its docket. Needs `:at`.
LOOKED_AT = (
    _row.raw,
    _row.attachments,
    _row.slot,
    _row.depends_on,
    _row.campaign,
    _row.hold_until,
    is_suppressed().label("suppressed"),
    or_(
        _row.attachments.is_not(None),
        _row.slot.is_not(None),
        _row.depends_on.is_not(None),
        _row.campaign.is_not(None),
        _row.ordering_key.is_not(None),
    ).label("special"),
)
_SUPERSEDED = select(_row.id).where(
    _row.id.in_(IDS),
    exists().where(_newer.c.slot == _row.slot, _newer.c.id > _row.id, _newer.c.dedupe_key != _row.dedupe_key),
)
_OUT_OF_TURN = select(_row.id).where(_row.id.in_(IDS), BEFORE_IT_IN_CLAIM)
_DEPENDENCIES = select(_row.dedupe_key, _row.state).where(_row.dedupe_key.in_(IDS))
_CAMPAIGNS = select(campaign.c.name, campaign.c.state).where(campaign.c.name.in_(IDS))

CAMPAIGN_BARS = {"cancelled": Bar.CANCELLED, "paused": Bar.PAUSED}


def parcels_of(connection: Connection, rows: Iterable[Any], now: datetime) -> dict[int, Parcel]:
    """Claimed rows as the worker wants them, by their number: whole, and with what speaks against sending them."""
    rows = list(rows)
    special = [row for row in rows if row.special or row.suppressed]
    bars = _bars(connection, special, now) if special else {}
    whole, shut = attachments.whole(connection, [row for row in special if row.attachments is not None])
    found = {}
    for row in rows:
        row_id, raw = row.id, bytes(row.raw)
        # What is no number is told here, where the row can be parked, and not in a worker.
        _ = row.priority + 0
        bar = bars.get(row_id)
        if row.special and row.attachments is not None:
            raw = whole.get(row_id, raw)
            if bar is None and row_id not in whole:
                bar = Bar.SEALED if row_id in shut else Bar.INCOMPLETE
        if bar is None and is_sealed(raw):
            bar = Bar.SEALED
        if not raw:
            bar = Bar.WORDLESS
        if is_unfit(row.sender, row.recipient, row.idempotency_key):
            bar = Bar.UNFIT
        found[row_id] = parcel_of(row, bar=bar, raw=raw)
    return found


def _bars(connection: Connection, rows: Sequence[Any], now: datetime) -> dict[int, Bar]:
    """The reason that counts most for each barred row."""
    found: dict[int, Bar] = {}

    def bar(row_id: int, why: Bar) -> None:
        found.setdefault(row_id, why)

    for row in rows:
        if row.suppressed:
            bar(row.id, Bar.SUPPRESSED)
    if named := {row.campaign for row in rows if row.campaign is not None}:
        states = {each.name: each.state for each in connection.execute(_CAMPAIGNS, {"ids": list(named)})}
        for row in rows:
            if (why := CAMPAIGN_BARS.get(states.get(row.campaign, ""))) is not None:
                bar(row.id, why)
    if slots := [row.id for row in rows if row.slot is not None]:
        for row_id in connection.execute(_SUPERSEDED, {"ids": slots}).scalars():
            bar(row_id, Bar.SUPERSEDED)
    if needed := {row.depends_on for row in rows if row.depends_on is not None}:
        ends: dict[str, set[State]] = {}
        for each in connection.execute(_DEPENDENCIES, {"ids": list(needed)}):
            ends.setdefault(each.dedupe_key, set()).add(each.state)
        for row in rows:
            if row.depends_on is not None:
                why = bar_of_dependency(ends.get(row.depends_on, set()), row.hold_until, now)
                if why is not None:
                    bar(row.id, why)
    if ordered := {row.id: row for row in rows if row.ordering_key is not None}:
        for row_id in connection.execute(_OUT_OF_TURN, {"ids": list(ordered)}).scalars():
            bar(row_id, bar_of_waiting(ordered[row_id].hold_until, now))
    return found


def bar_of_dependency(states: set[State], until: datetime | None, now: datetime) -> Bar | None:
    """What the states of a mail say about one that depends on it."""
    if any(AFTER_DEPENDENCY.get(state) is Bar.ORPHANED for state in states):
        return Bar.ORPHANED
    if states == {State.ACCEPTED}:
        return None
    # Without a hold a person has put it back, and wants it to go.
    return None if until is None else bar_of_waiting(until, now)


def bar_of_waiting(until: datetime | None, now: datetime) -> Bar:
    """What becomes of one that still has to wait."""
    return Bar.OVERSLEPT if until is not None and until <= now else Bar.OUT_OF_TURN
