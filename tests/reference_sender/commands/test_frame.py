"""What every command stands in: one sentence for what is wrong, and a name for the access log."""

from __future__ import annotations

import getpass
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from reference_sender.commands.frame import SetUpError, database_sentence, moment_of, operator_of, sentences
from reference_sender.life import State
from reference_sender.outbox.engine import StoreTrouble
from reference_sender.outbox.store import Store
from reference_sender.wiring import Parts
from tests.reference_sender.commands.outboxes import Outbox
from tests.reference_sender.samples import NOW, ManualClock


def test_the_operator_is_who_says_so_or_who_is_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    assert operator_of("anna") == "anna"
    monkeypatch.setattr(getpass, "getuser", lambda: "bob")
    assert operator_of(None) == operator_of("") == "bob"


def test_somebody_without_a_name_is_told_how_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", nobody)
    with pytest.raises(SetUpError, match=r"nobody knows who you are,.* say --operator NAME"):
        operator_of(None)


@pytest.mark.parametrize("name", ["a\nb", "x" * 65])
def test_a_name_is_one_line(name: str) -> None:
    with pytest.raises(SetUpError, match="at most 64 characters in one line"):
        operator_of(name)


def test_expected_trouble_is_one_sentence() -> None:
    with pytest.raises(SetUpError, match="the table is missing"), sentences():
        raise StoreTrouble("the table is missing")
    error = OperationalError("SELECT", {}, Exception("could not connect\nDETAIL: ann@example.com"))
    assert database_sentence(error) == "the database cannot be used: could not connect"


@pytest.mark.parametrize(
    "command", [("status",), ("status", "--json"), ("trace", "order-1"), ("requeue", "--key", "order-1")]
)
@pytest.mark.parametrize(
    ("value", "shown"), [("yesterday", "'yesterday'"), (5, "'5'"), ("2026-01-02", "'2026-01-02'")]
)
def test_a_time_that_somebody_edited_by_hand_is_one_sentence_that_names_it(
    outbox: Outbox, command: tuple[str, ...], value: Any, shown: str
) -> None:
    """Of a finished mail, which no claim comes upon: no worker would ever park it."""
    outbox.bring("order-0", State.ACCEPTED)
    made = outbox.bring("order-1", State.DEAD)
    with outbox.store.engine.begin() as connection:
        # The earliest and the only one, so whoever looks at any comes upon it.
        connection.execute(
            text("UPDATE outgoing_email SET created_at = :it, queued_at = :it WHERE id = :of"),
            {"it": value, "of": made},
        )
    done = outbox.call(*command)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"the column created_at of outgoing_email {made} cannot be read (it is {shown}" in done.stderr


def test_a_state_that_there_is_not_is_named_too(outbox: Outbox) -> None:
    made = outbox.bring("order-1", State.DEAD)
    with outbox.store.engine.begin() as connection:
        connection.execute(text("UPDATE outgoing_email SET if_not_sent = 'bogus'"))
    done = outbox.call("requeue", "--key", "order-1")
    assert done.exit_code == 2
    assert f"the column if_not_sent of outgoing_email {made} cannot be read (it is 'bogus'" in done.stderr


def test_a_bug_stays_one() -> None:
    with pytest.raises(ZeroDivisionError), sentences():
        _ = 1 / 0


def test_where_the_database_has_a_clock_everybody_goes_by_it() -> None:
    class Dialect:
        name = "postgresql"

    class Engine:
        dialect = Dialect()

    class Told:
        engine = Engine()

        def time(self) -> datetime:
            return NOW + timedelta(hours=3)

    ours = Parts(clock=ManualClock(NOW))
    told = cast(Store, Told())
    assert moment_of(ours, told) == NOW + timedelta(hours=3)
    Dialect.name = "sqlite"
    assert moment_of(ours, told) == NOW
