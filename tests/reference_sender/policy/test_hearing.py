"""What an event says to a row in each state: it proves acceptance, and nothing is sent because of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reference_sender.life import Actor, State, may_move
from reference_sender.policy.hearing import LATEST_S, Course, look_again_at, on_event
from tests.reference_sender.samples import NOW, docket


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("doubted", [False, True])
def test_every_move_that_follows_is_one_of_the_table(state: State, doubted: bool) -> None:
    heard = on_event(docket(state=state, doubted_at=NOW if doubted else None), "m1")
    if heard.move is not None:
        assert heard.move.state is State.ACCEPTED
        assert may_move(Actor.EVENTS, state, State.ACCEPTED)
        assert heard.course is Course.KEPT
    assert heard.reason


@pytest.mark.parametrize(
    ("state", "doubted", "course", "moves", "notes"),
    [
        (State.ACCEPTED, False, Course.KEPT, False, True),
        (State.UNKNOWN, True, Course.KEPT, True, True),
        (State.PENDING, True, Course.KEPT, True, True),
        (State.PENDING, False, Course.LATER, False, False),
        (State.SENDING, False, Course.LATER, False, True),
        (State.SENDING, True, Course.LATER, False, True),
        (State.FAILED, False, Course.CONTRADICTS, False, True),
        (State.EXPIRED, False, Course.CONTRADICTS, False, True),
        (State.SUPPRESSED, False, Course.CONTRADICTS, False, True),
        (State.DEAD, False, Course.CONTRADICTS, False, True),
    ],
)
def test_the_table(state: State, doubted: bool, course: Course, moves: bool, notes: bool) -> None:
    heard = on_event(docket(state=state, doubted_at=NOW if doubted else None), "m1")
    assert (heard.course, heard.move is not None, heard.note_fact) == (course, moves, notes)


def test_the_name_that_the_provider_tells_is_kept_else_the_one_we_had() -> None:
    for told, known, kept in (("m2", None, "m2"), (None, "m1", "m1"), (None, None, None)):
        heard = on_event(docket(state=State.UNKNOWN, provider_id=known), told)
        assert heard.move is not None
        assert heard.move.provider_id == kept


@pytest.mark.parametrize(
    ("waited_s", "again_in_s"), [(0, 1.0), (0.5, 1.0), (7, 7.0), (899, 899.0), (86_000, LATEST_S), (-9, 1.0)]
)
def test_looks_become_rarer(waited_s: float, again_in_s: float) -> None:
    now = NOW + timedelta(seconds=waited_s)
    assert now + timedelta(seconds=again_in_s) == look_again_at(NOW, now, patience_s=86_400)


def test_and_come_to_an_end() -> None:
    assert look_again_at(NOW, NOW + timedelta(seconds=60), patience_s=60) is None
