"""Campaigns as rows: created, moved from state to state, and written on page by page.

A page is one transaction: the mails of its members, the cursor behind it and what was counted. Whoever dies in the
middle of it has written nothing, and whoever comes too late with a page that somebody else wrote writes nothing, too.
Must not hold: where members come from, when the next page is due.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from reference_sender.life import Actor, State, may_move
from reference_sender.outbox.putting import put
from reference_sender.outbox.rows import IDS, in_state
from reference_sender.outbox.schema import campaign, outgoing_email
from reference_sender.outbox.suppression import suppressions_of
from reference_sender.outbox.transactions import Transactions
from reference_sender.policy.classes import MailClass

_row, _of = outgoing_email.c, campaign.c


class CampaignState(StrEnum):
    """Where a campaign stands."""

    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    DONE = "done"  # the whole audience has its mails in the outbox


#: to → from where. A move that is not here does not exist.
MOVES: Mapping[CampaignState, frozenset[CampaignState]] = {
    CampaignState.READY: frozenset(),
    CampaignState.RUNNING: frozenset({CampaignState.READY, CampaignState.PAUSED}),
    CampaignState.PAUSED: frozenset({CampaignState.RUNNING, CampaignState.DONE}),
    CampaignState.CANCELLED: frozenset(
        {CampaignState.READY, CampaignState.RUNNING, CampaignState.PAUSED, CampaignState.DONE}
    ),
    CampaignState.DONE: frozenset({CampaignState.RUNNING, CampaignState.PAUSED}),
}


class NoSuchCampaign(LookupError):
    """The text is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One row of `campaign`."""

    name: str
    state: CampaignState
    sender: str
    mail_class: MailClass
    template: str
    parameters: Mapping[str, Any]
    audience: Mapping[str, Any]
    page_rows: int
    gap_s: float
    begins_at: datetime
    ends_at: datetime | None
    cursor: Any
    next_at: datetime
    pages: int
    members: int
    enqueued: int
    known: int
    suppressed: int
    refused: int
    created_at: datetime
    updated_at: datetime

    @property
    def whole(self) -> bool:
        """Whether the audience was read to its end."""
        return self.cursor is not None and bool(self.cursor.get("last"))

    @property
    def behind(self) -> Any:
        """The audience's own cursor."""
        return None if self.cursor is None else self.cursor["at"]


def planned(
    name: str,
    *,
    sender: str,
    mail_class: MailClass,
    template: str,
    parameters: Mapping[str, Any],
    audience: Mapping[str, Any],
    page_rows: int,
    gap_s: float,
    now: datetime,
    ends_at: datetime | None = None,
) -> Campaign:
    """A campaign as it is first written down: ready, its first mail due `now`, nobody read yet."""
    return Campaign(
        name=name,
        state=CampaignState.READY,
        sender=sender,
        mail_class=mail_class,
        template=template,
        parameters=parameters,
        audience=audience,
        page_rows=page_rows,
        gap_s=gap_s,
        begins_at=now,
        ends_at=ends_at,
        cursor=None,
        next_at=now,
        pages=0,
        members=0,
        enqueued=0,
        known=0,
        suppressed=0,
        refused=0,
        created_at=now,
        updated_at=now,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A page as it is to be written."""

    rows: Sequence[dict[str, Any]]
    members: int
    refused: int
    cursor: Any
    last: bool
    next_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A campaign and what became of its mails."""

    campaign: Campaign
    mails: Mapping[State, int] = field(default_factory=dict)


_JSON = ("parameters", "audience", "cursor")
_KNOWN = select(_row.dedupe_key).where(_row.dedupe_key.in_(bindparam("keys", expanding=True)))
_PACE = (
    update(outgoing_email)
    .where(_row.id == bindparam("which"))
    .values(
        next_attempt_at=bindparam("due", type_=_row.next_attempt_at.type),
        # The age cap counts from its turn: a long pause must not be the end of it.
        queued_at=bindparam("due", type_=_row.queued_at.type),
    )
)


class Campaigns(Transactions):
    """What campaigns ask of the outbox."""

    def create_campaign(self, made: Campaign) -> bool:
        """Write it down. False: there is one of that name, and it stays as it is."""
        values = {each.name: getattr(made, each.name) for each in fields(made)}
        values |= {name: json.dumps(values[name], ensure_ascii=False) for name in _JSON}
        values |= {"cursor": None, "state": made.state.value, "mail_class": made.mail_class.value}
        with self._write() as connection:
            known = connection.execute(select(_of.name).where(_of.name == made.name)).scalar()
            if known is not None:
                return False
            connection.execute(insert(campaign), values)
        return True

    def campaign(self, name: str) -> Campaign:
        """The campaign of this name. Raises `NoSuchCampaign`."""
        with self._read() as connection:
            return _found(connection, name)

    def campaigns(self) -> list[Standing]:
        """Every campaign with what became of its mails, by name."""
        with self._read() as connection:
            rows = connection.execute(select(campaign).order_by(_of.name)).all()
            counted = connection.execute(
                select(_row.campaign, _row.state, func.count().label("mails"))
                .where(_row.campaign.is_not(None))
                .group_by(_row.campaign, _row.state)
            ).all()
        mails: dict[str, dict[State, int]] = {}
        for each in counted:
            mails.setdefault(each.campaign, {})[each.state] = each.mails
        return [Standing(campaign=_campaign(row), mails=mails.get(row.name, {})) for row in rows]

    def move_campaign(self, name: str, state: CampaignState, *, now: datetime) -> bool:
        """Move it to a state, with the mails that wait. False: from where it is there is no such move."""

        def act(connection: Connection) -> bool:
            moved = connection.execute(
                update(campaign)
                .where(_of.name == name, _of.state.in_([each.value for each in MOVES[state]]))
                .values(state=state.value, updated_at=now)
            ).rowcount
            found = _found(connection, name)
            if moved:
                self._follow(connection, found, now)
            return bool(moved)

        # Many rows at once, while workers claim and settle some of them: one of the two may have to begin again.
        return self._in_one(act)

    def write_page(self, seen: Campaign, page: Written, *, now: datetime) -> bool:
        """Put in the mails of a page and go on behind it. False: it was moved or written on by somebody else."""

        def act(connection: Connection) -> bool:
            # First of all, so that two with the same page wait for each other here, and one of them has lost.
            mine = connection.execute(
                update(campaign)
                .where(
                    _of.name == seen.name, _of.pages == seen.pages, _of.state == CampaignState.RUNNING.value
                )
                .values(
                    pages=seen.pages + 1,
                    cursor=json.dumps({"at": page.cursor, "last": page.last}),
                    next_at=page.next_at,
                    state=(CampaignState.DONE if page.last else CampaignState.RUNNING).value,
                    updated_at=now,
                )
            ).rowcount
            if not mine:
                return False
            rows = self._not_suppressed(connection, page.rows, seen.mail_class, now)
            created = self._put_page(connection, rows)
            connection.execute(
                update(campaign)
                .where(_of.name == seen.name)
                .values(
                    members=_of.members + page.members,
                    enqueued=_of.enqueued + created,
                    known=_of.known + len(rows) - created,
                    suppressed=_of.suppressed + len(page.rows) - len(rows),
                    refused=_of.refused + page.refused,
                )
            )
            return True

        return self._in_one(act)

    def waiting_of_campaign(self, name: str, *, now: datetime, most: int) -> int:
        """How many of its mails are due and have not left; counted no further than `most`."""
        due = (
            select(_row.id)
            .where(_row.campaign == name, in_state(State.PENDING), _row.next_attempt_at <= now)
            .limit(most)
        )
        with self._read() as connection:
            return connection.execute(select(func.count()).select_from(due.subquery())).scalar_one()

    def under_way_of_campaign(self, name: str) -> dict[State, int]:
        """How many of its mails no pause and no cancel reaches: in a worker's hands, or in doubt."""
        query = (
            select(_row.state, func.count().label("mails"))
            .where(_row.campaign == name, _row.state.in_((State.SENDING, State.UNKNOWN)))
            .group_by(_row.state)
        )
        with self._read() as connection:
            return {row.state: row.mails for row in connection.execute(query)}

    # -- how it is done -------------------------------------------------------------------------------------------

    @staticmethod
    def _not_suppressed(
        connection: Connection, rows: Sequence[dict[str, Any]], mail_class: MailClass, now: datetime
    ) -> list[dict[str, Any]]:
        entries = suppressions_of(connection, {row["recipient"].lower() for row in rows})
        barred = {
            address
            for address, found in entries.items()
            if any(each.covers(mail_class, now) for each in found)
        }
        return [row for row in rows if row["recipient"].lower() not in barred]

    @staticmethod
    def _put_page(connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
        # By member, not by mail: who stands there twice, or has another address by now, has been written to.
        asked = {"keys": [row["dedupe_key"] for row in rows]}
        known = set(connection.execute(_KNOWN, asked).scalars()) if rows else set()
        once: dict[str, dict[str, Any]] = {}
        for row in rows:
            if row["dedupe_key"] not in known:
                once.setdefault(row["dedupe_key"], row)
        return put(connection, list(once.values()))

    def _follow(self, connection: Connection, moved: Campaign, now: datetime) -> None:
        """Let the mails that wait do what their campaign does. Who may have been accepted is left to his claim."""
        waits = [
            _row.campaign == moved.name,
            in_state(State.PENDING),
            _row.doubted_at.is_(None),
            _row.hold_until.is_(None),
        ]
        match moved.state:
            case CampaignState.PAUSED:
                connection.execute(update(outgoing_email).where(*waits).values(next_attempt_at=None))
            case CampaignState.RUNNING | CampaignState.DONE:
                stopped = connection.execute(
                    select(_row.id).where(*waits, _row.next_attempt_at.is_(None)).order_by(_row.id)
                ).scalars()
                # At the pace of the campaign, from now on: what was missed is not caught up with in a hurry.
                paced = [
                    {"which": row_id, "due": now + timedelta(seconds=moved.gap_s * number)}
                    for number, row_id in enumerate(stopped)
                ]
                if paced:
                    connection.execute(_PACE, paced)
            case CampaignState.CANCELLED:
                self._end_mails(connection, waits, now)
            case _:
                pass

    def _end_mails(self, connection: Connection, waits: Sequence[Any], now: datetime) -> None:
        assert may_move(Actor.PERSON, State.PENDING, State.EXPIRED)
        reason = "its campaign was cancelled"
        rows = connection.execute(select(_row.id, _row.token).where(*waits).with_for_update()).all()
        for start in range(0, len(rows), 500):
            some = rows[start : start + 500]
            connection.execute(
                update(outgoing_email)
                .where(_row.id.in_(IDS))
                .values(
                    state=State.EXPIRED,
                    token=_row.token + 1,
                    next_attempt_at=None,
                    last_error=reason,
                    updated_at=now,
                ),
                {"ids": [row.id for row in some]},
            )
            for row in some:
                self._record(
                    connection,
                    row.id,
                    row.token,
                    ended_at=now,
                    decision=State.EXPIRED,
                    reason=f"{Actor.PERSON.value}: {reason}",
                )


def _found(connection: Connection, name: str) -> Campaign:
    row = connection.execute(select(campaign).where(_of.name == name)).one_or_none()
    if row is None:
        raise NoSuchCampaign(f"there is no campaign {name!r}; `campaign status` shows those there are")
    return _campaign(row)


def _campaign(row: Any) -> Campaign:
    facts = dict(row._mapping)
    for name in _JSON:
        facts[name] = None if facts[name] is None else json.loads(facts[name])
    facts |= {"state": CampaignState(facts["state"]), "mail_class": MailClass(facts["mail_class"])}
    return Campaign(**facts)
