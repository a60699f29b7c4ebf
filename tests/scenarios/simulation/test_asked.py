"""Tests of what decides a run: behaviours that were met, and those that are still to come."""

from __future__ import annotations

from datetime import UTC, datetime

from scenarios.simulation.asked import EACH, Notes, met, noted, says_goodbye, to_come
from simulator.config import read_plan
from simulator.provider.message import Submission
from simulator.provider.provider import DEFAULT_ACCOUNT, Detail, Provider

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = {"rule": [{"fault": "hang", "stage": "accept", "attempt": 2}]}


def test_a_plan_notes_in_which_attempt_it_is_asked_at_which_stage() -> None:
    """With rules or without any; and nothing any more when the script is over."""
    for plan in ({}, PLAN):
        notes = Notes()
        with noted(notes):
            provider = Provider(setup=read_plan(plan, "a test"), now=NOW)
        for _ in range(2):
            attempt = provider.open("native", "10.0.0.2", NOW)
            provider.step(attempt, "request", Detail(), NOW)
        provider.accounts[DEFAULT_ACCOUNT].plan.stands_at("http", "upload")
        notes.end()
        provider.step(attempt, "validate", Detail(), NOW)

        assert notes.asked == {(1, "request"), (2, "request"), (EACH, "upload")}
        assert list(notes.numbers.values()) == [1, 2]


def test_also_one_that_has_nothing_to_say_is_asked() -> None:
    """A provider may go a short way where its plan is blind; then nobody would know what was met."""
    with noted(Notes()):
        account = Provider(setup=read_plan({}, "a test"), now=NOW).account(DEFAULT_ACCOUNT, NOW)

    for wire in ("http", "smtp"):
        assert not account.is_silent(wire)
        assert not account.is_quiet_at(wire, "connect")
    mail = Submission(dialect="native", sender="a@example.org", recipients=("b@example.com",), raw=b"")
    assert not account.is_quiet(mail)
    account.plan.add(read_plan(PLAN, "a test").plan.rules, NOW)
    assert not account.is_silent("smtp")


def test_only_a_goodbye_is_said_to_who_asks_for_it() -> None:
    """Whether workers are stopped at the end decides a run, too."""
    assert says_goodbye("smtp", ("ok", "QUIT hangs"))
    assert not says_goodbye("smtp", ("ok", "dot 451"))


def test_only_what_is_met_decides() -> None:
    """The stage must have been come to in that attempt; some rules show by standing there."""
    asked = frozenset({(1, "accept"), (2, "connect"), (2, "request"), (EACH, "upload")})

    assert met("http", ("503", "503"), asked) == ("503",)
    assert met("http", ("taken, closed", "401"), asked) == ("ok", "401")
    assert met("http", ("ok", "ok", "upload closed"), asked) == ("ok", "ok", "upload closed")
    assert met("http", ("503", "(connect)"), asked) == ("503", "(connect)")


def test_what_is_over_will_not_strike() -> None:
    """But what sticks to a mail will, and a rule that shows by standing leaves a mark."""
    script = ("503", "400", "door closes", "500")

    assert to_come("http", script, (1, 2, 3), ("connect",)) == ("ok", "400", "(connect)", "500")
    assert to_come("http", script, (), ()) == script
