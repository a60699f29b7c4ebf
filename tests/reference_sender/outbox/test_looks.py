"""Looks: the answer that SQLAlchemy would give, and a connection that is left as it was found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import exists, literal, literal_column, or_, select, true

from reference_sender.life import State
from reference_sender.outbox.looks import look
from reference_sender.outbox.rows import AT, in_state
from reference_sender.outbox.schema import outgoing_email
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import NOW

_row = outgoing_email.c
_IS_DUE = select(
    exists().where(
        in_state(State.PENDING),
        _row.next_attempt_at <= AT,
        or_(_row.provider.is_(None), _row.provider == literal("main", _row.provider.type)),
    )
)


def test_it_says_what_a_statement_says(outbox: SqlBench) -> None:
    """To the microsecond, which each database stores in its own way; and each time anew."""
    assert not any(look(outbox.store.engine, _IS_DUE, {"at": NOW}))
    outbox.put()
    for at in (NOW - timedelta(microseconds=1), NOW, NOW - timedelta(microseconds=1)):
        with outbox.store.engine.connect() as connection:
            told = connection.execute(_IS_DUE, {"at": at}).scalar_one()
        (seen,) = look(outbox.store.engine, _IS_DUE, {"at": at})
        assert bool(seen) is bool(told) is (at == NOW)


def test_a_look_leaves_no_transaction_behind(outbox: SqlBench) -> None:
    assert look(outbox.store.engine, select(true()), {}) == (1,)
    outbox.put()
    assert len(outbox.claim()) == 1


def test_a_connection_that_fails_is_not_used_again(outbox: SqlBench) -> None:
    wrong: Any = select(literal_column("no_such_column")).select_from(outgoing_email)
    failed = outbox.store.engine.dialect.loaded_dbapi.Error
    with outbox.store.engine.connect() as connection:
        before = connection.connection.driver_connection
    with pytest.raises(failed):
        look(outbox.store.engine, wrong, {})
    with outbox.store.engine.connect() as connection:
        assert connection.connection.driver_connection is not before
    assert look(outbox.store.engine, select(true()), {}) == (1,)
