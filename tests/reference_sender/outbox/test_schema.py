"""The tables: spelled for each database, and the indexes hold only what is still to do."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, create_mock_engine, text
from sqlalchemy.dialects import registry
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateTable

from reference_sender.life import State
from reference_sender.outbox.schema import metadata, outgoing_email


def dialect(name: str) -> Dialect:
    kind: type[Dialect] = registry.load(name)
    return kind()


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "mysql"])
def test_the_tables_can_be_spelled_for_every_database(name: str) -> None:
    for table in metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect(name)))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("sqlite", ["AUTOINCREMENT", "WHERE state = 'pending'"]),
        ("postgresql", ["WHERE state = 'pending'"]),
        ("mysql", ["COLLATE utf8mb4_bin", "ENGINE=InnoDB", "(state, priority DESC, next_attempt_at, id)"]),
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
    assert "outgoing_email_next" in str(plan)


def test_every_state_may_stand_in_its_column() -> None:
    assert {s.value for s in State} <= set(str(CreateTable(outgoing_email)).split("'"))
