"""How much of a ledger is kept: the oldest goes first, the newest mail of an account never."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The bounds of a ledger over all its accounts. None: no bound.

    What goes is gone with its recipients, its key and, once nobody else has the same bytes, its body.
    """

    age_s: float | None = None
    """Mails, attempts and decisions older than so many seconds go, by the clock of their account."""
    count: int | None = None
    """So many mails are kept; and so many attempts, and so many decisions."""
    bytes: int | None = None
    """So many bytes of bodies are kept; mails with the same bytes count once."""

    @property
    def is_bounded(self) -> bool:
        """Tell whether anything ever goes."""
        return not (self.age_s is None and self.count is None and self.bytes is None)


FOR_EVER = Retention()
#: Of attempts and decisions so many times more are kept than of mails: refusals belong to the story of those that are.
PER_MAIL = 10
