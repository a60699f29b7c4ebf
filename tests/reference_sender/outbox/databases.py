"""The databases the outbox is tested on: SQLite always, PostgreSQL where one answers.

MAILPROOF_POSTGRES_URL names another server. With CI=true a missing server is a failure, elsewhere a printed skip.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError

POSTGRES_URL = os.environ.get(
    "MAILPROOF_POSTGRES_URL", "postgresql://postgres:postgres@localhost:5432/postgres"
)

_numbers = itertools.count()


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a fresh, empty database, which is gone afterwards."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'outbox.db'}"
        return
    name = f"outbox_test_{os.getpid()}_{next(_numbers)}"
    admin = create_engine(
        make_url(POSTGRES_URL).set(drivername="postgresql+psycopg"),
        isolation_level="AUTOCOMMIT",
        connect_args={"connect_timeout": 3},
    )
    try:
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
    except OperationalError as error:
        admin.dispose()
        reason = f"no PostgreSQL answers at {make_url(POSTGRES_URL).host}: {str(error.orig).splitlines()[0]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        yield make_url(POSTGRES_URL).set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()
