"""The account's clock, shown and moved over the wire."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from simulator.client import ControlClient
from tests.simulator.running import Running, Sender, mail, request


def test_a_test_moves_the_clock_of_its_account(simulator: Running, control: ControlClient) -> None:
    """By seconds or to an instant; every answer says what time it is there now."""
    before = datetime.fromisoformat(control.clock()["now"])
    moved = control.advance(3600.5)
    to = datetime.fromisoformat(moved["now"]) + timedelta(days=1)
    set_to = control.set_clock(to)

    assert moved["ahead_s"] == 3600.5
    assert datetime.fromisoformat(moved["now"]) - before >= timedelta(seconds=3600.5)
    assert datetime.fromisoformat(set_to["now"]) >= to
    with simulator.control("another") as another:
        another.make_account()
        assert another.clock()["ahead_s"] == 0.0
    control.reset()
    assert control.clock()["ahead_s"] == 0.0


def test_a_slow_answer_comes_when_the_clock_is_moved(simulator: Running, control: ControlClient) -> None:
    """An hour of waiting is an hour of the account's clock, not of the test's."""
    control.add_rules({"fault": "slow", "delay_s": 3600, "dialect": "native"})
    with Sender(simulator.http) as sender:
        sender.say(request(mail(to=["ada@example.com"])))
        control.wait_for_attempts(to="ada@example.com", stage="accept")
        control.advance(3600)
        assert sender.see().status == 200


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"advance_s": -1}, "the clock goes forward only; it cannot be advanced by -1 s"),
        ({"advance_s": 1e300}, "the clock ends with the year"),
        ({"advance_s": 10**400}, 'the body must be {"advance_s": 3600} or'),
        ({"advance_s": True}, "the body must be"),
        ({"advance_s": 1, "now": "2030-01-01T00:00:00Z"}, "with one of the two"),
        ({"now": "tomorrow"}, "the body must be"),
        ({"now": "2030-01-01T00:00:00"}, "without a time zone; add one"),
        ({"now": "2001-01-01T00:00:00Z"}, "the clock goes forward only; it is"),
        ({}, "the body must be"),
        ([], "the body must be"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_clock_that_cannot_be_moved_so_says_why(
    control: ControlClient, web: httpx.Client, body: Any, says: str
) -> None:
    """Nothing moves, and the sentence says what would be right."""
    refused = web.put("clock", content=json.dumps(body))

    assert refused.status_code == 422
    assert says in refused.json()["detail"]
    assert control.clock()["ahead_s"] == 0.0
