"""Settling, as far as only SQL can ask; what it promises is in the contract."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from reference_sender.life import State
from reference_sender.outbox.store import Store
from reference_sender.policy.decision import Ended
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.outbox.contract import ACCEPTED, LATER
from tests.reference_sender.samples import NOW


def test_a_settled_attempt_costs_one_update_and_one_insert(outbox: SqlBench, store: Store) -> None:
    outbox.put()
    (parcel,) = outbox.claim()
    statements: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement.split()[0])

    try:
        assert store.settle(parcel, ACCEPTED, now=NOW)
    finally:
        event.remove(store.engine, "before_cursor_execute", _seen)
    assert statements == ["UPDATE", "INSERT"]


def test_a_group_is_written_as_a_whole_or_not_at_all(outbox: SqlBench, store: Store) -> None:
    for number in range(3):
        outbox.put(f"order-{number}")
    nothing: Any = None
    group = [Ended(docket=parcel, decision=ACCEPTED) for parcel in outbox.claim()]
    bad = replace(group[1], decision=replace(ACCEPTED, reason=nothing))
    with pytest.raises(IntegrityError):
        store.settle_all([group[0], bad, group[2]], now=NOW)
    assert {s.state for s in store.standings()} == {State.SENDING}
    assert outbox.attempts() == []
    assert store.settle_all(group, now=NOW) == [True] * 3


def test_a_group_that_is_like_itself_costs_what_one_does(outbox: SqlBench, store: Store) -> None:
    """One update and one insert; PostgreSQL does both in one statement."""
    for number in range(7):
        outbox.put(f"order-{number}")
    group = [Ended(docket=parcel, decision=ACCEPTED) for parcel in outbox.claim()]
    statements: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement.split()[0])

    try:
        assert store.settle_all(group, now=NOW) == [True] * 7
    finally:
        event.remove(store.engine, "before_cursor_execute", _seen)
    assert statements == (["WITH"] if store.engine.dialect.name == "postgresql" else ["UPDATE", "INSERT"])


def test_two_attempts_at_one_row_that_end_together_are_two(outbox: SqlBench, store: Store) -> None:
    """Its lease ran out and the same worker took it again, and then both of them came to an end at once."""
    outbox.put()
    (lost,), (held,) = outbox.claim(), outbox.claim(61)
    group = [Ended(docket=lost, decision=ACCEPTED), Ended(docket=held, decision=LATER)]
    assert store.settle_all(group, now=NOW + timedelta(seconds=62)) == [False, True]
    # The one that was lost was told yes: it is not tried again before somebody has looked.
    assert outbox.row().state is State.UNKNOWN
    assert [(each.token, each.late) for each in outbox.attempts() if each.reason != "lease ran out"] == [
        (2, False),
        (1, True),
    ]
