"""A key is new, in flight, done or forgotten; what a second request meets is one cell of one table."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.provider.acceptance import Acceptance
from simulator.provider.answer import Reason, Reply, Words
from simulator.provider.idempotency import (
    CARRIERS,
    FORMS,
    WAYS,
    Conflict,
    Does,
    Fresh,
    Kept,
    KeyRules,
    Keys,
    Outstanding,
    Replay,
)
from tests.simulator.provider.mails import NOW, acceptance, after

RULES = KeyRules(window_s=60)
DONE = acceptance(1, key="k", fingerprint="f")
NO = Reply(code=503)


def look(
    keys: Keys, *, fingerprint: str = "f", attempt: str = "att_2", at_s: float = 0, **rules: Any
) -> Fresh | Replay | Conflict | Outstanding:
    return keys.look_up("k", fingerprint, attempt, KeyRules(window_s=60, **rules), after(at_s))


def kept(words: Words | None = NO, *, attempt: str = "att_1", failed: bool = True) -> Kept:
    return Kept(fingerprint="f", at=NOW, attempt=attempt, words=words, failed=failed)


def in_flight() -> Keys:
    keys = Keys()
    keys.begin("k", "f", "att_1")
    return keys


def finish(keys: Keys, done: Acceptance) -> None:
    keys.ledger.book(done)
    keys.finish("k")


def recall(keys: Keys, done: Acceptance | Kept) -> None:
    if isinstance(done, Acceptance):
        keys.ledger.book(done)
    keys.recall("k", done)


def finished() -> Keys:
    keys = in_flight()
    finish(keys, DONE)
    return keys


def failed(**rules: Any) -> Keys:
    keys = in_flight()
    keys.failed("k", kept(), KeyRules(**rules))
    keys.release("att_1")
    return keys


# --- the life of a key ------------------------------------------------------------------------------


def test_an_unknown_key_is_fresh() -> None:
    assert look(Keys()) == Fresh()


def test_a_key_in_flight_belongs_to_its_attempt() -> None:
    found = look(in_flight())

    assert isinstance(found, Conflict)
    assert found.reason is Reason.KEY_IN_FLIGHT
    assert look(in_flight(), attempt="att_1") == Fresh()


def test_a_released_key_is_fresh_again() -> None:
    keys = in_flight()
    keys.release("att_1")

    assert look(keys) == Fresh()


def test_the_release_of_another_attempt_changes_nothing() -> None:
    keys = in_flight()
    keys.begin("k", "f", "att_2")
    keys.release("att_2")

    assert isinstance(look(keys), Conflict)


def test_only_without_a_lock_and_until_it_ends_an_attempt_is_let_through() -> None:
    keys, without_a_lock = in_flight(), KeyRules(in_flight="process")
    keys.begin("k", "f", "att_2")

    assert [keys.is_let_through("k", f"att_{each}", without_a_lock) for each in (1, 2, 3)] == [
        True,
        True,
        False,
    ]
    assert not keys.is_let_through("another", "att_1", without_a_lock)
    assert not keys.is_let_through("k", "att_1", KeyRules())
    keys.release("att_2")
    assert not keys.is_let_through("k", "att_2", without_a_lock)


def test_a_key_is_forgotten_when_its_window_is_over() -> None:
    assert look(finished(), at_s=59.9) == Replay(DONE)
    assert look(finished(), at_s=60) == Fresh()


def test_a_look_up_changes_nothing() -> None:
    """A longer window set later finds the key again, as it would after a restart."""
    keys = finished()
    look(keys, at_s=100)

    assert keys.look_up("k", "f", "att_2", KeyRules(window_s=1000), after(100)) == Replay(DONE)


def test_a_second_acceptance_takes_the_key_over() -> None:
    keys = finished()
    again = acceptance(2, key="k", accepted_at=after(100))
    finish(keys, again)

    assert look(keys, at_s=101) == Replay(again)
    assert DONE.accepted_at == NOW


# --- the table --------------------------------------------------------------------------------------

FINISHED = {
    "replay": Replay(acceptance=DONE),
    "without_id": Replay(acceptance=DONE, shows_id=False),
    "conflict": (Reason.KEY_DONE, 409, None),
}
REUSED = {
    "unprocessable": (Reason.KEY_REUSED, 422, None),
    "conflict": (Reason.KEY_REUSED, 409, None),
    "replay": Replay(acceptance=DONE),
}
IN_FLIGHT = {
    "conflict": (Reason.KEY_IN_FLIGHT, 409, None),
    "retry_after": (Reason.KEY_IN_FLIGHT, 409, 1.0),
    "wait": (Reason.KEY_IN_FLIGHT, 409, 1.0),
    "process": Fresh(),
}
FAILED = {
    "release": Fresh(),
    "replay": Replay(words=NO),
    "refuse": (Reason.KEY_FAILED, 412, None),
}


def said(found: Fresh | Replay | Conflict | Outstanding) -> object:
    """Return what a test compares: a conflict by its facts, without its sentence."""
    if isinstance(found, Outstanding):
        assert found.for_s == found.conflict.wait_s
        found = found.conflict
    if not isinstance(found, Conflict):
        return found
    assert found.detail
    return found.reason, found.code, found.wait_s


@pytest.mark.parametrize("way", WAYS["finished"])
def test_a_finished_key(way: str) -> None:
    assert said(look(finished(), finished=way)) == FINISHED[way]


@pytest.mark.parametrize("way", WAYS["reused"])
def test_a_key_with_another_body(way: str) -> None:
    assert said(look(finished(), fingerprint="other", reused=way)) == REUSED[way]


@pytest.mark.parametrize("way", WAYS["in_flight"])
def test_a_key_in_flight(way: str) -> None:
    found = look(in_flight(), in_flight=way)

    assert said(found) == IN_FLIGHT[way]
    assert isinstance(found, Outstanding) is (way == "wait")


@pytest.mark.parametrize("way", WAYS["failed"])
def test_a_key_whose_request_failed(way: str) -> None:
    assert said(look(failed(failed=way), failed=way)) == FAILED[way]


def test_the_table_is_whole() -> None:
    """Every cell is tested above, every setting has its row, and every usual choice is one of the table."""
    tested = {"finished": FINISHED, "reused": REUSED, "in_flight": IN_FLIGHT, "failed": FAILED}
    rules = KeyRules()

    assert {situation: set(row) for situation, row in tested.items()} == {
        situation: set(row) for situation, row in WAYS.items() if situation != "lied"
    }
    assert all(getattr(rules, situation) in row for situation, row in WAYS.items())
    assert rules.carrier in CARRIERS
    assert rules.form in FORMS
    for row in WAYS.values():
        for way in row.values():
            refuses = way.does in (Does.REFUSE, Does.WAIT)
            assert refuses is (way.reason is not None) is (way.code is not None) is bool(way.detail)


# --- what is kept besides acceptances ---------------------------------------------------------------


def test_a_released_key_is_not_refused_for_its_body() -> None:
    """Who may use a key again may say something else with it."""
    keys = Keys()
    keys.keep("k", kept(None, failed=False))

    assert look(keys, fingerprint="other") == Fresh()


def test_a_failed_key_with_another_body_is_a_reuse() -> None:
    found = look(failed(failed="replay"), fingerprint="other", failed="replay")

    assert isinstance(found, Conflict)
    assert found.reason is Reason.KEY_REUSED


def test_an_error_is_only_kept_where_keys_keep_errors() -> None:
    """Should the setting change later, the key is free: nobody promised to keep it."""
    assert look(failed(failed="release"), failed="replay", attempt="att_1") == Fresh()


def test_an_error_does_not_take_the_place_of_another_requests_success() -> None:
    """A rule strikes the repetition of a request that was accepted: its key stays done."""
    keys = finished()

    assert not keys.failed("k", kept(attempt="att_2"), KeyRules(failed="replay"))
    assert look(keys) == Replay(DONE)


def test_a_stored_error_has_the_window_of_its_key() -> None:
    assert look(failed(failed="replay"), failed="replay", at_s=60) == Fresh()


@pytest.mark.parametrize("turned", [False, True])
def test_after_a_restart_the_later_attempt_counts(turned: bool) -> None:
    """Records come back sorted by kind, not by time."""
    booked = acceptance(10, key="k", fingerprint="f")
    memories: list[Acceptance | Kept] = [kept(attempt="att_2"), booked]
    keys = Keys()
    for each in reversed(memories) if turned else memories:
        recall(keys, each)

    assert look(keys, failed="replay") == Replay(booked)


def test_after_a_restart_what_an_attempt_kept_counts_more_than_what_it_booked() -> None:
    """A batch has booked under its key, and remembers the whole answer; so does one that lied."""
    keys = Keys()
    recall(keys, acceptance(3, key="k", fingerprint="f", batch="att_1"))
    recall(keys, kept(failed=False))

    assert look(keys) == Replay(words=NO)


def test_of_what_stands_in_no_ledger_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten first; a mistake of a sender must not fill our memory."""
    monkeypatch.setattr("simulator.provider.idempotency.KEPT", 2)
    keys = Keys()
    for key in ("a", "b", "a", "c"):
        keys.keep(key, kept())

    assert keys.look_up("b", "f", "att_2", KeyRules(failed="replay"), NOW) == Fresh()
    for key in ("a", "c"):
        assert keys.look_up(key, "f", "att_2", KeyRules(failed="replay"), NOW) == Replay(words=NO)
