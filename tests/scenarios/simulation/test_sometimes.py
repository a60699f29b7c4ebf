"""Tests of what has to happen sometimes: it is seen where it happened, and only there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from scenarios.history import History
from scenarios.simulation.profiles import BY_ID, Profile
from scenarios.simulation.sometimes import SOMETIMES, events_of
from simulator.provider.obligations import Reported
from tests.scenarios.made import copy, history, owed, tried

KEYS, PARKS, LIMITED = (BY_ID[name] for name in ("http-keys", "smtp-at-most-once", "http-limited"))


def world(*wired: bytes) -> Any:
    """A world of which only what was on the wire is asked."""
    return SimpleNamespace(network=SimpleNamespace(seen=[SimpleNamespace(data=each) for each in wired]))


def said(state: Reported) -> History:
    return history((owed(state=state),))


def test_every_profile_has_something_that_must_happen() -> None:
    """A run in which it does not says nothing."""
    assert SOMETIMES.keys() == BY_ID.keys()
    assert all(SOMETIMES.values())


def test_where_nothing_happened_nothing_is_seen() -> None:
    """A mail that was taken at once is nothing to speak of."""
    quiet = replace(said(Reported.ACCEPTED), acceptances=(copy(),), attempts=(tried(took=True),))
    assert events_of(world(b"POST /v1/emails"), quiet, KEYS, overtaken=False) == frozenset()


@pytest.mark.parametrize(
    ("profile", "what", "happened"),
    [
        (KEYS, said(Reported.FAILED), {"refused for good"}),
        (PARKS, said(Reported.UNKNOWN), {"parked and not accepted"}),
        (PARKS, replace(said(Reported.UNKNOWN), acceptances=(copy(),)), {"parked and accepted"}),
        (
            PARKS,
            replace(said(Reported.ACCEPTED), acceptances=(copy(1), copy(2))),
            {"a second copy"},
        ),
        (
            KEYS,
            replace(
                said(Reported.ACCEPTED),
                attempts=(tried(took=True, sent="nothing"), tried(2, "200", key="order-1")),
                acceptances=(copy(),),
            ),
            {"an answer was lost", "a key was replayed", "recovered"},
        ),
        (
            KEYS,
            replace(said(Reported.PENDING), attempts=(tried(1, "409", key="order-1"),)),
            {"a key was in flight"},
        ),
    ],
)
def test_what_happened_is_seen(profile: Profile, what: History, happened: set[str]) -> None:
    """By what the provider noted and what the sender says."""
    assert events_of(world(), what, profile, overtaken=False) == happened


def test_an_answer_to_a_look_is_seen_on_the_wire() -> None:
    """Found, and not found."""
    found = world(b'HTTP/1.1 200 OK\r\n\r\n{"data":[{"id":"m1"}]}')
    nothing = world(b'{"data":[]}')
    quiet = said(Reported.PENDING)
    assert events_of(found, quiet, KEYS, overtaken=False) == {"looked up and found"}
    assert events_of(nothing, quiet, KEYS, overtaken=False) == {"looked up and not found"}


def test_who_was_stopped_is_overtaken_only_if_somebody_else_tried() -> None:
    """One attempt alone is his own."""
    once = replace(said(Reported.ACCEPTED), attempts=(tried(took=True),))
    twice = replace(once, attempts=(tried(took=True), tried(2, took=True)))
    assert "overtaken while frozen" not in events_of(world(), once, KEYS, overtaken=True)
    assert "overtaken while frozen" not in events_of(world(), twice, KEYS, overtaken=False)
    assert "overtaken while frozen" in events_of(world(), twice, KEYS, overtaken=True)


def test_a_mail_has_waited_for_the_limit_if_it_came_as_much_later() -> None:
    """One more than the burst, and not before its turn."""
    rate, burst = float(LIMITED.sender["rate_per_s"]), int(LIMITED.sender["rate_burst"])
    who = [f"user{number}@example.com" for number in range(burst + 1)]

    def came(last_s: float) -> History:
        times = [0.0] * burst + [last_s]
        return replace(
            history(tuple(owed(each, ref=each) for each in who)),
            attempts=tuple(
                tried(number, took=True, recipients=(each,), begins_s=at)
                for number, (each, at) in enumerate(zip(who, times, strict=True))
            ),
        )

    assert "a mail waited for the limit" in events_of(world(), came(1 / rate), LIMITED, overtaken=False)
    assert "a mail waited for the limit" not in events_of(world(), came(0.9 / rate), LIMITED, overtaken=False)
