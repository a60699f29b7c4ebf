"""The databases the outbox is tested on: SQLite always, PostgreSQL and MariaDB where one answers.

MAILPROOF_POSTGRES_URL and MAILPROOF_MYSQL_URL name other servers. With CI=true a missing server is a failure, elsewhere a printed skip.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import URL, NullPool, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

POSTGRES_URL = os.environ.get(
    "MAILPROOF_POSTGRES_URL", "postgresql://postgres:postgres@localhost:5432/postgres"
)
#: By number, not by name: MariaDB lets root in without a password where it came from this machine.
MYSQL_URL = os.environ.get("MAILPROOF_MYSQL_URL", "mysql://root@127.0.0.1:3306/")

#: Kind of server → where it is.
ADDRESSES = {"postgresql": POSTGRES_URL, "mysql": MYSQL_URL}

#: Every kind of database that the outbox supports.
KINDS = ("sqlite", "postgresql", "mysql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server on which tests get places of their own."""

    name: str
    url: URL
    create: str
    drop: str
    inside: Callable[[URL, str], URL]
    """The URL of a place, by its name."""


_SERVERS = {
    # A schema, because PostgreSQL copies a whole template for every database.
    "postgresql": Server(
        name="PostgreSQL",
        url=make_url(POSTGRES_URL).set(drivername="postgresql+psycopg"),
        create="CREATE SCHEMA {}",
        drop="DROP SCHEMA {} CASCADE",
        # Each test's lines have a name of their own: who breaks them breaks nobody else's.
        inside=lambda url, name: url.update_query_dict(
            {"options": f"-csearch_path={name}", "application_name": name}
        ),
    ),
    "mysql": Server(
        name="MariaDB or MySQL",
        url=make_url(MYSQL_URL).set(drivername="mysql+pymysql"),
        create="CREATE DATABASE {}",
        drop="DROP DATABASE {}",
        inside=lambda url, name: url.set(database=name),
    ),
}

_numbers = itertools.count()


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a fresh, empty place in a database of this kind, which is gone afterwards."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'outbox.db'}"
        return
    server = _SERVERS[kind]
    name = f"outbox_test_{os.getpid()}_{next(_numbers)}"
    admin = create_engine(
        server.url, isolation_level="AUTOCOMMIT", poolclass=NullPool, connect_args={"connect_timeout": 3}
    )
    try:
        with admin.connect() as connection:
            connection.execute(text(server.create.format(name)))
    except OperationalError as error:
        admin.dispose()
        reason = f"no {server.name} answers at {server.url.host}: {str(error.orig).splitlines()[0]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        yield server.inside(server.url, name).set(drivername=kind).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(server.drop.format(name)))
        admin.dispose()
