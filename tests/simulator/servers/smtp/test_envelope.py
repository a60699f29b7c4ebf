"""What MAIL and RCPT said, and what was asked to be told."""

from __future__ import annotations

from simulator.provider.message import Dsn, DsnRecipient
from simulator.servers.smtp.envelope import Envelope


def test_nothing_asked_is_nothing_to_be_told() -> None:
    envelope = Envelope()
    envelope.begin("a@x.example", {"SMTPUTF8": "", "SIZE": "1"})
    envelope.add("b@y.example", {})

    assert envelope.utf8
    assert envelope.wishes() is None


def test_a_recipient_named_twice_is_there_once_with_its_last_wishes() -> None:
    envelope = Envelope()
    envelope.begin("a@x.example", {"RET": "full"})
    envelope.add("b@y.example", {"NOTIFY": "success"})
    envelope.add("b@y.example", {"NOTIFY": "never"})

    assert envelope.recipients == ["b@y.example"]
    assert envelope.wishes() == Dsn(
        ret="FULL", recipients=(DsnRecipient(recipient="b@y.example", notify=("NEVER",)),)
    )
