"""What is handed out to a store."""

from __future__ import annotations

from simulator.provider.ledger import Booked, Tried
from tests.simulator.provider.mails import mail, provider, send


def test_the_records_of_a_mail_are_complete_and_in_order() -> None:
    """The attempt is known before the acceptance that names it, and the bytes come with the acceptance."""
    it = provider()
    attempt, _ = send(it, mail())
    records = it.records()

    assert [type(each) for each in records] == [Tried, Booked, Tried]
    assert isinstance(records[1], Booked)
    assert records[1].raw == mail().raw
    assert records[1].acceptance.attempt == attempt.id
    assert isinstance(records[-1], Tried)
    assert records[-1].attempt == attempt
    assert it.records() == []
