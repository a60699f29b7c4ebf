"""The tables themselves: made, brought up, checked before a worker starts.

Must not hold: what is in them (`schema`), the steps between versions (`migrations`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Table, inspect, select

from reference_sender.clock import SystemClock
from reference_sender.outbox.engine import StoreTrouble, check_version, time_of
from reference_sender.outbox.migrations import BroughtUp, bring_up, check_version_of_tables, version_of
from reference_sender.outbox.schema import metadata
from reference_sender.outbox.transactions import Transactions


class Tables(Transactions):
    """The floor that the rows stand on."""

    def create(self, *, recreate: bool = False) -> BroughtUp:
        """Create the tables or bring older ones up; with `recreate` drop them first, with every mail in them."""
        with self._write() as connection:
            check_version(connection)
            if recreate:
                metadata.drop_all(connection)
            return bring_up(connection)

    def time(self) -> datetime:
        """What time it is for the database; for SQLite, which has no clock, for this process."""
        spelled = time_of(self.engine.dialect.name)
        if spelled is None:
            return SystemClock().now()
        with self._read() as connection:
            told: datetime = connection.execute(select(spelled)).scalar_one()
        return told

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
