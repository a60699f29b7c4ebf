"""What a sender's look-up shows: the ledger as it is, as it was a while ago, nothing, or too much.

Absence is no proof: a service shows an accepted mail late (`KeyRules.lookup_lag_s`), and a rule at stage `lookup`
can make it show less, or something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from simulator.provider.acceptance import Acceptance
from simulator.provider.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked for: exactly one of these."""

    id: str | None = None
    key: str | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a look-up sees the ledger."""

    age_s: float = 0.0
    """As it was so many seconds ago."""
    hides: bool = False
    """Nothing is found, whatever is there."""
    everything: bool = False
    """A look-up by key or Message-ID answers with all mails of the account: the filter is ignored."""

    def __str__(self) -> str:
        if self.hides:
            return "finds nothing"
        return "finds everything" if self.everything else f"as it was {self.age_s:g}s ago"


PLAIN = View()


def look(ledger: Ledger, query: Query, view: View, *, lag_s: float, now: datetime) -> list[Acceptance]:
    """Return what a look-up at `now` shows of an account's ledger."""
    if view.hides:
        return []
    found: list[Acceptance]
    if query.id is not None:
        acceptance = ledger.get(query.id)
        found = [] if acceptance is None else [acceptance]
    elif view.everything:
        found = list(ledger.acceptances)
    elif query.key is not None:
        found = ledger.with_key(query.key)
    else:
        assert query.message_id is not None
        found = ledger.with_message_id(query.message_id)
    newest = now - timedelta(seconds=max(lag_s, view.age_s))
    return [each for each in found if each.accepted_at <= newest]
