"""What rules have said of mails that are not booked yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simulator.provider.answer import Answer, TellFirst
from simulator.provider.fate import Destiny
from simulator.provider.strike import Strike


class Foretold:
    """By attempt, until it ends."""

    def __init__(self) -> None:
        self._destinies: dict[str, dict[str, Destiny]] = {}
        self._early: dict[str, float] = {}

    def hear(self, attempt: str, strike: Strike) -> None:
        """A rule has struck an attempt: remember what it says of the time after the booking."""
        if strike.destinies:
            self._destinies.setdefault(attempt, {}).update(strike.destinies)
        if strike.early_s is not None:
            self._early[attempt] = strike.early_s

    def says_nothing(self) -> bool:
        """Tell whether nothing is foretold of any mail, as nearly always."""
        return not self._destinies and not self._early

    def knows(self, attempt: str) -> bool:
        """Tell whether anything is foretold of this attempt's mail."""
        return attempt in self._destinies or attempt in self._early

    def destinies(self, attempt: str) -> Mapping[str, Destiny]:
        """Return what will become of its recipients."""
        return self._destinies.get(attempt, {})

    def is_early(self, attempt: str) -> bool:
        """Tell whether its events come before its answer."""
        return attempt in self._early

    def after_their_events(self, attempts: Iterable[str], answer: Answer) -> Answer:
        """Return the answer to these attempts (a batch is several); it waits for events that are to be told before it."""
        early = tuple(attempt for attempt in attempts if attempt in self._early)
        if not early:
            return answer
        return TellFirst(within_s=max(self._early[attempt] for attempt in early), attempts=early, then=answer)

    def forget(self, attempt: str) -> None:
        """An attempt is over."""
        self._destinies.pop(attempt, None)
        self._early.pop(attempt, None)
