"""Rows that go alone, on every database: the contract."""

from __future__ import annotations

from tests.reference_sender.outbox.suspects_contract import SuspectsContract


class TestSuspectsOnADatabase(SuspectsContract):
    """The contract."""
