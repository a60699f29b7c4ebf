"""A look-up shows the ledger as it is, as it was, nothing, or too much."""

from __future__ import annotations

import pytest

from simulator.provider.ledger import Ledger
from simulator.provider.lookup import PLAIN, Query, View, look
from tests.simulator.provider.mails import acceptance, after

ONE, TWO = acceptance(1), acceptance(2, accepted_at=after(10))


def seen(query: Query, view: View = PLAIN, *, lag_s: float = 0, at_s: float = 60) -> list[int]:
    ledger = Ledger()
    for each in (ONE, TWO):
        ledger.book(each)
    return [each.number for each in look(ledger, query, view, lag_s=lag_s, now=after(at_s))]


@pytest.mark.parametrize(
    "query", [Query(id="msg_2"), Query(key="key-2"), Query(message_id="<2@example.org>")]
)
def test_what_is_asked_for_is_found(query: Query) -> None:
    assert seen(query) == [2]
    assert seen(query, View(hides=True)) == []


@pytest.mark.parametrize("query", [Query(id="x"), Query(key="x"), Query(message_id="x")])
def test_what_is_not_there_is_not_found(query: Query) -> None:
    assert seen(query) == []


def test_an_old_copy_does_not_know_what_came_since() -> None:
    stale = View(age_s=30)

    assert seen(Query(key="key-2"), stale, at_s=39.9) == []
    assert seen(Query(key="key-2"), stale, at_s=40) == [2]
    assert seen(Query(key="key-1"), stale, at_s=39.9) == [1]


def test_the_longer_of_lag_and_age_counts() -> None:
    assert seen(Query(key="key-2"), View(age_s=5), lag_s=30, at_s=39.9) == []
    assert seen(Query(key="key-2"), View(age_s=5), lag_s=30, at_s=40) == [2]


def test_a_filter_that_is_ignored_shows_everything() -> None:
    assert seen(Query(key="x"), View(everything=True)) == [1, 2]
    assert seen(Query(id="msg_1"), View(everything=True)) == [1]


@pytest.mark.parametrize(
    ("view", "name"),
    [
        (View(hides=True), "finds nothing"),
        (View(everything=True), "finds everything"),
        (View(age_s=5), "as it was 5s ago"),
    ],
)
def test_a_view_has_a_name_for_people(view: View, name: str) -> None:
    assert str(view) == name
