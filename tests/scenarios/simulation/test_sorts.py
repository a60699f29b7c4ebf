"""Tests of the sorts of mails: what each says, and where it is played."""

from __future__ import annotations

from collections import Counter

import pytest

from scenarios.simulation.profiles import BY_ID
from scenarios.simulation.senders import Owed
from scenarios.simulation.sorts import EXPIRES_S, PAIRS, PLAIN, SORTS, UNDONE, WEIGHTED, fits, made

MAIL = Owed(ref="order-2", recipients=("ada@example.com",))
OTHER = Owed(ref="order-1", recipients=("bob@example.com",))


def test_a_plain_mail_says_nothing() -> None:
    assert made(MAIL, PLAIN, 45.0, [OTHER]) == MAIL


@pytest.mark.parametrize("name", [name for name in SORTS if name != PLAIN])
def test_every_other_sort_says_something_of_the_same_mail(name: str) -> None:
    mail = made(MAIL, name, 0.0, [OTHER])

    assert mail != MAIL
    assert (mail.ref, mail.recipients) == (MAIL.ref, MAIL.recipients)


def test_who_depends_does_so_on_the_newest_if_there_is_one() -> None:
    newest = Owed(ref="order-4", recipients=("eve@example.com",))

    assert made(MAIL, "depends", 0.0, [OTHER, newest]).manner == (("depends_on", "order-4"),)
    assert made(MAIL, "depends", 0.0, []) == MAIL


def test_a_mail_expires_when_the_step_says_so() -> None:
    assert made(MAIL, "expires", 45.0, []).expires_s == 45.0
    assert made(MAIL, "expires", 0.0, []).expires_s == EXPIRES_S


def test_mails_that_wait_are_played_where_the_provider_can_be_asked() -> None:
    """Elsewhere one that is parked would stop the others for ever; a list that others keep as well is not ours to judge."""
    waiting = {"in order", "depends"}
    assert {name for name in SORTS if not fits(name, BY_ID["smtp-at-most-once"])} == waiting
    assert {name for name in SORTS if not fits(name, BY_ID["http-hearing"])} == {"suppressed"}
    assert all(fits(name, BY_ID["http-keys"]) for name in SORTS)


def test_most_mails_are_plain_and_every_sort_is_drawn() -> None:
    drawn = Counter(WEIGHTED)

    assert set(drawn) == set(SORTS)
    assert drawn[PLAIN] > len(WEIGHTED) / 2
    assert {name for pair in PAIRS for name in pair} | set(UNDONE) <= set(SORTS)
