"""The ledger: found by every name, and the same facts are the same bytes."""

from __future__ import annotations

import pytest

from simulator.provider.fate import Fate
from simulator.provider.ledger import Ledger, message_name
from simulator.provider.search import Search
from tests.simulator.provider.mails import ANN, BOB, acceptance, after


def ledger() -> Ledger:
    book = Ledger()
    book.book(acceptance(1, [BOB], subject="Order", key="k"))
    book.book(acceptance(2, [ANN, BOB], accepted_at=after(1), message_id="<Two@example.org>"))
    book.book(acceptance(3, [ANN], key=None, message_id=None, fate=Fate.DROPPED))
    return book


def test_a_search_goes_by_an_index_where_there_is_one() -> None:
    """And finds what matches, not what the index says."""
    assert [each.number for each in ledger().search(Search(to=BOB, message_id="Two@example.org"))] == [2]
    assert ledger().search(Search(to=ANN, key="k")) == []
    assert [each.number for each in ledger().search(Search(q="ann@"))] == [2, 3]


def test_pages_follow_each_other_in_both_directions() -> None:
    """A page ends with the number after which the next one begins; the last one has none."""
    first = ledger().page(Search(), limit=2)
    rest = ledger().page(Search(), after=first.cursor, limit=2)

    assert ([each.number for each in first.found], first.cursor) == ([1, 2], 2)
    assert ([each.number for each in rest.found], rest.cursor) == ([3], None)
    newest = ledger().page(Search(to=ANN), limit=1, newest_first=True)
    assert ([each.number for each in newest.found], newest.cursor) == ([3], 3)
    older = ledger().page(Search(to=ANN), after=newest.cursor, limit=1, newest_first=True)
    assert ([each.number for each in older.found], older.cursor) == ([2], None)


def test_an_acceptance_is_found_by_its_id() -> None:
    found = ledger().get("msg_2")

    assert found is not None
    assert found.number == 2
    assert ledger().get("msg_9") is None


def test_nothing_is_booked_twice() -> None:
    book = ledger()

    with pytest.raises(AssertionError, match="booked twice"):
        book.book(acceptance(1))


def test_equal_ledgers_give_equal_lines() -> None:
    lines = list(ledger().dump())

    assert lines == list(ledger().dump())
    assert len(lines) == 3
    assert '"fate":"dropped"' in lines[2]


def test_names_follow_from_seed_account_and_number() -> None:
    names = {message_name(seed, account, n) for seed in (0, 1) for account in ("a", "b") for n in (1, 2)}

    assert len(names) == 8
    assert message_name(0, "a", 1) == message_name(0, "a", 1)
