"""The ledger: found by every name, and the same facts are the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from simulator.provider.acceptance import Acceptance
from simulator.provider.fate import Fate
from simulator.provider.ledger import Ledger
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


# --- the window -------------------------------------------------------------------------------------


class Kept:
    """A store that has everything up to a number."""

    def __init__(self, *mails: Acceptance) -> None:
        self.mails = mails
        self.asked = 0

    def get(self, account: str, id_: str) -> Acceptance | None:
        self.asked += 1
        return next((each for each in self.mails if each.id == id_), None)

    def with_key(self, account: str, key: str) -> list[Acceptance]:
        self.asked += 1
        return [each for each in self.mails if each.key == key]

    def with_message_id(self, account: str, message_id: str) -> list[Acceptance]:
        self.asked += 1
        return [each for each in self.mails if each.message_id == message_id]

    def acceptances(self, account: str) -> Iterator[Acceptance]:
        return iter(self.mails)


def grown(past: Kept, *mails: Acceptance) -> Ledger:
    book = Ledger(past=past, window=4)
    for each in mails:
        book.book(each)
    return book


MAILS = [acceptance(n, key=f"key-{n % 3}", message_id=f"<{n % 4}@example.org>") for n in range(1, 21)]


def test_only_the_newest_stay_in_memory() -> None:
    """And nothing else of the others does: no name leads to them."""
    book = grown(Kept(*MAILS), *MAILS)

    assert [each.number for each in book.acceptances] == [17, 18, 19, 20]
    assert {name for name in Ledger.__slots__ if name.startswith("_by_")} == {
        "_by_id",
        "_by_key",
        "_by_message_id",
        "_by_recipient",
    }
    for index in (book._by_id, book._by_key, book._by_message_id, book._by_recipient):
        numbers = {
            each.number
            for found in index.values()
            for each in (found if isinstance(found, list) else [found])
        }
        assert numbers == {17, 18, 19, 20}


def test_what_left_memory_is_found_in_the_past() -> None:
    """By every name, in order, and nothing twice, wherever the past ends."""
    for known in (MAILS[:16], MAILS[:18], MAILS):
        book = grown(Kept(*known), *MAILS)
        assert book.get("msg_2") == MAILS[1]
        assert book.get("msg_19") == MAILS[18]
        assert [each.number for each in book.with_key("key-1")] == [1, 4, 7, 10, 13, 16, 19]
        assert [each.number for each in book.with_message_id("<2@example.org>")] == [2, 6, 10, 14, 18]
        assert [each.number for each in book.everything()] == list(range(1, 21))
        latest = book.latest_with_key("key-1")
        assert latest is not None
        assert latest.number == 19


def test_the_past_is_not_asked_while_everything_is_in_memory() -> None:
    past = Kept()
    book = grown(past, *MAILS[:4])

    assert book.latest_with_key("nobody's") is None
    assert book.get("msg_9") is None
    assert book.with_key("key-1") == [MAILS[0], MAILS[3]]
    assert past.asked == 0


def test_the_latest_with_a_key_is_found_in_the_past() -> None:
    book = grown(Kept(*MAILS[:10]), *MAILS[10:])
    latest = book.latest_with_key("key-9")
    assert latest is None
    only = grown(Kept(acceptance(1, key="old"), acceptance(2, key="old")), *MAILS[4:])
    found = only.latest_with_key("old")
    assert found is not None
    assert found.number == 2


def test_the_past_is_not_asked_for_a_key_that_never_was() -> None:
    """As long as all acceptances have passed through here; then a new key costs no look into a store."""
    past = Kept(*MAILS)
    book = grown(past, *MAILS)

    assert book.has_older
    assert [book.latest_with_key(f"new-{n}") for n in range(100)] == [None] * 100
    assert past.asked == 0
    own = grown(past, *(replace(each, key=f"own-{each.number}") for each in MAILS))
    assert own.latest_with_key("own-1") is None
    assert past.asked == 1

    restarted = grown(past, *MAILS[5:])
    assert restarted.latest_with_key("new") is None
    assert past.asked == 2
