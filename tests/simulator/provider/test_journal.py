"""What is handed out to a store."""

from __future__ import annotations

from simulator.provider.detail import Detail
from simulator.provider.ledger import Booked, Sent, Tried, Wiped
from tests.simulator.provider.mails import NOW, mail, provider, send


def test_the_records_of_a_mail_are_complete_and_in_order() -> None:
    """The attempt stands before the acceptance that names it, once, as it ended; the bytes come with the acceptance."""
    it = provider()
    attempt, _ = send(it, mail())
    records = it.records()

    assert [type(each) for each in records] == [Tried, Booked]
    assert isinstance(records[1], Booked)
    assert records[1].raw == mail().raw
    assert records[1].acceptance.attempt == attempt.id
    assert isinstance(records[0], Tried)
    assert records[0].attempt == attempt
    assert it.records() == []


def test_what_is_written_after_a_reset_stands_after_it() -> None:
    """Otherwise a restart would read it, and then that everything before is gone."""
    it = provider()
    attempt = it.open("smtp", "127.0.0.1:1", NOW)
    it.told(attempt, Sent.UNKNOWN, NOW)
    it.reset(attempt.account, NOW)
    it.step(attempt, "mail", Detail(sender="a@example.org"), NOW)
    it.told(attempt, Sent.COMPLETE, NOW)
    before, reset, after = it.records()
    assert isinstance(before, Tried)
    assert isinstance(reset, Wiped)
    assert isinstance(after, Tried)
    assert (before.attempt.sender, after.attempt.sender) == (None, "a@example.org")
