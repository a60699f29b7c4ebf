"""What the outbox must do on every database: the contract."""

from __future__ import annotations

from tests.reference_sender.outbox.contract import Contract


class TestOnADatabase(Contract):
    """The contract."""
