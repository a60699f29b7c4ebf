"""A key is new, in flight, done or forgotten; the first answer comes back."""

from __future__ import annotations

from simulator.provider.answer import Reason
from simulator.provider.idempotency import Conflict, Fresh, KeyRules, Keys, Replay
from tests.simulator.provider.mails import NOW, acceptance, after

RULES = KeyRules(window_s=60)
DONE = acceptance(1, key="k", fingerprint="f")


def look(
    keys: Keys, *, fingerprint: str = "f", attempt: str = "att_2", at_s: float = 0
) -> Fresh | Replay | Conflict:
    return keys.look_up("k", fingerprint, attempt, RULES, after(at_s))


def test_an_unknown_key_is_fresh() -> None:
    assert look(Keys()) == Fresh()


def test_a_key_in_flight_belongs_to_its_attempt() -> None:
    keys = Keys()
    keys.begin("k", "f", "att_1")

    found = look(keys)

    assert isinstance(found, Conflict)
    assert found.reason is Reason.KEY_IN_FLIGHT
    assert look(keys, attempt="att_1") == Fresh()


def test_a_released_key_is_fresh_again() -> None:
    keys = Keys()
    keys.begin("k", "f", "att_1")
    keys.release("att_1")

    assert look(keys) == Fresh()


def test_the_release_of_another_attempt_changes_nothing() -> None:
    keys = Keys()
    keys.begin("k", "f", "att_1")
    keys.release("att_2")

    assert isinstance(look(keys), Conflict)


def test_a_replayed_key_gets_the_first_answer_back() -> None:
    keys = Keys()
    keys.begin("k", "f", "att_1")
    keys.finish("k", DONE)

    assert look(keys) == Replay(DONE)


def test_a_key_with_another_body_is_a_conflict() -> None:
    keys = Keys()
    keys.finish("k", DONE)

    found = look(keys, fingerprint="other")

    assert isinstance(found, Conflict)
    assert found.reason is Reason.KEY_REUSED


def test_a_key_is_forgotten_when_its_window_is_over() -> None:
    keys = Keys()
    keys.finish("k", DONE)

    assert look(keys, at_s=59.9) == Replay(DONE)
    assert look(keys, at_s=60) == Fresh()


def test_a_look_up_changes_nothing() -> None:
    """A longer window set later finds the key again, as it would after a restart."""
    keys = Keys()
    keys.finish("k", DONE)
    look(keys, at_s=100)

    assert keys.look_up("k", "f", "att_2", KeyRules(window_s=1000), after(100)) == Replay(DONE)


def test_a_second_acceptance_takes_the_key_over() -> None:
    keys = Keys()
    keys.finish("k", DONE)
    again = acceptance(2, key="k", accepted_at=after(100))
    keys.finish("k", again)

    assert look(keys, at_s=101) == Replay(again)
    assert DONE.accepted_at == NOW
