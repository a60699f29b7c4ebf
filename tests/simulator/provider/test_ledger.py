"""The ledger: found by every name, and the same facts are the same bytes."""

from __future__ import annotations

import pytest

from simulator.provider.ledger import Fate, Ledger, message_name
from tests.simulator.provider.mails import ANN, BOB, acceptance, after


def ledger() -> Ledger:
    book = Ledger()
    book.book(acceptance(1, [BOB], subject="Order", key="k"))
    book.book(acceptance(2, [ANN, BOB], accepted_at=after(1), message_id="<Two@example.org>"))
    book.book(acceptance(3, [ANN], key=None, message_id=None, fate=Fate.DROPPED))
    return book


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, [1, 2, 3]),
        ({"to": BOB.upper()}, [1, 2]),
        ({"key": "k"}, [1]),
        ({"message_id": "<Two@example.org>"}, [2]),
        ({"message_id": "Two@example.org"}, [2]),
        ({"q": "ORDER"}, [1]),
        ({"q": "ann@"}, [2, 3]),
        ({"to": ANN, "key": "k"}, []),
        ({"to": BOB, "message_id": "Two@example.org"}, [2]),
        ({"key": "nobody's"}, []),
    ],
    ids=str,
)
def test_acceptances_are_found_by_all_conditions_together(wanted: dict[str, str], numbers: list[int]) -> None:
    assert [each.number for each in ledger().search(**wanted)] == numbers


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
