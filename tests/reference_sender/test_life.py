"""The life of a row: which moves exist, and who may make them."""

from __future__ import annotations

import pytest

from reference_sender.life import FINAL, MOVES, Actor, State, may_move
from tests.reference_sender.samples import NOW, docket


@pytest.mark.parametrize("state", [State.ACCEPTED, State.EXPIRED, State.SUPPRESSED])
def test_a_final_state_is_never_left(state: State) -> None:
    assert [move for move in MOVES if move[0] is state] == []


@pytest.mark.parametrize("state", [State.FAILED, State.DEAD])
def test_only_a_person_leaves_failed_and_dead(state: State) -> None:
    assert {Actor.PERSON} == {actor for (start, _), who in MOVES.items() if start is state for actor in who}


def test_only_the_worker_sends() -> None:
    assert {Actor.WORKER} == {
        actor for (_, end), who in MOVES.items() if end is State.SENDING for actor in who
    }


def test_only_an_event_about_an_earlier_attempt_skips_sending_on_the_way_to_accepted() -> None:
    starts = {start for start, end in MOVES if end is State.ACCEPTED}
    assert {State.SENDING, State.UNKNOWN, State.PENDING} == starts
    assert {Actor.EVENTS} == set(MOVES[State.PENDING, State.ACCEPTED])


def test_events_only_prove_acceptance() -> None:
    assert {State.ACCEPTED} == {end for (_, end), who in MOVES.items() if Actor.EVENTS in who}


def test_the_worker_never_leaves_unknown() -> None:
    assert not any(may_move(Actor.WORKER, State.UNKNOWN, end) for end in State)


def test_every_state_can_be_reached_and_every_move_has_a_reason() -> None:
    reached = {State.PENDING}
    while more := {end for start, end in MOVES if start in reached} - reached:
        reached |= more
    assert set(State) == reached
    assert all(why for who in MOVES.values() for why in who.values())


def test_a_move_that_is_not_in_the_table_does_not_exist() -> None:
    assert not may_move(Actor.PERSON, State.ACCEPTED, State.PENDING)
    assert not may_move(Actor.WORKER, State.PENDING, State.ACCEPTED)


def test_final_states_are_those_that_no_program_leaves() -> None:
    left = {start for (start, _), who in MOVES.items() if who.keys() - {Actor.PERSON}}
    assert frozenset(State) - left == FINAL


def test_a_docket_is_doubted_once_an_attempt_ended_in_doubt() -> None:
    assert not docket().doubted
    assert docket(doubted_at=NOW).doubted
