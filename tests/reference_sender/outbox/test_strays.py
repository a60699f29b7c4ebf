"""Rows that nobody takes, on every database: the contract."""

from __future__ import annotations

from tests.reference_sender.outbox.strays_contract import StraysContract


class TestStraysOnADatabase(StraysContract):
    """The contract."""
