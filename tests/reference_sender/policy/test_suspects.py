"""Which mails go alone, and which were lost in company."""

from __future__ import annotations

import pytest

from reference_sender.life import State
from reference_sender.policy.decision import before_sending
from reference_sender.policy.suspects import (
    LOST_TOGETHER,
    Suspects,
    alone_for_s,
    is_suspect,
    left_lying,
    lost_in_company,
)
from tests.reference_sender.samples import NOW, docket, settings


@pytest.mark.parametrize(
    ("losses", "alone", "in_company"),
    [
        (None, False, False),
        (-1, False, True),
        (0, False, True),
        (1, LOST_TOGETHER == 1, True),
        (LOST_TOGETHER, True, True),
        (LOST_TOGETHER + 1, True, False),
    ],
)
def test_from_the_last_loss_in_company_on_it_goes_alone(
    losses: int | None, alone: bool, in_company: bool
) -> None:
    assert (is_suspect(losses), lost_in_company(losses)) == (alone, in_company)


@pytest.mark.parametrize(
    ("losses", "ends"),
    [(None, True), (-1, False), (0, False), (1, False), (LOST_TOGETHER, False), (LOST_TOGETHER + 1, True)],
)
def test_what_was_lost_in_company_ends_nobody(losses: int | None, ends: bool) -> None:
    decision = before_sending(docket(attempts=13, losses=losses), settings(max_attempts=12), NOW)
    assert (decision is not None and decision.state is State.DEAD) is ends


@pytest.mark.parametrize(
    ("losses", "seconds"),
    [
        (None, 10.0),
        (LOST_TOGETHER, 10.0),
        (LOST_TOGETHER + 1, 20.0),
        (LOST_TOGETHER + 2, 40.0),
        (LOST_TOGETHER + 7, 1280.0),
    ],
)
def test_each_further_loss_doubles_the_time_that_a_suspect_goes_alone(
    losses: int | None, seconds: float
) -> None:
    """Who kills his worker late does so alone soon."""
    assert alone_for_s(losses, 10.0) == seconds


def test_a_count_that_nobody_can_have_reached_is_borne() -> None:
    """Somebody may have edited it."""
    assert alone_for_s(2**31 - 1, 10.0) > 1e9


FOUND = [(1, 0), (2, LOST_TOGETHER), (3, 1), (4, LOST_TOGETHER + 3)]


@pytest.mark.parametrize(
    ("told", "left", "taken"),
    [
        (Suspects(), {1, 3, 4}, True),
        (Suspects(may_take=True, first=False), {2, 4}, False),
        (Suspects(may_take=False, first=False), {2, 4}, False),
    ],
)
def test_of_what_was_found_one_is_taken_alone_or_all_that_are_none(
    told: Suspects, left: set[int], taken: bool
) -> None:
    assert left_lying(FOUND, told) == left
    assert (told.taken, told.waits) == (taken, not taken)


def test_where_there_is_nothing_else_one_goes_before_its_turn() -> None:
    told = Suspects(may_take=True, first=False)
    assert left_lying(FOUND[1::2], told) == {4}
    assert told.taken


def test_where_there_is_none_nothing_is_left_lying() -> None:
    told = Suspects(waits=True)
    told.begin()
    assert left_lying(FOUND[::2], told) == set()
    assert (told.taken, told.waits) == (False, False)
