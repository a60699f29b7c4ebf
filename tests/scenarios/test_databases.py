"""Database servers for a certification: one sentence for what cannot be, and a place per scenario that is gone afterwards."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, text

from scenarios.databases import PLACES, DatabaseError, Server, server_of
from scenarios.sender_file import read_sender
from scenarios.service import Service
from scenarios.stage import Rehearsal, Stage
from tests.reference_sender.outbox.databases import ADDRESSES, database
from tests.scenarios.running import SENDERS


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "is no address of a database; right would be postgresql://"),
        ("shop", "is no address of a database"),
        ("postgresql://u:secret@host:port/shop", "is no address of a database"),
        ("oracle://u:secret@host/shop", "names the unknown kind 'oracle'"),
        ("sqlite:///shop.db", "without --database each scenario has an SQLite file of its own"),
        ("postgresql:///shop", "names no host"),
    ],
)
def test_an_address_that_is_none_is_one_sentence(given: str, says: str) -> None:
    with pytest.raises(DatabaseError, match=says) as caught:
        server_of(given)
    assert ("secret" in str(caught.value), "\n" in str(caught.value)) == (False, False)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_server_that_does_not_answer_is_one_sentence(kind: str) -> None:
    with pytest.raises(
        DatabaseError, match=r"\*\*\*@127.0.0.1:1/.*right would be a server that answers"
    ) as caught:
        server_of(f"{kind}://u:secret@127.0.0.1:1/shop").check()
    assert ("secret" in str(caught.value), "\n" in str(caught.value)) == (False, False)


@pytest.mark.parametrize("option", ["charset=none", "foo=1", "ssl_ca=/none/none.pem", "read_timeout=soon"])
def test_an_option_that_the_driver_does_not_take_is_one_sentence(option: str) -> None:
    with pytest.raises(DatabaseError, match=r"the driver does not take what stands behind the \?") as caught:
        server_of(f"mysql://u:secret@127.0.0.1:1/shop?{option}").check()
    assert ("secret" in str(caught.value), "\n" in str(caught.value)) == (False, False)


def test_a_server_that_says_nothing_is_not_waited_for_for_ever() -> None:
    """PostgreSQL waits for the client to begin, and MySQL's client for the server."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        given = server_of(f"mysql://u:secret@127.0.0.1:{mute.getsockname()[1]}/")
        hasty = replace(given, kind=replace(given.kind, patience={"read_timeout": 0.05}))
        assert set(given.kind.patience) == {"read_timeout", "write_timeout"}
        with pytest.raises(DatabaseError, match="right would be a server that answers"):
            hasty.check()


@pytest.fixture(params=["postgresql", "mysql"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Server:
    """A server that answers, or a skip."""
    with database(request.param, tmp_path):
        return server_of(ADDRESSES[request.param])


def do(url: str, statement: str) -> list[object]:
    """Do something in a place, as a sender would."""
    engine = create_engine(
        url.replace("postgresql:", "postgresql+psycopg:").replace("mysql:", "mysql+pymysql:"),
        poolclass=NullPool,
    )
    with engine.begin() as connection:
        found = connection.execute(text(statement))
        return list(found.scalars()) if found.returns_rows else []


def test_each_place_is_empty_and_gone_afterwards(server: Server) -> None:
    assert server.check().split()[0] in {"PostgreSQL", "MariaDB", "MySQL"}
    with server.place() as first, server.place() as second:
        assert first != second
        for url, number in ((first, 1), (second, 2)):
            do(url, "CREATE TABLE thing (n INTEGER)")
            do(url, f"INSERT INTO thing VALUES ({number})")
        assert [do(url, "SELECT n FROM thing") for url in (first, second)] == [[1], [2]]
        names = {name for url in (first, second) for name in do(url, _HERE[server.kind.name])}
    assert len(names) == 2
    with server._connected() as connection:
        assert not names & set(connection.execute(text(server.kind.places)).scalars())


_HERE = {"PostgreSQL": "SELECT current_schema()", "MySQL": "SELECT database()"}


def test_what_a_killed_run_left_is_cleared_and_nothing_else(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLACES, "mailproof_other")
    with server.place() as others:
        do(others, "CREATE TABLE thing (n INTEGER)")
        monkeypatch.setenv(PLACES, "mailproof_test_left")
        left = server.place()
        left.__enter__()
        assert (server.clear(), server.clear()) == (1, 0)
        assert do(others, "SELECT count(*) FROM thing") == [0]
        monkeypatch.setenv(PLACES, "mailproof_other")


def test_a_scenario_is_played_in_its_place(server: Server, tmp_path: Path) -> None:
    """What the sender is told to write to is there while it plays."""
    file = read_sender(SENDERS / "reference.toml")
    with Service(tmp_path) as service:
        rehearsal = Rehearsal(file=file, profile="http", seed=1, name="place", database=server)
        with Stage(service, rehearsal, tmp_path) as stage:
            url = stage.sender.places["database_url"]
            (name,) = do(url, _HERE[server.kind.name])
            assert do(url, "SELECT count(*) FROM outgoing_email") == [0], "made by the reset"
        with server._connected() as connection:
            assert name not in set(connection.execute(text(server.kind.places)).scalars())
