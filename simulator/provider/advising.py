"""What senders are just now being told about coming back, until it is known whether they have heard it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from simulator.provider.answer import Answer, Refused, Reply, RetryAfterKind, words_of
from simulator.provider.ledger import Advice, Attempt, Sent, ToldBy
from simulator.provider.plan import wire_of
from simulator.provider.strike import Held


@dataclass(slots=True)
class Advising:
    """By attempt."""

    _held: dict[str, Held] = field(default_factory=dict)
    _advice: dict[str, Advice] = field(default_factory=dict)

    def because_of(self, attempt: str, held: Held) -> None:
        """A limit or the greylist is the reason of what this attempt will be told."""
        self._held[attempt] = held

    def instead(self, attempt: str, other: str) -> None:
        """It will be told in another attempt, which stands for the whole request."""
        held = self._held.pop(attempt, None)
        if held is not None:
            self._held[other] = held

    def says_nothing(self, attempt: str) -> None:
        """Nothing is said now."""
        if self._held or self._advice:
            self.forget(attempt)

    def says(self, attempt: Attempt, answer: Answer | None, recipient: str | None = None) -> None:
        """This is said now. `recipient`: the only one that is meant."""
        held = self._held.pop(attempt.id, None)
        words = None if answer is None else words_of(answer)
        retry = words.retry_after if isinstance(words, Refused | Reply) else None
        if retry is None or retry.seconds <= 0:
            self._advice.pop(attempt.id, None)
            return
        by = ToldBy.DATE if retry.kind is RetryAfterKind.DATE else ToldBy.HEADER
        self._advice[attempt.id] = Advice(
            wait_s=retry.seconds,
            at=attempt.opened_at,
            by=ToldBy.TEXT if wire_of(attempt.dialect) == "smtp" else by,
            recipient=recipient,
            limit=None if held is None else held.limit,
            per=None if held is None else held.per,
            scope="" if held is None else held.scope,
        )

    def was_sent(self, attempt: Attempt, sent: Sent, at: datetime) -> None:
        """So much of what was said has gone out: who has heard all of it knows when to come back."""
        if sent is Sent.UNKNOWN:
            return
        advice = self._advice.pop(attempt.id, None)
        if advice is not None and sent is Sent.COMPLETE:
            attempt.advice = (*attempt.advice, replace(advice, at=at))

    def forget(self, attempt: str) -> None:
        """An attempt is over, or what it would have been told will not be said."""
        self._held.pop(attempt, None)
        self._advice.pop(attempt, None)
