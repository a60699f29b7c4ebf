"""What the data forbid: each bar has its end, and doubt stays doubt."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reference_sender.life import MOVES, Actor, Bar, State
from reference_sender.policy.bars import AFTER_DEPENDENCY, BARRED
from reference_sender.policy.decision import before_sending
from tests.reference_sender.samples import NOW, docket, settings


def test_every_bar_is_in_the_table_and_the_worker_may_make_its_move() -> None:
    assert set(BARRED) == set(Bar)
    for each in BARRED.values():
        assert Actor.WORKER in MOVES[State.SENDING, each.state]
        if each.state is not State.PENDING:
            assert Actor.RECONCILER in MOVES[State.UNKNOWN, each.state]


@pytest.mark.parametrize("bar", [bar for bar in Bar if BARRED[bar].state is not State.PENDING])
def test_a_barred_mail_ends_without_an_attempt(bar: Bar) -> None:
    decision = before_sending(docket(bar=bar), settings(), NOW)
    assert decision is not None
    assert (decision.state, decision.reason) == (BARRED[bar].state, BARRED[bar].reason)


@pytest.mark.parametrize("bar", [bar for bar in Bar if BARRED[bar].state is not State.PENDING])
def test_a_barred_mail_that_may_have_been_accepted_is_unknown(bar: Bar) -> None:
    decision = before_sending(docket(bar=bar, doubted_at=NOW), settings(), NOW)
    assert decision is not None
    assert (decision.state, decision.if_not_sent) == (State.UNKNOWN, BARRED[bar].state)


@pytest.mark.parametrize("bar", [Bar.PAUSED, Bar.OUT_OF_TURN])
def test_a_mail_whose_time_has_not_come_waits_and_loses_no_attempt(bar: Bar) -> None:
    decision = before_sending(docket(bar=bar), settings(), NOW)
    assert decision is not None
    assert (decision.state, decision.refund) == (State.PENDING, True)
    assert decision.next_attempt_at == NOW + timedelta(seconds=BARRED[bar].again_after_s)


def test_a_mail_that_waits_for_ever_expires_all_the_same() -> None:
    decision = before_sending(docket(bar=Bar.PAUSED, expires_at=NOW), settings(), NOW)
    assert decision is not None
    assert decision.state is State.EXPIRED


def test_what_is_not_over_is_waited_for() -> None:
    for state in (State.PENDING, State.SENDING, State.UNKNOWN, State.DEAD):
        assert state not in AFTER_DEPENDENCY
    assert AFTER_DEPENDENCY[State.ACCEPTED] is None
