"""What all workers know of a provider, in SQL: kept, heard, and asked for by a claim (`passage`).

Must not hold: decisions (`policy.gate`), what is done with the rows (`claims`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Connection,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)

from reference_sender.life import State
from reference_sender.outbox.engine import going_by_indexes, insert_unless_there
from reference_sender.outbox.passage import Found, Place, Wanted
from reference_sender.outbox.rows import AT, in_state
from reference_sender.outbox.schema import outbox_bucket, outbox_gate, outgoing_email
from reference_sender.outbox.suspects import any_suspect, suspected, unsuspected
from reference_sender.outbox.transactions import Transactions
from reference_sender.policy import gate as gates
from reference_sender.policy.breaker import Breaker, Position
from reference_sender.policy.bucket import Bucket, Rate, full
from reference_sender.policy.evidence import Evidence, Outcome
from reference_sender.policy.gate import NOTHING_KNOWN, GateRules, Shared
from reference_sender.policy.routes import Route, Share

_row = outgoing_email.c
_gate = outbox_gate.c
_bucket = outbox_bucket.c

_BREAKER = tuple(each.name for each in fields(Breaker) if each.name != "position")
_SHARED = tuple(each.name for each in fields(Shared) if each.name != "breaker")
_GATES = select(outbox_gate)
_LOST = (in_state(State.SENDING), _row.lease_until < AT)
_LOST_UNMARKED = (*_LOST, _row.in_doubt.is_(False))
_ONE_GATE = select(outbox_gate).where(_gate.provider == bindparam("provider")).with_for_update()
_ONE_BUCKET = select(outbox_bucket).where(_bucket.name == bindparam("bucket")).with_for_update()
# The columns to set come with the parameters.
_KEEP = update(outbox_gate).where(_gate.provider == bindparam("gate_of"))
_FILL = update(outbox_bucket).where(_bucket.name == bindparam("bucket"))
_QUERIES: dict[tuple[type, str, str, bool, Wanted], Any] = {}
_QUERIES_KEPT = 256  # sorts of rows; with limits per domain there may be many
_UNDER_WAY = select(_row.recipient, _row.provider).where(in_state(State.SENDING), _row.lease_until >= AT)


class Gated(Transactions):
    """What all workers know of a provider."""

    def gates(self) -> dict[str, Shared]:
        """What is known of each provider of which there is something to know."""
        with self._read() as connection:
            return _known(connection)

    def hear(
        self,
        rules: GateRules,
        outcome: Outcome | None,
        evidence: Evidence | None,
        *,
        now: datetime,
        began_at: datetime,
        good_before: int = 0,
    ) -> Shared:
        """Write down for everybody what an attempt saw (None: there was none after all); what is known then."""
        with self._write() as connection:
            place = self._place(connection, now)
            before = place.locked(rules.provider)
            after = gates.after(
                rules, before, outcome, evidence, now=now, began_at=began_at, good_before=good_before
            )
            if after != before:
                place.keep(rules.provider, after)
        return after

    @staticmethod
    def _place(connection: Connection, now: datetime, *, unmarked: bool = False) -> Place:
        return SqlPlace(connection, now, unmarked=unmarked)


class SqlPlace:
    """Rows and gates within one transaction. `unmarked`: of lost rows only those that are not in doubt."""

    lost_order: tuple[Any, ...] = (_row.lease_until, _row.id)
    due_order: tuple[Any, ...] = (_row.priority.desc(), _row.next_attempt_at, _row.id)

    def __init__(self, connection: Connection, now: datetime, *, unmarked: bool) -> None:
        self._connection = connection
        self._now = now
        self._unmarked = unmarked
        self._may_be_lost = True
        """Whether there may be lost rows, as far as we know."""
        self._may_be_suspects = True

    def known(self) -> dict[str, Shared]:
        query = _gates_and_lost(self._connection.dialect.name, self._unmarked)
        rows = self._connection.execute(query, {"at": self._now}).all()
        self._may_be_lost = bool(rows[0].any_lost)
        self._may_be_suspects = bool(rows[0].any_suspect)
        return {row.provider: _shared_of(row) for row in rows if row.provider is not None}

    def locked(self, provider: str) -> Shared:
        which = {"provider": provider}
        row = self._connection.execute(_ONE_GATE, which).one_or_none()
        if row is None:
            values = {**which, "updated_at": self._now, **_columns_of(NOTHING_KNOWN)}
            self._insert(outbox_gate, values, "provider")
            row = self._connection.execute(_ONE_GATE, which).one()
        return _shared_of(row)

    def keep(self, provider: str, shared: Shared) -> None:
        values = {"updated_at": self._now, **_columns_of(shared)}
        self._connection.execute(_KEEP, {"gate_of": provider, **values})

    def bucket(self, name: str, rate: Rate) -> Bucket:
        row = self._connection.execute(_ONE_BUCKET, {"bucket": name}).one_or_none()
        if row is None:
            fresh = full(rate, self._now)
            self._insert(outbox_bucket, {"name": name, "tokens": fresh.tokens, "at": fresh.at}, "name")
            row = self._connection.execute(_ONE_BUCKET, {"bucket": name}).one()
        return Bucket(tokens=row.tokens, at=row.at)

    def fill(self, name: str, bucket: Bucket) -> None:
        self._connection.execute(_FILL, {"bucket": name, "tokens": bucket.tokens, "at": bucket.at})

    def under_way(self) -> list[tuple[str, str | None]]:
        rows = self._connection.execute(_UNDER_WAY, {"at": self._now})
        return [(row.recipient, row.provider) for row in rows]

    def find(self, wanted: Wanted) -> list[Found]:
        if wanted.lost and not self._may_be_lost:
            return []
        return self._ask(self._kept(self._query, wanted), wanted)

    def has_suspects(self) -> bool:
        return self._may_be_suspects

    def sees(self, wanted: Wanted) -> bool:
        query = self._kept(self._those, wanted)
        return bool(self._connection.execute(query, {"at": self._now, "most": wanted.most}).all())

    def _kept(self, build: Callable[[Wanted], Any], wanted: Wanted) -> Any:
        # Built once for each sort of rows: that takes longer than asking it.
        whose = (type(self), build.__name__, self._connection.dialect.name, self._unmarked)
        sort = (*whose, replace(wanted, most=0))
        if (query := _QUERIES.get(sort)) is None:
            if len(_QUERIES) >= _QUERIES_KEPT:
                _QUERIES.clear()
            query = _QUERIES[sort] = build(wanted)
        return query

    def _ask(self, query: Any, wanted: Wanted) -> list[Found]:
        rows = self._connection.execute(query, {"at": self._now, "most": wanted.most}).all()
        return [
            Found(id=row.id, token=row.token, recipient=row.recipient, priority=row.priority) for row in rows
        ]

    def mine(self, share: Share) -> Any:
        """The condition that a row goes to this provider."""
        return taken_by(share)

    def _query(self, wanted: Wanted) -> Any:
        """The query for up to `:most` rows of this sort."""
        return self._those(wanted)

    def _those(self, wanted: Wanted) -> Any:
        """Up to `:most` rows of this sort, locked, the most pressing first."""
        conditions: list[Any] = [self.mine(wanted.share), *_of(wanted)]
        if wanted.lost:
            conditions += _LOST_UNMARKED if self._unmarked else _LOST
        else:
            conditions += [in_state(State.PENDING), _row.next_attempt_at <= AT]
        conditions.append((suspected if wanted.suspects else unsuspected)(lost=wanted.lost))
        return (
            select(_row.id, _row.token, _row.recipient, _row.priority)
            .where(*conditions)
            .order_by(*(self.lost_order if wanted.lost else self.due_order))
            .limit(bindparam("most"))
            .with_for_update(skip_locked=True)
        )

    def _insert(self, table: Any, values: Mapping[str, Any], key: str) -> None:
        statement = _insert_into(table, self._connection.dialect.name, key, tuple(values))
        self._connection.execute(statement, values)


@lru_cache(maxsize=8)
def _gates_and_lost(backend: str, unmarked: bool) -> Any:
    """All gates, and whether anything is lost, and goes alone; there is a row also where no gate is.

    Every claim asks for the gates, and nearly always nothing is lost: asked along, it costs no statement of its own.
    """
    any_lost = exists().where(*(_LOST_UNMARKED if unmarked else _LOST)).label("any_lost")
    look = select(literal_column("1").label("one")).subquery("look")
    suspect = any_suspect(*((_row.in_doubt.is_(False),) if unmarked else ())).label("any_suspect")
    query = select(outbox_gate, any_lost, suspect).select_from(look.outerjoin(outbox_gate, true()))
    return going_by_indexes(backend, query)


@lru_cache(maxsize=16)
def _insert_into(table: Any, backend: str, key: str, names: tuple[str, ...]) -> Any:
    row = {name: bindparam(name, type_=table.c[name].type) for name in names}
    return insert_unless_there(backend, [row], table=table, key=[key])


def _of(wanted: Wanted) -> Iterable[Any]:
    if wanted.from_priority is not None:
        yield _row.priority >= wanted.from_priority
    if wanted.below_priority is not None:
        yield _row.priority < wanted.below_priority
    if wanted.above_priority is not None:
        yield _row.priority > wanted.above_priority
    if wanted.tried:
        yield _row.attempts > 0
    for domain in sorted(wanted.not_to):
        yield ~_to(domain)


def taken_by(share: Share) -> Any:
    """The condition that a row goes to this provider, as `Share.takes` has it."""
    doubted = or_(_row.doubted_at.is_not(None), and_(in_state(State.SENDING), _row.in_doubt.is_(True)))
    where_it_was = _row.provider == share.provider
    if share.first:
        where_it_was = or_(where_it_was, _row.provider.is_(None))
    if share.rest and not share.rules:
        return or_(~doubted, where_it_was)
    return (
        case(
            (and_(doubted, where_it_was), literal(1)),
            (doubted, literal(0)),
            *((fits(route), literal(int(mine))) for route, mine in share.rules),
            else_=literal(int(share.rest)),
        )
        == 1
    )


def fits(route: Route) -> Any:
    """The condition that a route is about a row."""
    wanted: list[Any] = []
    if route.classes:
        wanted.append(_row.mail_class.in_(route.classes))
    if route.senders:
        wanted.append(or_(*(_is_of(each) for each in route.senders)))
    if route.domains:
        wanted.append(or_(*(_to(each) for each in route.domains)))
    return and_(*wanted) if wanted else literal(1) == 1


def _is_of(pattern: str) -> Any:
    sender = func.lower(_row.sender)
    return sender.endswith(pattern, autoescape=True) if pattern.startswith("@") else sender == pattern


def _to(domain: str) -> Any:
    return func.lower(_row.recipient).endswith(f"@{domain}", autoescape=True)


def _known(connection: Connection) -> dict[str, Shared]:
    return {row.provider: _shared_of(row) for row in connection.execute(_GATES)}


def _columns_of(shared: Shared) -> dict[str, Any]:
    breaker = shared.breaker
    return {
        "position": breaker.position.value,
        **{name: getattr(breaker, name) for name in _BREAKER},
        **{name: getattr(shared, name) for name in _SHARED},
    }


def _shared_of(row: Any) -> Shared:
    facts: Mapping[str, Any] = row._mapping
    return Shared(
        breaker=Breaker(position=Position(row.position), **{name: facts[name] for name in _BREAKER}),
        **{name: facts[name] for name in _SHARED},
    )
