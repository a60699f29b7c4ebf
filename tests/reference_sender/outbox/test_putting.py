"""Rows of mail: however many and however large, they go in, or one sentence says why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, func, select

from reference_sender.message import InvalidMail, Mail
from reference_sender.outbox.putting import put
from reference_sender.outbox.schema import outgoing_email
from reference_sender.outbox.store import Store, enqueue, rows_of
from tests.reference_sender.outbox.benches import SqlBench
from tests.reference_sender.samples import MAIL, NOW


def to(count: int) -> Mail:
    """A mail to so many."""
    return replace(MAIL, recipients=tuple(f"a{number}@example.com" for number in range(count)))


def rows_in(outbox: SqlBench) -> int:
    with outbox.begin() as connection:
        return int(connection.execute(select(func.count()).select_from(outgoing_email)).scalar_one())


def test_more_rows_than_parameters_go_into_one_statement(outbox: SqlBench) -> None:
    """PostgreSQL takes 65,535 of them, SQLite half of that: a campaign with larger pages never got on."""
    rows = rows_of(to(1_300), key="order-1", now=NOW)
    most: list[int] = []

    @event.listens_for(outbox.store.engine, "before_cursor_execute")
    def _seen(_c: Any, _cur: Any, _statement: str, parameters: Any, *_rest: Any) -> None:
        most.append(len(parameters))

    with outbox.begin() as connection:
        assert put(connection, rows[:1]) == 1
        assert put(connection, rows) == len(rows) - 1
    event.remove(outbox.store.engine, "before_cursor_execute", _seen)
    assert rows_in(outbox) == len(rows)
    assert max(most) <= 32_766


def test_more_octets_than_go_into_one_statement(outbox: SqlBench) -> None:
    """MariaDB takes 16 MB at once and breaks the line of whoever sends more."""
    rows = [row | {"raw": b"line\r\n" * 300_000} for row in rows_of(to(12), key="order-1", now=NOW)]
    with outbox.begin() as connection:
        assert put(connection, rows) == 12
    with outbox.begin() as connection:
        assert put(connection, rows) == 0
    assert rows_in(outbox) == 12


def test_a_mail_that_is_larger_than_the_database_takes_is_refused_with_one_sentence(store: Store) -> None:
    (row,) = rows_of(MAIL, key="order-1", now=NOW)
    row["raw"] = b"x\r\n" * 5_000_000
    with store.engine.connect() as connection:
        if store.engine.dialect.name == "mysql":
            with pytest.raises(InvalidMail, match=r"octets, and this database takes .*max_allowed_packet"):
                put(connection, [*rows_of(to(600), key="order-3", now=NOW), row])
            assert connection.execute(select(func.count()).select_from(outgoing_email)).scalar_one() == 0
        else:
            assert put(connection, [row]) == 1
        # The line is whole, and what else the business does goes on.
        assert enqueue(connection, MAIL, key="order-2", now=NOW).created
        connection.rollback()


def test_the_largest_mail_that_is_not_refused_goes_in(store: Store) -> None:
    """A driver spells octets with two letters each."""
    (row,) = rows_of(MAIL, key="order-1", now=NOW)
    row["raw"] = b"x" * 8_355_840
    with store.engine.connect() as connection:
        assert put(connection, [row]) == 1
        connection.rollback()
