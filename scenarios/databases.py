"""Database servers on which a sender is certified: each scenario gets an empty place of its own, gone afterwards.

On PostgreSQL a place is a schema, on MySQL and MariaDB a database. What is handed to the sender is the address that was
given, led into the place. Must not hold: what a sender does there.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

#: Environment variable with what the names of all places of a run begin with, so that none is left when it breaks off.
PLACES = "MAILPROOF_PLACES"
CONNECT_WITHIN_S = 5
#: So long a server may take over one statement, and to say anything at all. Who speaks another protocol may say nothing.
ANSWER_WITHIN_S = 30

# What drivers raise for an option of an address that they do not take; PyMySQL has no words of its own for that.
_OF_OPTIONS = (TypeError, ValueError, LookupError, AttributeError, FileNotFoundError)
_numbers = itertools.count(1)


class DatabaseError(Exception):
    """The database cannot be certified on; the text is one sentence that names it without its password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of server."""

    name: str
    driver: str
    extra: str
    create: str
    drop: str
    places: str
    version: str
    place: str
    """What a place is called there."""
    inside: Callable[[URL, str], URL]
    patience: Mapping[str, float] = field(default_factory=dict)
    """Options of the driver that keep it from waiting for ever, besides `connect_timeout`."""


def _in_schema(url: URL, name: str) -> URL:
    before = url.query.get("options", "")
    options = f"{before} -csearch_path={name}" if isinstance(before, str) else f"-csearch_path={name}"
    return url.update_query_dict({"options": options.strip()})


_POSTGRESQL = Kind(
    name="PostgreSQL",
    driver="postgresql+psycopg",
    extra="postgres",
    create="CREATE SCHEMA {}",
    drop="DROP SCHEMA IF EXISTS {} CASCADE",
    places="SELECT nspname FROM pg_namespace",
    version="SHOW server_version",
    place="schema",
    # PostgreSQL copies a whole template for every database.
    inside=_in_schema,
)
_MYSQL = Kind(
    name="MySQL",
    driver="mysql+pymysql",
    extra="mysql",
    create="CREATE DATABASE {}",
    drop="DROP DATABASE IF EXISTS {}",
    places="SELECT schema_name FROM information_schema.schemata",
    version="SELECT version()",
    place="database",
    inside=lambda url, name: url.set(database=name),
    patience={"read_timeout": ANSWER_WITHIN_S, "write_timeout": ANSWER_WITHIN_S},
)
KINDS: Mapping[str, Kind] = {
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}
_RIGHT = "right would be postgresql://USER:PASSWORD@HOST/NAME or mysql://USER:PASSWORD@HOST/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that scenarios may use."""

    kind: Kind
    url: URL = field(repr=False)

    @property
    def shown(self) -> str:
        """Its address for people and reports, without the password."""
        return self.url.render_as_string(hide_password=True)

    def check(self) -> str:
        """Make a place and take it away again; return name and version. Raises `DatabaseError`."""
        with self._connected() as connection:
            told = str(connection.execute(text(self.kind.version)).scalar_one())
        with self.place():
            pass
        number = told.split()[0].split("-")[0]
        return f"{'MariaDB' if 'mariadb' in told.lower() else self.kind.name} {number}"

    @contextmanager
    def place(self) -> Iterator[str]:
        """The address of an empty place, with the password. Raises `DatabaseError`."""
        name = f"{prefix()}_{os.getpid()}_{next(_numbers)}"
        self._do(self.kind.create.format(name))
        try:
            yield self.kind.inside(self.url, name).render_as_string(hide_password=False)
        finally:
            self._do(self.kind.drop.format(name))

    def clear(self) -> int:
        """Drop what this run left, because somebody killed it; how many places that were."""
        with self._connected() as connection:
            names = [str(name) for name in connection.execute(text(self.kind.places)).scalars()]
            left = [name for name in names if name.startswith(f"{prefix()}_")]
            for name in left:
                connection.execute(text(self.kind.drop.format(name)))
        return len(left)

    def _do(self, statement: str) -> None:
        with self._connected() as connection:
            connection.execute(text(statement))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            engine = create_engine(
                self.url.set(drivername=self.kind.driver),
                isolation_level="AUTOCOMMIT",
                poolclass=NullPool,
                connect_args={"connect_timeout": CONNECT_WITHIN_S, **self.kind.patience},
            )
        except ImportError as error:
            raise DatabaseError(
                f"--database {self.shown}: the driver is missing ({error.name}); install mailproof[{self.kind.extra}]"
            ) from error
        except _OF_OPTIONS as error:
            raise self._bad_option(error) from error
        try:
            with self._connection(engine) as connection:
                yield connection
        except DBAPIError as error:
            said = _said(error)
            raise DatabaseError(
                f"--database {self.shown}: {self.kind.name} says {said!r}; right would be a server that answers, and an "
                f"account that may make a {self.kind.place} for each scenario"
            ) from error
        finally:
            engine.dispose()

    def _connection(self, engine: Engine) -> Connection:
        try:
            return engine.connect()
        except _OF_OPTIONS as error:
            raise self._bad_option(error) from error

    def _bad_option(self, error: Exception) -> DatabaseError:
        return DatabaseError(
            f"--database {self.shown}: the driver does not take what stands behind the ? "
            f"({', '.join(sorted(self.url.query))}); right would be options that it knows, or none ({error})"
        )


def server_of(given: str) -> Server:
    """Read `--database`. Raises `DatabaseError`."""
    try:
        url = make_url(given)
    except Exception as error:
        # What cannot be read may hold a password anywhere.
        raise DatabaseError(f"--database is no address of a database; {_RIGHT}") from error
    backend = url.get_backend_name()
    if backend == "sqlite":
        raise DatabaseError(
            f"--database {url.render_as_string(hide_password=True)}: without --database each scenario has an SQLite file "
            f"of its own; {_RIGHT}"
        )
    if backend not in KINDS:
        raise DatabaseError(f"--database names the unknown kind {backend!r}; {_RIGHT}")
    if not (url.host or url.query.get("host")):  # a socket has a folder for a host
        raise DatabaseError(f"--database {url.render_as_string(hide_password=True)} names no host; {_RIGHT}")
    return Server(kind=KINDS[backend], url=url)


def prefix() -> str:
    """What the names of all places of this run begin with."""
    return os.environ.get(PLACES, "mailproof")


def _said(error: DBAPIError) -> str:
    """What the server said, on one line; MySQL's driver gives a number and the words."""
    told = error.orig.args if error.orig is not None else (str(error),)
    words = next((each for each in reversed(told) if isinstance(each, str)), str(error.orig))
    return " ".join(words.split())[:200]
