"""Every query of the outbox: put in, claim, mark, settle, look after the doubtful, requeue, count.

Plain synchronous SQLAlchemy Core; an asyncio caller goes through `asyncio.to_thread`. Each method is one
transaction, and each write of an attempt is fenced by the row's token.
Must not hold: decisions about what an answer means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import (
    Connection,
    Engine,
    Table,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    inspect,
    literal,
    literal_column,
    or_,
    select,
    update,
)

from reference_sender.clock import SystemClock
from reference_sender.life import Actor, Docket, Parcel, State, may_move
from reference_sender.message import (
    Mail,
    Mailbox,
    check_event_key,
    idempotency_key_for,
    message_id_for,
    render,
    single,
)
from reference_sender.outbox.engine import (
    READS_ONLY,
    StoreTrouble,
    as_it_is_now,
    check_version,
    insert_unless_there,
)
from reference_sender.outbox.migrations import BroughtUp, bring_up, check_version_of_tables, version_of
from reference_sender.outbox.schema import StateName, email_attempt, metadata, outgoing_email
from reference_sender.policy.decision import Decision, Doubt
from reference_sender.policy.evidence import Evidence
from reference_sender.templates import frozen

_row = outgoing_email.c

_DOCKET_COLUMNS = (
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
)

# The statements that a worker repeats all day are built once, not at every poll.


def _is(state: State) -> Any:
    # Written out, not as a parameter: the planner uses a partial index only if it can see the condition.
    return _row.state == literal_column(f"'{state.value}'", StateName())


def _rows_in(state: State, *conditions: Any, order: Sequence[Any]) -> Any:
    # SKIP LOCKED: a second claimer takes other rows instead of waiting for ours. SQLite has no row locks and needs
    # none, BEGIN IMMEDIATE has locked the whole file; there the clause is left out by the compiler.
    return (
        select(_row.id, _row.token)
        .where(_is(state), *conditions)
        .order_by(*order)
        .limit(bindparam("most"))
        .with_for_update(skip_locked=True)
    )


_at = bindparam("at", type_=_row.updated_at.type)
_ids: Any = bindparam("ids", expanding=True)

_LOST_TO_DEDUPE = _rows_in(State.SENDING, _row.lease_until < _at, order=(_row.lease_until, _row.id))
_LOST_UNMARKED = _rows_in(
    State.SENDING, _row.lease_until < _at, _row.in_doubt.is_(False), order=(_row.lease_until, _row.id)
)
_LOST_MARKED = (
    select(_row.id, _row.token)
    .where(_is(State.SENDING), _row.in_doubt.is_(True), _row.lease_until < _at)
    .with_for_update(skip_locked=True)
)
_DUE = _rows_in(
    State.PENDING, _row.next_attempt_at <= _at, order=(_row.priority.desc(), _row.next_attempt_at, _row.id)
)
# Whether there is anything of the kind, without a lock on it. One EXISTS for each, so that each has its index.
_IS_DUE = exists().where(_is(State.PENDING), _row.next_attempt_at <= _at)
_TO_CLAIM = {
    True: select(or_(_IS_DUE, exists().where(_is(State.SENDING), _row.lease_until < _at))),
    False: select(
        or_(_IS_DUE, exists().where(_is(State.SENDING), _row.lease_until < _at, _row.in_doubt.is_(False)))
    ),
}
_TO_PARK = select(exists().where(_is(State.SENDING), _row.in_doubt.is_(True), _row.lease_until < _at))
_TAKE = (
    update(outgoing_email)
    .where(_row.id.in_(_ids))
    .ordered_values(
        # A lost attempt that was in doubt stays in doubt for ever, also when this one ends well defined. It comes
        # first because MySQL works from left to right: behind it, state and in_doubt would be the new ones.
        (
            _row.doubted_at,
            case((and_(_row.state == State.SENDING, _row.in_doubt), _at), else_=_row.doubted_at),
        ),
        (_row.in_doubt, bindparam("doubt", type_=_row.in_doubt.type)),
        (_row.state, State.SENDING),
        (_row.token, _row.token + 1),
        (_row.attempts, _row.attempts + 1),
        (_row.tries, _row.tries + 1),
        (_row.lease_until, bindparam("leased", type_=_row.lease_until.type)),
        (_row.first_attempt_at, func.coalesce(_row.first_attempt_at, _at)),
        (_row.updated_at, _at),
    )
)
_TAKEN = select(*_DOCKET_COLUMNS, _row.raw).where(_row.id.in_(_ids))
# Where the row is still in the hands of this attempt; the columns to set come with the parameters.
_HELD = update(outgoing_email).where(
    _row.id == bindparam("held_id"),
    _row.token == bindparam("held_token"),
    _row.state == bindparam("held_state", type_=_row.state.type),
)
_RECORD = insert(email_attempt)
_LATE = (
    select(email_attempt.c.provider_id)
    .where(
        email_attempt.c.email_id == bindparam("email"),
        email_attempt.c.late.is_(True),
        email_attempt.c.decision == State.ACCEPTED.value,
    )
    .limit(1)
)
_DOUBTFUL = (
    select(*_DOCKET_COLUMNS)
    .where(_is(State.UNKNOWN), _row.next_attempt_at <= _at)
    .order_by(_row.next_attempt_at, _row.id)
    .limit(bindparam("most"))
)


class _Session(Protocol):
    """An ORM session, as far as we need it."""

    def connection(self) -> Connection: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What an enqueue left behind: the rows of this event, whether this call made them or an earlier one did."""

    created: bool
    ids: tuple[int, ...]
    idempotency_keys: tuple[str, ...]
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One row as the outside may see it."""

    id: int
    key: str
    recipient: str
    state: State
    attempts: int
    provider_id: str | None
    message_id: str
    may_repeat: bool
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many rows are in a state, and since when the oldest of them exists."""

    state: State
    count: int
    oldest: datetime


def enqueue(
    connection: Connection | _Session,
    mail: Mail,
    *,
    key: str,
    now: datetime | None = None,
    priority: int = 0,
    expires_at: datetime | None = None,
    template: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    key_for: Callable[[str, str], str] = idempotency_key_for,
) -> Enqueued:
    """Put the mail into the outbox, inside the caller's transaction: it is sent if and only if that commits.

    `key` names the business event (`order-1234-confirmation`). The same key again changes nothing and returns the
    same rows. `template` and `parameters` say what the mail was rendered from, for people. Takes a Connection or an ORM Session; sends one INSERT and one SELECT.
    """
    db = connection if isinstance(connection, Connection) else connection.connection()
    at = now if now is not None else SystemClock().now()
    rows = rows_of(
        mail,
        key=key,
        now=at,
        priority=priority,
        expires_at=expires_at,
        template=template,
        parameters=parameters,
        key_for=key_for,
    )
    backend = db.dialect.name
    inserted = db.execute(
        insert_unless_there(backend, rows), execution_options={"preserve_rowcount": True}
    ).rowcount
    # Read back by key: the database has decided who was first, not a look before the leap.
    keys = [row["idempotency_key"] for row in rows]
    found = {
        row.idempotency_key: row
        for row in db.execute(
            as_it_is_now(
                backend,
                select(_row.id, _row.idempotency_key, _row.message_id).where(_row.idempotency_key.in_(keys)),
            )
        )
    }
    return Enqueued(
        created=inserted > 0,
        ids=tuple(found[k].id for k in keys),
        idempotency_keys=tuple(keys),
        message_ids=tuple(found[k].message_id for k in keys),
    )


def rows_of(
    mail: Mail,
    *,
    key: str,
    now: datetime,
    priority: int = 0,
    expires_at: datetime | None = None,
    template: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    key_for: Callable[[str, str], str] = idempotency_key_for,
) -> list[dict[str, Any]]:
    """What an enqueue writes: one row of `outgoing_email` per recipient, without its number."""
    check_event_key(key)
    by_address = {Mailbox.parse(r, "recipient").address: r for r in mail.recipients}
    rows: list[dict[str, Any]] = []
    for address, recipient in by_address.items():
        idempotency_key = key_for(key, address)
        message_id = message_id_for(idempotency_key, mail.sender)
        rows.append(
            {
                "dedupe_key": key,
                "idempotency_key": idempotency_key,
                "message_id": message_id,
                "sender": Mailbox.parse(mail.sender, "sender").address,
                "recipient": address,
                "raw": render(single(mail, recipient), message_id, now),
                "template": template,
                "parameters": None if parameters is None else frozen(parameters),
                "priority": priority,
                "expires_at": expires_at,
                "created_at": now,
                "queued_at": now,
                "state": State.PENDING,
                "attempts": 0,
                "tries": 0,
                "next_attempt_at": now,
                "token": 0,
                "in_doubt": False,
                "may_repeat": False,
                "updated_at": now,
            }
        )
    return rows


class Store:
    """The outbox as the worker, the reconciler and the command line use it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._in_vain = 0
        """So many claims in a row came back empty-handed."""

    # -- the tables -------------------------------------------------------------------------------------------

    def create(self, *, recreate: bool = False) -> BroughtUp:
        """Create the tables or bring older ones up; with `recreate` drop them first, with every mail in them."""
        with self._write() as connection:
            check_version(connection)
            if recreate:
                metadata.drop_all(connection)
            return bring_up(connection)

    def check(self) -> None:
        """Raise StoreTrouble unless the tables are there, with every column that we use."""
        url = self.engine.url
        where = url.render_as_string(hide_password=True)
        file = str(url.database)
        if url.get_backend_name() == "sqlite" and not file.startswith("file:") and not Path(file).exists():
            # Looked at first, because opening it would leave an empty file behind.
            raise StoreTrouble(f"there is no database {where}; run `reference-sender init` first")
        with self._read() as connection:
            check_version(connection)
            found_version = version_of(connection)
            if found_version is not None:
                check_version_of_tables(found_version)
            database = inspect(connection)
            for name, table in metadata.tables.items():
                if not database.has_table(name):
                    raise StoreTrouble(
                        f"the table {name} is missing in {where}; run `reference-sender init` first"
                    )
                found = {str(column["name"]): column for column in database.get_columns(name)}
                _check_columns(table, found, where)

    # -- the worker -------------------------------------------------------------------------------------------

    def claim(self, *, now: datetime, limit: int, lease_s: float, dedupes: bool) -> list[Parcel]:
        """Take up to `limit` rows and commit `sending` for them, before the first byte of any leaves.

        Due rows, and rows whose lease ran out. Of the latter only those that may be repeated: the lost attempt did
        not reach its point of no return, or the provider dedupes. With `dedupes` the row is in doubt from the claim
        on, because no marker will follow; without, `mark` sets it at the point of no return.
        """
        if self._in_vain > 1:
            # Whoever waits for mail only looks, most of the time: one statement that locks nothing.
            with self._read() as connection:
                if not connection.execute(_TO_CLAIM[dedupes], {"at": now}).scalar():
                    return []
        with self._write() as connection:
            lost_rows = connection.execute(
                _LOST_TO_DEDUPE if dedupes else _LOST_UNMARKED, {"at": now, "most": max(limit, 0)}
            ).all()
            due_rows = connection.execute(_DUE, {"at": now, "most": max(limit - len(lost_rows), 0)}).all()
            rows = [*lost_rows, *due_rows]
            if not rows:
                self._in_vain += 1
                return []
            self._in_vain = 0
            for row in lost_rows:
                self._record(
                    connection,
                    row.id,
                    row.token,
                    ended_at=now,
                    decision=State.SENDING,
                    reason="lease ran out",
                )
            ids = [row.id for row in rows]
            connection.execute(
                _TAKE, {"ids": ids, "at": now, "leased": now + timedelta(seconds=lease_s), "doubt": dedupes}
            )
            claimed = connection.execute(_TAKEN, {"ids": ids}).all()
        by_id = {row.id: row for row in claimed}
        return [_parcel(by_id[i]) for i in ids]

    def mark(self, docket: Docket, *, now: datetime) -> bool:
        """Commit that this attempt passes its point of no return. False: the row is no longer ours, do not send."""
        with self._write() as connection:
            return self._fenced(connection, docket, {"in_doubt": True, "updated_at": now})

    def settle(
        self,
        docket: Docket,
        decision: Decision,
        *,
        now: datetime,
        evidence: Evidence | None = None,
        started_at: datetime | None = None,
    ) -> bool:
        """Write the end of an attempt. False: the lease was lost; the result is kept as a late attempt only."""
        assert may_move(Actor.WORKER, State.SENDING, decision.state), decision
        with self._write() as connection:
            held = self._fenced(connection, docket, _settlement(docket, decision, evidence, now))
            self._record(
                connection,
                docket.id,
                docket.token,
                ended_at=now,
                started_at=started_at,
                evidence=evidence,
                decision=decision.state,
                reason=decision.reason,
                provider_id=decision.provider_id,
                late=not held,
            )
            if not held:
                self._hear_late(connection, docket, decision, now)
        return held

    # -- the reconciler ---------------------------------------------------------------------------------------

    def park_lost(self, *, now: datetime, dedupes: bool) -> list[int]:
        """Turn rows whose lease ran out after the point of no return into `unknown`; their ids.

        Where the provider dedupes there is nothing to park: `claim` takes such rows up again.
        """
        if dedupes:
            return []
        with self._read() as connection:
            if not connection.execute(_TO_PARK, {"at": now}).scalar():
                return []
        with self._write() as connection:
            rows = connection.execute(_LOST_MARKED, {"at": now}).all()
            if rows:
                reason = "the worker was lost after the point of no return"
                connection.execute(
                    update(outgoing_email)
                    .where(_row.id.in_([row.id for row in rows]))
                    .values(
                        state=State.UNKNOWN,
                        token=_row.token + 1,
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

    def doubtful(self, *, now: datetime, limit: int) -> list[Docket]:
        """Unknown rows whose next look is due."""
        with self._read() as connection:
            rows = connection.execute(_DOUBTFUL, {"at": now, "most": limit}).all()
        return [Docket(**_facts(row)) for row in rows]

    def late_acceptance(self, docket: Docket) -> str | None:
        """The provider's id from an answer that came after the lease was lost: as good as a look-up."""
        with self._read() as connection:
            return connection.execute(_LATE, {"email": docket.id}).scalar()

    def resolve(self, docket: Docket, decision: Decision, *, now: datetime) -> bool:
        """Move an unknown row, if it is still as we saw it. False: somebody else was faster."""
        with self._write() as connection:
            return self._move(connection, docket, decision, now, Actor.RECONCILER, {})

    # -- people -----------------------------------------------------------------------------------------------

    def requeue(self, docket: Docket, decision: Decision, *, now: datetime) -> bool:
        """A person moves a row: back to pending with fresh caps, or to accepted. False: it moved meanwhile."""
        fresh: dict[str, Any] = {}
        if decision.state is State.PENDING:
            fresh = {
                "attempts": 0,
                "tries": 0,
                "queued_at": now,
                "first_attempt_at": None,
                "expires_at": None,
            }
        with self._write() as connection:
            return self._move(connection, docket, decision, now, Actor.PERSON, fresh)

    def find(
        self, *, key: str | None = None, ids: Sequence[int] = (), states: Sequence[State] = ()
    ) -> list[Docket]:
        """Rows of an event, by number, or in a state."""
        wanted = [_row.dedupe_key == key] if key is not None else []
        wanted += [_row.id.in_(list(ids))] if ids else []
        wanted += [_row.state.in_(list(states))] if states else []
        with self._read() as connection:
            rows = connection.execute(select(*_DOCKET_COLUMNS).where(and_(*wanted)).order_by(_row.id)).all()
        # MySQL takes no notice of blanks at the end of a text.
        return [Docket(**_facts(row)) for row in rows if key is None or row.key == key]

    def standings(self) -> list[Standing]:
        """Every row, oldest first, as the outside may see it."""
        with self._read() as connection:
            rows = connection.execute(
                select(
                    _row.id,
                    _row.dedupe_key.label("key"),
                    _row.recipient,
                    _row.state,
                    _row.attempts,
                    _row.provider_id,
                    _row.message_id,
                    _row.may_repeat,
                    _row.last_error,
                ).order_by(_row.id)
            ).all()
        return [Standing(**row._mapping) for row in rows]

    def tallies(self) -> list[Tally]:
        """Counts per state, for people and alarms."""
        with self._read() as connection:
            rows = connection.execute(
                select(_row.state, func.count().label("count"), func.min(_row.created_at).label("oldest"))
                .group_by(_row.state)
                .order_by(_row.state)
            ).all()
        return [Tally(**row._mapping) for row in rows]

    # -- how it is done ---------------------------------------------------------------------------------------

    def _write(self) -> AbstractContextManager[Connection]:
        return self.engine.begin()

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            connection.info[READS_ONLY] = True
            try:
                yield connection
            finally:
                # The note stays with the connection in the pool, and its next user may write.
                connection.info.pop(READS_ONLY, None)

    @staticmethod
    def _hear_late(connection: Connection, docket: Docket, decision: Decision, now: datetime) -> None:
        """No state changes. But what a lost worker may have sent after its lease is a doubt of this moment.

        A "not found" from before says nothing about it; and if the row is parked, the reconciler should look now.
        """
        news: dict[str, Any] = {
            "next_attempt_at": case(
                (_row.state == State.UNKNOWN, literal(now, _row.updated_at.type)), else_=_row.next_attempt_at
            )
        }
        if decision.state is State.ACCEPTED or decision.doubt is Doubt.NEW:
            news["doubted_at"] = now
        connection.execute(
            update(outgoing_email)
            .where(_row.id == docket.id, _row.state.in_([State.PENDING, State.SENDING, State.UNKNOWN]))
            .values(news)
        )

    @staticmethod
    def _fenced(connection: Connection, docket: Docket, values: dict[str, Any]) -> bool:
        """Write only if the row is still in the hands of this attempt."""
        held = {"held_id": docket.id, "held_token": docket.token, "held_state": docket.state}
        return connection.execute(_HELD, values | held).rowcount == 1

    def _move(
        self,
        connection: Connection,
        docket: Docket,
        decision: Decision,
        now: datetime,
        actor: Actor,
        extra: dict[str, Any],
    ) -> bool:
        stays = decision.state is docket.state
        assert stays or may_move(actor, docket.state, decision.state), decision
        # The token goes up, so that whoever still believes to hold the row is fenced out.
        values = _settlement(docket, decision, None, now) | {"token": docket.token + 1} | extra
        if stays:
            del values["last_error"]  # why it became unknown matters more than why it still is
        moved = self._fenced(connection, docket, values)
        if moved and not stays:
            self._record(
                connection,
                docket.id,
                docket.token,
                ended_at=now,
                decision=decision.state,
                reason=f"{actor.value}: {decision.reason}",
                provider_id=decision.provider_id,
            )
        return moved

    @staticmethod
    def _record(
        connection: Connection,
        email_id: int,
        token: int,
        *,
        ended_at: datetime,
        decision: State,
        reason: str,
        started_at: datetime | None = None,
        evidence: Evidence | None = None,
        provider_id: str | None = None,
        late: bool = False,
    ) -> None:
        seen: dict[str, Any] = {}
        if evidence is not None:
            seen = {
                "phase": evidence.phase.value,
                "code": evidence.code,
                "enhanced": evidence.enhanced,
                "trouble": evidence.trouble,
                "answer": evidence.answer,
            }
        connection.execute(
            _RECORD,
            {
                "email_id": email_id,
                "token": token,
                "started_at": started_at,
                "ended_at": ended_at,
                "decision": decision.value,
                "reason": reason,
                "provider_id": provider_id,
                "late": late,
                **seen,
            },
        )


def _check_columns(table: Table, found: Mapping[str, Any], where: str) -> None:
    wanted = {column.name for column in table.columns}
    unknown = [name for name in found if name not in wanted]
    for name in (column.name for column in table.columns if column.name not in found):
        age = "newer" if unknown else "older"
        raise StoreTrouble(
            f"the column {name} of the table {table.name} is missing in {where}: its schema is {age} than this program; "
            f"run the version that fits it, or bring the table to this version's schema"
        )
    for name in unknown:
        # Columns that somebody added for himself do no harm, unless every INSERT has to name them.
        column = found[name]
        filled = column.get("nullable", True) or any(
            column.get(k) for k in ("default", "identity", "computed")
        )
        if not filled:
            raise StoreTrouble(
                f"the table {table.name} in {where} wants a value for the column {name}, which this program does not "
                "know: its schema is newer; run the version that fits it"
            )


def _settlement(
    docket: Docket, decision: Decision, evidence: Evidence | None, now: datetime
) -> dict[str, Any]:
    values: dict[str, Any] = {
        "state": decision.state,
        "next_attempt_at": decision.next_attempt_at,
        "lease_until": None,
        "in_doubt": False,
        "if_not_sent": decision.if_not_sent,
        "updated_at": now,
    }
    if decision.doubt is Doubt.NEW:
        values["doubted_at"] = now
    elif decision.doubt is Doubt.CLEAR:
        values["doubted_at"] = None
    if decision.refund:
        values["attempts"] = max(docket.attempts - 1, 0)
    if decision.may_repeat:
        values["may_repeat"] = True
    if decision.state is State.ACCEPTED:
        values |= {"provider_id": decision.provider_id, "accepted_at": now, "last_error": None}
    else:
        values["last_error"] = decision.reason
    if evidence is not None:
        values |= {"last_code": evidence.code, "raw_answer": evidence.answer}
    return values


def _facts(row: Any) -> dict[str, Any]:
    return {column.key: row._mapping[column.key] for column in _DOCKET_COLUMNS}


def _parcel(row: Any) -> Parcel:
    return Parcel(**_facts(row), raw=bytes(row.raw))
