"""The outbox in memory: the sender's store without SQL, with transactions that are real.

What a transaction wrote is there all at once at its commit, or never: a process that is killed before has written
nothing. Both sides of every commit are crash points, by the same names as on SQLite. It is an instrument for looking
at the sender, and forgets everything: not for production. What a decision writes into a row is the sender's own code,
inherited; only the questions are answered here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, NoReturn, Self

from sqlalchemy import DefaultClause

from reference_sender.life import Docket, Parcel, State
from reference_sender.message import Mail, Mailbox, render, single
from reference_sender.outbox.enqueueing import manner_from, rows_and_contents, suppress_rows
from reference_sender.outbox.migrations import BroughtUp
from reference_sender.outbox.passage import pass_through
from reference_sender.outbox.rows import DOCKET_COLUMNS
from reference_sender.outbox.schema import email_attempt, outgoing_email
from reference_sender.outbox.store import Enqueued, Standing, Store, Tally
from reference_sender.outbox.strays import Rarely, Stray, note_of, to_look_for
from reference_sender.outbox.transactions import record_of
from reference_sender.policy.bucket import Bucket
from reference_sender.policy.classes import MailClass
from reference_sender.policy.decision import Decision, Doubt, Ended
from reference_sender.policy.gate import NOTHING_KNOWN, Gate, Shared
from reference_sender.policy.routes import Mine
from reference_sender.policy.suppression import Kind, Suppression, canonical
from reference_sender.policy.suspects import Suspects, left_lying
from scenarios.simulation.byteless import waiting
from scenarios.simulation.byteless.gated import ShelfPlace, by_urgency, losses
from scenarios.simulation.byteless.loop import refuse
from scenarios.simulation.byteless.strays import kind_of
from scenarios.simulation.loop import OWNER
from scenarios.simulation.processes import Process

Row = Mapping[str, Any]
"""A row by the names of its columns; never changed, only replaced, so that a copy of the table is a copy of it."""

SPEAKS_SQL = "a part of it asks the outbox in SQL, which there is not at the model level"

_BLANK: Row = {
    column.name: column.server_default.arg if isinstance(column.server_default, DefaultClause) else None
    for column in outgoing_email.columns
}
_BLANK_ATTEMPT: Row = {column.name: None for column in email_attempt.columns}
#: The columns that a docket is read from; what the store finds out beside them is not in the row.
_FACTS = tuple(column.name for column in DOCKET_COLUMNS if column.name != "key")


class Shelf:
    """What is committed. It stands where the SQL store has its engine, and outlives whoever writes to it."""

    def __init__(self) -> None:
        self.emails: dict[int, Row] = {}
        self.attempts: list[Row] = []
        self.gates: Mapping[str, Shared] = {}
        """What all workers know of each provider; never changed, only replaced, and so are the buckets."""
        self.buckets: Mapping[str, Bucket] = {}
        self.business: list[tuple[str, str]] = []
        """The application's own table, as (ref, recipient)."""
        self.suppressed: dict[tuple[str, Kind], Suppression] = {}
        """By address and kind; never changed, only replaced."""
        self.campaigns: dict[str, str] = {}
        """Name → state; never changed, only replaced."""
        self.commits = 0
        """Transactions that wrote something: while this stays, nothing has changed."""
        self.lock = threading.RLock()
        """Held from the begin of a transaction that may write to its end, like the one of BEGIN IMMEDIATE."""

    def copy(self) -> Shelf:
        """Return a shelf with the same on it, that goes its own way from here."""
        other = Shelf()
        other.emails = dict(self.emails)
        other.attempts = list(self.attempts)
        other.gates, other.buckets = self.gates, self.buckets
        other.business = list(self.business)
        other.suppressed = self.suppressed
        other.campaigns = self.campaigns
        return other

    def dispose(self) -> None:
        """There is no connection to be closed."""

    def begin(self) -> NoReturn:
        """Refuse what only a database can do."""
        refuse(SPEAKS_SQL)

    connect = begin


class Transaction:
    """All or nothing. Use it as a context manager; an exception rolls it back."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._before = shelf.emails
        self.emails = shelf.emails
        self.gates, self.buckets = shelf.gates, shelf.buckets
        self.attempts: list[Row] = []
        self.business: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        self._shelf.lock.acquire()
        # Only now: whoever held the lock may have changed it.
        self._before = self.emails = self._shelf.emails
        self.gates, self.buckets = self._shelf.gates, self._shelf.buckets
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self._shelf.lock.release()

    def _commit(self) -> None:
        owner = OWNER.get()
        if isinstance(owner, Process):
            owner.passes("commit", "lost")
        shelf = self._shelf
        known = self.gates is not shelf.gates or self.buckets is not shelf.buckets
        if self.emails is not self._before or self.attempts or self.business or known:
            shelf.emails = self.emails
            shelf.gates, shelf.buckets = self.gates, self.buckets
            shelf.attempts += self.attempts
            shelf.business += self.business
            shelf.commits += 1
        if isinstance(owner, Process):
            owner.passes("commit", "unreported")

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse `execute` and whatever else only a connection to a database has."""
        refuse(SPEAKS_SQL)

    def suppressed_at(self, mail_class: MailClass, now: datetime) -> list[str]:
        """Return the addresses that a mail of this class must not go to."""
        return [each.address for each in self._shelf.suppressed.values() if each.covers(mail_class, now)]

    def let_go(self, now: datetime, ordering_key: str | None = None) -> None:
        """Let those through who waited and may go (of an ordering key: the next one)."""
        for row_id, row in list(self.emails.items()):
            if ordering_key is not None and row["ordering_key"] != ordering_key:
                continue
            if waiting.may_go(row, self.emails, now):
                self.write(row_id, {"next_attempt_at": max(now, row["queued_at"]), "updated_at": now})
                if ordering_key is not None:
                    return

    @property
    def committed(self) -> Sequence[Row]:
        """The attempts that were on record before."""
        return self._shelf.attempts

    def write(self, row_id: int, values: Mapping[str, Any]) -> None:
        """Replace some columns of a row (a new row: all that are not null)."""
        if self.emails is self._before:
            self.emails = dict(self._before)
        self.emails[row_id] = {**self.emails.get(row_id, _BLANK), **values}


def put(
    transaction: Transaction,
    mail: Mail,
    *,
    key: str,
    now: datetime,
    **more: Any,
) -> Enqueued:
    """Do what the sender's `enqueue` does, in this transaction of the application; `more` is as there."""
    manner = manner_from(more)
    rows, _ = rows_and_contents(mail, key=key, now=now, manner=manner, **more)
    for row in rows:
        # Here attachments stay in the mail: there is nothing to be spared.
        row |= {"raw": _whole(mail, row, row["recipient"], now), "attachments": None}
    suppressed = suppress_rows(rows, transaction.suppressed_at(manner.mail_class, now))
    waiting.hold(rows, manner, transaction.emails)
    known = {row["idempotency_key"]: row for row in transaction.emails.values()}
    created = False
    for row in rows:
        if row["idempotency_key"] not in known:
            number = len(transaction.emails) + 1
            transaction.write(number, {**row, "id": number})
            known[row["idempotency_key"]] = transaction.emails[number]
            created = True
    found = [known[row["idempotency_key"]] for row in rows]
    return Enqueued(
        created=created,
        ids=tuple(row["id"] for row in found),
        idempotency_keys=tuple(row["idempotency_key"] for row in found),
        message_ids=tuple(row["message_id"] for row in found),
        suppressed=suppressed,
        differs=any(
            _whole(mail, old, row["recipient"], old["created_at"]) != old["raw"]
            for old, row in zip(found, rows, strict=True)
        ),
    )


def _whole(mail: Mail, row: Row, address: str, at: datetime) -> bytes:
    by_address = {Mailbox.parse(each, "recipient").address: each for each in mail.recipients}
    return render(single(mail, by_address[address]), row["message_id"], at)


class Outbox(Store):
    """The outbox as the worker and the reconciler use it, on a shelf."""

    engine: Any

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._in_vain = 0
        self._rarely = Rarely()

    # -- the tables: there is nothing to be made --------------------------------------------------------------

    def create(self, *, recreate: bool = False) -> BroughtUp:
        if recreate:
            self.engine.emails, self.engine.attempts = {}, []
        return BroughtUp()

    def check(self) -> None:
        """A shelf has every column there is."""

    # -- the worker -------------------------------------------------------------------------------------------

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
        suspects = suspects or Suspects()
        suspects.begin()
        # Like the original: whoever waits for mail only looks, most of the time.
        if self._in_vain > 1 and not self._is_worth_a_claim(now, gate, dedupes=dedupes):
            return []
        with self._write() as transaction:
            transaction.let_go(now)
            most = max(limit, 0)
            if gate is None:
                lost, due = _to_claim(transaction.emails, now, dedupes=dedupes)
                lost = sorted(lost, key=_by_lease)[:most]
                due = sorted(due, key=by_urgency)[: most - len(lost)]
                counted = [(row["id"], losses(row)) for row in (*lost, *due)]
                left = left_lying(counted, suspects)
                lost, due = ([row for row in some if row["id"] not in left] for some in (lost, due))
            else:
                room = most if bulk is None else max(bulk, 0)
                place = self._place(transaction, now, unmarked=not dedupes)
                found = pass_through(place, gate, room=most, bulk=room, now=now, suspects=suspects)
                lost, due = ([transaction.emails[each.id] for each in some] for some in found)
            taken = [*lost, *due]
            if not taken:
                self._in_vain += 1
                return []
            self._in_vain = 0
            for row in lost:
                self._record(
                    transaction,
                    row["id"],
                    row["token"],
                    ended_at=now,
                    decision=State.SENDING,
                    reason="lease ran out",
                )
            for row in taken:
                left_in_doubt = row["state"] is State.SENDING and row["in_doubt"]
                transaction.write(
                    row["id"],
                    {
                        "state": State.SENDING,
                        "token": row["token"] + 1,
                        "attempts": row["attempts"] + 1,
                        "tries": row["tries"] + 1,
                        "lease_until": now + timedelta(seconds=lease_s),
                        "losses": _losses_from_now_on(row, beside=suspects.beside),
                        "doubted_at": now if left_in_doubt else row["doubted_at"],
                        "in_doubt": dedupes,
                        "first_attempt_at": row["first_attempt_at"] or now,
                        "provider": row["provider"] if gate is None else gate.rules.provider,
                        "updated_at": now,
                    },
                )
            claimed = [transaction.emails[row["id"]] for row in taken]
        shelf = self.engine
        ids = {row["id"] for row in claimed}
        return [
            Parcel(
                **_facts(row),
                bar=waiting.bar_of(
                    row, transaction.emails, shelf.suppressed.values(), shelf.campaigns, now, ids
                ),
                raw=row["raw"],
            )
            for row in claimed
        ]

    def _is_worth_a_claim(self, now: datetime, gate: Gate | None, *, dedupes: bool) -> bool:
        if any(waiting.may_go(row, self.engine.emails, now) for row in self.engine.emails.values()):
            return True
        if not any(_to_claim(self.engine.emails, now, dedupes=dedupes)):
            if gate is not None:
                gate.saw_nothing()
            return False
        return gate is None or gate.lets_in(self.gates().get(gate.rules.provider, NOTHING_KNOWN), now)

    def suppress(
        self,
        address: str,
        *,
        reason: str,
        source: str,
        now: datetime,
        kind: Kind = Kind.ALL,
        until: datetime | None = None,
    ) -> None:
        entry = Suppression(
            address=canonical(address), kind=kind, reason=reason, source=source, since=now, until=until
        )
        with self.engine.lock:
            self.engine.suppressed = {**self.engine.suppressed, (entry.address, kind): entry}
            self.engine.commits += 1

    @staticmethod
    def _let_next_go(connection: Any, ordering_key: str, now: datetime) -> None:
        connection.let_go(now, ordering_key)

    @staticmethod
    def _hold_lane(connection: Any, ordering_key: str, row_id: int, now: datetime) -> None:
        """Nobody else writes while a transaction is open."""

    # -- the reconciler ---------------------------------------------------------------------------------------

    def has_doubts(self, *, now: datetime, dedupes: bool, mine: Mine | None = None) -> bool:
        kinds = to_look_for(mine, pending=(rarely := self._rarely.is_due(now)))
        emails = self.engine.emails
        has_some = (
            any(_parks(mine, row["provider"], dedupes=dedupes) for row in _to_park(emails, now))
            or any(kind_of(row, kinds, mine, now) is not None for row in emails.values())
            or bool(self._doubted(now, mine))
        )
        if rarely and kinds and not has_some:
            self._rarely.found_nothing(now)
        return has_some

    def park_lost(self, *, now: datetime, dedupes: bool, mine: Mine | None = None) -> list[int]:
        kinds = to_look_for(mine, pending=(rarely := self._rarely.is_due(now)))

        def lost(emails: Mapping[int, Row]) -> list[Row]:
            return [row for row in _to_park(emails, now) if _parks(mine, row["provider"], dedupes=dedupes)]

        def astray(emails: Mapping[int, Row]) -> list[tuple[Row, Stray]]:
            told = ((row, kind_of(row, kinds, mine, now)) for row in emails.values())
            return [(row, kind) for row, kind in told if kind is not None]

        reason = "the worker was lost after the point of no return"
        found = astray(self.engine.emails)
        if rarely and kinds and not found:
            self._rarely.found_nothing(now)
        if not found and not lost(self.engine.emails):
            return []
        with self._write() as transaction:
            rows = lost(transaction.emails)
            for row in rows:
                transaction.write(
                    row["id"],
                    {
                        "state": State.UNKNOWN,
                        "token": row["token"] + 1,
                        "losses": losses(row),
                        "lease_until": None,
                        "in_doubt": False,
                        "doubted_at": now,
                        "next_attempt_at": now,
                        "if_not_sent": State.PENDING,
                        "last_error": reason,
                        "updated_at": now,
                    },
                )
                self._record(
                    transaction, row["id"], row["token"], ended_at=now, decision=State.UNKNOWN, reason=reason
                )
            strays = astray(transaction.emails)
            for row, kind in strays:
                transaction.write(row["id"], {**kind.values(now), "token": row["token"] + 1})
                transaction.attempts.append({**_BLANK_ATTEMPT, **note_of(kind, row["id"], row["token"], now)})
        return [row["id"] for row in (*rows, *(row for row, _ in strays))]

    def doubtful(self, *, now: datetime, limit: int, mine: Mine | None = None) -> list[Docket]:
        rows = self._doubted(now, mine)
        rows.sort(key=lambda row: (row["next_attempt_at"], row["id"]))
        return [Docket(**_facts(row)) for row in rows[:limit]]

    def _doubted(self, now: datetime, mine: Mine | None) -> list[Row]:
        return [
            row
            for row in self.engine.emails.values()
            if row["state"] is State.UNKNOWN
            and row["next_attempt_at"] is not None
            and row["next_attempt_at"] <= now
            and (mine is None or mine.is_mine(row["provider"]))
        ]

    def late_acceptance(self, docket: Docket) -> str | None:
        for each in self.engine.attempts:
            if each["email_id"] == docket.id and each["late"] and each["decision"] == State.ACCEPTED.value:
                provider_id: str | None = each["provider_id"]
                return provider_id
        return None

    def told_of(self, docket: Docket) -> str | None:
        """Nobody tells anything on a shelf."""
        return None

    # -- people -----------------------------------------------------------------------------------------------

    def find(
        self, *, key: str | None = None, ids: Sequence[int] = (), states: Sequence[State] = ()
    ) -> list[Docket]:
        return [
            Docket(**_facts(row))
            for row in self.engine.emails.values()
            if (key is None or row["dedupe_key"] == key)
            and (not ids or row["id"] in ids)
            and (not states or row["state"] in states)
        ]

    def standings(self) -> list[Standing]:
        return [
            Standing(
                id=row["id"],
                key=row["dedupe_key"],
                recipient=row["recipient"],
                state=row["state"],
                attempts=row["attempts"],
                provider_id=row["provider_id"],
                message_id=row["message_id"],
                may_repeat=row["may_repeat"],
                last_error=row["last_error"],
            )
            for row in self.engine.emails.values()
        ]

    def tallies(self) -> list[Tally]:
        by_state: dict[State, list[datetime]] = {}
        for row in self.engine.emails.values():
            by_state.setdefault(row["state"], []).append(row["created_at"])
        return [
            Tally(state=state, count=len(made), oldest=min(made)) for state, made in sorted(by_state.items())
        ]

    # -- how it is done ---------------------------------------------------------------------------------------
    # What the SQL store does with a connection is done with a transaction here.

    def _write(self) -> Any:
        return Transaction(self.engine)

    @staticmethod
    def _place(connection: Any, now: datetime, *, unmarked: bool = False) -> ShelfPlace:
        return ShelfPlace(connection, now, unmarked=unmarked)

    def gates(self) -> dict[str, Shared]:
        return dict(self.engine.gates)

    def _read(self) -> NoReturn:
        refuse(SPEAKS_SQL)

    @staticmethod
    def _fenced(connection: Any, docket: Docket, values: dict[str, Any]) -> bool:
        row = connection.emails.get(docket.id)
        if row is None or row["token"] != docket.token or row["state"] is not docket.state:
            return False
        connection.write(docket.id, values)
        return True

    @staticmethod
    def _hear_late(connection: Any, docket: Docket, decision: Decision, now: datetime) -> None:
        row = connection.emails.get(docket.id)
        if row is None or row["state"] not in (State.PENDING, State.SENDING, State.UNKNOWN):
            return
        news: dict[str, Any] = {}
        if row["state"] is State.UNKNOWN:
            news["next_attempt_at"] = now
        if row["state"] is State.PENDING and decision.state is State.ACCEPTED:
            news |= {"state": State.UNKNOWN, "next_attempt_at": now}
            news["last_error"] = "a worker that had lost it was told yes"
        if decision.state is State.ACCEPTED or decision.doubt is Doubt.NEW:
            news["doubted_at"] = now
        connection.write(docket.id, news)

    def _write_held(
        self, connection: Any, group: Sequence[Ended], now: datetime, *, looks: bool
    ) -> set[tuple[Any, ...]]:
        # In the long way, row by row: there is no statement to be saved.
        return set()

    @staticmethod
    def _is_on_record(connection: Any, ended: Ended) -> bool:
        return any(
            each["email_id"] == ended.docket.id
            and each["token"] == ended.docket.token
            and not each["late"]
            and each["decision"] == ended.decision.state.value
            and each["reason"] == ended.decision.reason
            for each in (*connection.committed, *connection.attempts)
        )

    @staticmethod
    def _record(connection: Any, email_id: int, token: int, **more: Any) -> None:
        connection.attempts.append({**_BLANK_ATTEMPT, **record_of(email_id, token, **more)})


def _to_claim(emails: Mapping[int, Row], now: datetime, *, dedupes: bool) -> tuple[list[Row], list[Row]]:
    """Return rows whose lease ran out and that may be repeated, and rows that are due."""
    lost, due = [], []
    for row in emails.values():
        state = row["state"]
        if state is State.PENDING:
            if row["next_attempt_at"] is not None and row["next_attempt_at"] <= now:
                due.append(row)
        elif state is State.SENDING and (dedupes or not row["in_doubt"]) and _ran_out(row, now):
            lost.append(row)
    return lost, due


def _to_park(emails: Mapping[int, Row], now: datetime) -> list[Row]:
    return [
        row
        for row in emails.values()
        if row["state"] is State.SENDING and row["in_doubt"] and _ran_out(row, now)
    ]


def _parks(mine: Mine | None, provider: str | None, *, dedupes: bool) -> bool:
    if mine is not None and mine.first and mine.is_nobodys(provider):
        return True
    return not dedupes and (mine is None or mine.is_mine(provider))


def _ran_out(row: Row, now: datetime) -> bool:
    until: datetime | None = row["lease_until"]
    return until is not None and until < now


def _losses_from_now_on(row: Mapping[str, Any], *, beside: bool) -> int | None:
    counted = losses(row) if row["state"] is State.SENDING else row["losses"]
    return (counted or 0) - 1 if beside else counted


def _by_lease(row: Row) -> tuple[Any, ...]:
    return row["lease_until"], row["id"]


def _facts(row: Row) -> dict[str, Any]:
    facts = {name: row[name] for name in _FACTS}
    facts["key"] = row["dedupe_key"]
    return facts
