"""What every command stands in: one sentence for what is wrong, and a name for the access log."""

from __future__ import annotations

import getpass
from datetime import datetime, timedelta
from typing import cast

import pytest
from sqlalchemy.exc import OperationalError

from reference_sender.commands.frame import SetUpError, database_sentence, moment_of, operator_of, sentences
from reference_sender.outbox.engine import StoreTrouble
from reference_sender.outbox.store import Store
from reference_sender.wiring import Parts
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
