"""The tables are made, brought up and looked at before anything is done with them."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from reference_sender.outbox.engine import StoreTrouble
from reference_sender.outbox.migrations import BroughtUp
from reference_sender.outbox.schema import metadata
from tests.reference_sender.outbox.benches import SqlBench


def test_everything_can_be_dropped_and_created_again(own: SqlBench) -> None:
    outbox, store = own, own.store
    outbox.put()
    assert store.create() == BroughtUp()
    assert len(store.standings()) == 1
    assert store.create(recreate=True).created == tuple(metadata.tables)
    assert store.standings() == []


def test_a_missing_table_is_one_sentence(own: SqlBench) -> None:
    store = own.store
    store.check()
    with store.engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(text(f"DROP TABLE {table.name}"))
    with pytest.raises(StoreTrouble, match="run `reference-sender init` first"):
        store.check()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["DROP COLUMN may_repeat"], "the column may_repeat of the table outgoing_email .* older than"),
        (
            ["RENAME COLUMN may_repeat TO may_be_repeated"],
            "the column may_repeat of the table outgoing_email .* newer than",
        ),
        (["ADD COLUMN more INTEGER NOT NULL"], "wants a value for the column more"),
    ],
)
def test_a_schema_of_another_version_is_one_sentence(own: SqlBench, changes: list[str], words: str) -> None:
    store = own.store
    with store.engine.begin() as connection:
        for change in changes:
            if "NOT NULL" in change and store.engine.dialect.name == "sqlite":
                # SQLite adds no such column later on; a table that was made with it can be had by making it anew.
                made = connection.execute(text("SELECT sql FROM sqlite_master WHERE name='email_attempt'"))
                sql = made.scalar_one().replace("token INTEGER", "more INTEGER NOT NULL, token INTEGER")
                connection.execute(text("DROP TABLE email_attempt"))
                connection.execute(text(sql))
            else:
                table = "email_attempt" if "NOT NULL" in change else "outgoing_email"
                connection.execute(text(f"ALTER TABLE {table} {change}"))
    with pytest.raises(StoreTrouble, match=words) as caught:
        store.check()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("column", ["note TEXT", "flag INTEGER NOT NULL DEFAULT 0"])
def test_a_column_that_somebody_added_does_no_harm(own: SqlBench, column: str) -> None:
    outbox, store = own, own.store
    with store.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE outgoing_email ADD COLUMN {column}"))
    store.check()
    outbox.put()
    assert len(outbox.claim()) == 1
