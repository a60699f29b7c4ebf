"""The tables: times come back as they went in, and the indexes hold only what is still to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import create_engine, create_mock_engine, text
from sqlalchemy.dialects import registry
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateTable

from reference_sender.life import State
from reference_sender.outbox.schema import StateName, UtcDateTime, metadata, outgoing_email


def dialect(name: str) -> Dialect:
    kind: type[Dialect] = registry.load(name)
    return kind()


def test_a_time_comes_back_in_utc() -> None:
    kind = UtcDateTime()
    moment = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    for words in (dialect("sqlite"), dialect("postgresql"), dialect("mysql")):
        stored = kind.process_bind_param(moment, words)
        assert datetime(2026, 1, 1, 10, tzinfo=UTC) == kind.process_result_value(stored, words)


def test_nothing_is_nothing() -> None:
    for kind in (UtcDateTime(), StateName()):
        assert kind.process_bind_param(None, dialect("sqlite")) is None
        assert kind.process_result_value(None, dialect("sqlite")) is None


def test_a_naive_time_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="naive"):
        UtcDateTime().process_bind_param(datetime(2026, 1, 1), dialect("sqlite"))


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "mysql"])
def test_the_tables_can_be_spelled_for_every_database(name: str) -> None:
    for table in metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect(name)))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("sqlite", ["AUTOINCREMENT", "WHERE state = 'pending'"]),
        ("postgresql", ["WHERE state = 'pending'"]),
        ("mysql", ["COLLATE utf8mb4_bin", "ENGINE=InnoDB", "(state, priority DESC, next_attempt_at)"]),
    ],
)
def test_each_database_is_told_in_its_own_words(name: str, wanted: list[str]) -> None:
    said: list[str] = []
    words_of = dialect(name)
    engine = create_mock_engine(
        f"{name}://", lambda statement, *_, **__: said.append(str(statement.compile(dialect=words_of)))
    )
    metadata.create_all(engine, checkfirst=False)
    for words in wanted:
        assert words in " ".join(said)


def test_the_index_of_due_rows_is_the_one_that_is_used() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        metadata.create_all(connection)
        plan = connection.execute(
            text(
                "EXPLAIN QUERY PLAN SELECT id FROM outgoing_email WHERE state = 'pending' "
                "AND next_attempt_at <= '2026' ORDER BY priority DESC, next_attempt_at, id LIMIT 5"
            )
        ).all()
    engine.dispose()
    assert "outgoing_email_due" in str(plan)


def test_a_state_that_does_not_exist_cannot_be_stored() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        StateName().process_bind_param("nonsense", dialect("sqlite"))  # type: ignore[arg-type]
    assert {s.value for s in State} <= set(str(CreateTable(outgoing_email)).split("'"))
