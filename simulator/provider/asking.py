"""Senders look mail up: what goes wrong with that, and what they are shown. `now` is the real time."""

from __future__ import annotations

from datetime import datetime

from simulator.provider.acceptance import Acceptance
from simulator.provider.answer import Answer
from simulator.provider.detail import NOTHING_NEW
from simulator.provider.directory import Directory
from simulator.provider.ledger import Attempt
from simulator.provider.lookup import PLAIN, Query, View, look
from simulator.provider.striking import Striking


class Asking:
    """One provider's."""

    def __init__(self, directory: Directory, striking: Striking) -> None:
        self._directory = directory
        self._striking = striking
        self._asked = 0

    def open(self, account: str, peer: str, connection: str, query: Query, now: datetime) -> Attempt:
        """A sender looks mail up. That is no attempt of the ledger's, but rules and people see it as they see those."""
        self._asked += 1
        return Attempt(
            id=f"look_{self._asked}",
            number=0,
            account=account,
            dialect="native",
            connection=connection or f"l{self._asked}",
            peer=peer,
            opened_at=self._directory.account(account, now).clock.now(now),
            stage="lookup",
            key=query.key,
            message_id=query.message_id,
        )

    def step(self, asking: Attempt, now: datetime) -> tuple[Answer | None, View]:
        """Say what goes wrong at stage `lookup`, and how this look-up sees the ledger."""
        account = self._directory.account(asking.account, now)
        occasion = self._striking.occasion(account, asking, "lookup", NOTHING_NEW)
        strike = self._striking.strike(asking, "lookup", NOTHING_NEW, occasion, account.clock.now(now))
        return (None, PLAIN) if strike is None else (strike.answer, strike.view)

    def find(self, query: Query, name: str, now: datetime, *, view: View = PLAIN) -> list[Acceptance]:
        """Return what a sender's look-up shows of an account by now."""
        account = self._directory.account(name, now)
        lag_s = account.setup.keys.lookup_lag_s
        return look(account.ledger, query, view, lag_s=lag_s, now=account.clock.now(now))
