"""The log: one JSON object a line."""

from __future__ import annotations

import io
import json

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from reference_sender.log import Both, JsonLog, cause_of, quiet
from tests.reference_sender.samples import NOW, ManualClock


def test_an_event_is_one_json_line_with_its_facts() -> None:
    stream = io.StringIO()
    JsonLog(stream, ManualClock())("decided", id=1, state="accepted", code=None)
    (line,) = stream.getvalue().splitlines()
    assert {"at": NOW.isoformat(), "event": "decided", "id": 1, "state": "accepted"} == json.loads(line)


def test_the_quiet_log_says_nothing() -> None:
    quiet("decided", id=1)


def test_several_may_listen() -> None:
    one, other = io.StringIO(), io.StringIO()
    Both(JsonLog(one, ManualClock()), JsonLog(other, ManualClock()))("decided", id=1)
    assert one.getvalue() == other.getvalue() != ""


def test_the_cause_is_what_the_driver_said_in_one_line() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(OperationalError) as caught:
        connection.execute(text("SELECT a FROM nowhere WHERE x = :body"), {"body": "Thank you"})
    engine.dispose()
    assert cause_of(caught.value) == "no such table: nowhere"


def test_the_cause_is_the_root_of_a_chain() -> None:
    outer = RuntimeError("something failed")
    outer.__cause__ = KeyError("why")
    assert cause_of(outer) == "'why'"
    assert cause_of(ConnectionError()) == "ConnectionError"


def test_a_cause_holds_no_address_and_nothing_of_a_row() -> None:
    """PostgreSQL names the row in the lines below the first."""
    said = "value of ann@example.com is wrong\nDETAIL: Failing row contains (1, <bob@example.com>, Thank you)"
    cause = cause_of(IntegrityError("INSERT …", {}, Exception(said)))
    assert cause == "value of <address> is wrong"
    assert len(cause_of(ValueError("x" * 5_000))) == 200
