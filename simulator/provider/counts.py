"""What rules have counted: how often each was met and struck, per whom, and how its dice fell.

Counts outlive the process as notes (`simulator.provider.notes`): a rule that was to strike twice has not two strikes more
after a restart. What struck is written with whatever is written next; that a rule was met and did not strike may wait
for the next strike, or for `PATIENCE` more of its kind, because most rules let most mails pass.
"""

from __future__ import annotations

import json
import random
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

#: Where counts are remembered.
TOPIC = "counts"
#: Mails, recipients or connections that a rule keeps apart; those longest quiet are forgotten first, and begin anew.
MOST_SCOPES = 50_000
#: Attempts of which is known the how manieth they are: those that go on, and many more.
MOST_ATTEMPTS = 10_000

#: So much that did not strike may go unwritten.
PATIENCE = 64

#: What the names of notes begin with: those of one scope, and of a mail that a rule sticks to.
_SCOPE, _STUCK = "/", "!"


@dataclass(slots=True)
class _Count:
    seen: int = 0
    fired: int = 0


class Counts:
    """What one rule has counted."""

    __slots__ = (
        "_dice",
        "_lasts",
        "_news",
        "_planted_at",
        "_rolls",
        "_scopes",
        "_stuck",
        "_urgent",
        "fired",
        "name",
        "seen",
    )

    def __init__(self, name: str, dice: random.Random, planted_at: datetime, *, lasts: bool) -> None:
        """`name` is the rule's; `lasts`: whom it counts per is still the same after a restart (a connection is not)."""
        self.name = name
        self.seen = 0
        """How often it was met."""
        self.fired = 0
        """How often it struck."""
        self._planted_at = planted_at
        self._dice = dice
        self._rolls = 0
        self._lasts = lasts
        self._scopes: OrderedDict[str, _Count] = OrderedDict()
        self._stuck: OrderedDict[str, None] = OrderedDict()
        self._news: dict[str, None] = {"": None}
        self._urgent = PATIENCE
        """From `PATIENCE` on, what is new must not wait."""

    @property
    def planted_at(self) -> datetime:
        """Since when it stands."""
        return self._planted_at

    @planted_at.setter
    def planted_at(self, instant: datetime) -> None:
        self._planted_at = instant
        self._news[""] = None
        self._urgent = PATIENCE

    # --- counting -----------------------------------------------------------------------------------

    def meet(self) -> None:
        """It is met, whether it strikes or not."""
        self.seen += 1
        self._news[""] = None
        self._urgent += 1

    def see(self, scope: str) -> int:
        """Count an occasion of this scope; return the how manieth it is."""
        count = self._of(scope)
        count.seen += 1
        return count.seen

    def fire(self, scope: str | None) -> None:
        """It strikes; `scope` None: whatever the counts of any scope say."""
        self.fired += 1
        self._urgent = PATIENCE
        if scope is not None:
            self._of(scope).fired += 1

    def seen_in(self, scope: str) -> int:
        known = self._scopes.get(scope)
        return 0 if known is None else known.seen

    def fired_in(self, scope: str) -> int:
        known = self._scopes.get(scope)
        return 0 if known is None else known.fired

    def roll(self) -> float:
        """Roll its dice."""
        self._rolls += 1
        return self._dice.random()

    def stick(self, mail: str) -> None:
        """From now on it sticks to this mail."""
        self._stuck[mail] = None
        self._stuck.move_to_end(mail)
        self._news[_STUCK + mail] = None
        if len(self._stuck) > MOST_SCOPES:
            self._news[_STUCK + self._stuck.popitem(last=False)[0]] = None

    def sticks_to(self, mail: str) -> bool:
        return mail in self._stuck

    @property
    def sticks(self) -> bool:
        """Tell whether it sticks to any mail."""
        return bool(self._stuck)

    def _of(self, scope: str) -> _Count:
        count = self._scopes.get(scope)
        if count is None:
            count = self._scopes[scope] = _Count()
            if len(self._scopes) > MOST_SCOPES:
                oldest = self._scopes.popitem(last=False)[0]
                if self._lasts:
                    self._news[_SCOPE + oldest] = None
        elif scope:
            self._scopes.move_to_end(scope)
        if self._lasts and scope:
            self._news[_SCOPE + scope] = None
        return count

    # --- over a restart -----------------------------------------------------------------------------

    @property
    def is_urgent(self) -> bool:
        """Tell whether what is new must not wait."""
        return self._urgent >= PATIENCE

    def news(self) -> Iterator[tuple[str, str | None]]:
        """Hand out what changed since the last call: facts by name, None for what is forgotten."""
        self._urgent = 0
        news, self._news = self._news, {}
        for name in news:
            yield name, self._facts(name)

    def _facts(self, name: str) -> str | None:
        if not name:
            here = self._scopes.get("", _Count())
            facts = [
                self.name,
                self._planted_at.isoformat(),
                self.seen,
                self.fired,
                self._rolls,
                here.seen,
                here.fired,
            ]
            return json.dumps(facts, separators=(",", ":"))
        if name.startswith(_STUCK):
            return "" if name.removeprefix(_STUCK) in self._stuck else None
        count = self._scopes.get(name.removeprefix(_SCOPE))
        return None if count is None else f"{count.seen},{count.fired}"

    def recall(self, name: str, facts: str) -> bool:
        """Take up what was handed out before a restart. False: it is of another rule. Raise `ValueError` or `TypeError` for damage."""
        if name.startswith(_STUCK):
            self._stuck[name.removeprefix(_STUCK)] = None
        elif name.startswith(_SCOPE):
            seen, fired = map(int, facts.split(","))
            self._scopes[name.removeprefix(_SCOPE)] = _Count(seen=seen, fired=fired)
        else:
            rule, planted_at, seen, fired, rolls, seen_here, fired_here = json.loads(facts)
            if rule != self.name:
                return False
            self._planted_at = datetime.fromisoformat(planted_at)
            self.seen, self.fired = int(seen), int(fired)
            self._scopes[""] = _Count(seen=int(seen_here), fired=int(fired_here))
            while self._rolls < rolls:
                self.roll()
            self._news.pop("", None)
            self._urgent = 0
        return True

    def names(self) -> Iterator[str]:
        """Yield every name under which something may be remembered."""
        yield ""
        if self._lasts:
            yield from (_SCOPE + scope for scope in self._scopes if scope)
        yield from (_STUCK + mail for mail in self._stuck)


@dataclass(slots=True)
class _Numbers:
    count: int = 0
    nth: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """By attempt."""


class Attempts:
    """Which attempts of a mail, a recipient, a connection or the plan these are."""

    def __init__(self) -> None:
        self._scopes: OrderedDict[str, _Numbers] = OrderedDict()
        self._news: dict[str, None] = {}

    def count(self, scope: str, attempt: str, *, lasts: bool) -> None:
        """Count this attempt, if it was not yet. `lasts`: the scope is the same after a restart."""
        numbers = self._scopes.get(scope)
        if numbers is None:
            numbers = self._scopes[scope] = _Numbers()
            if len(self._scopes) > MOST_SCOPES:
                self._news[self._scopes.popitem(last=False)[0]] = None
        if attempt in numbers.nth:
            return
        self._scopes.move_to_end(scope)
        numbers.count += 1
        numbers.nth[attempt] = numbers.count
        if len(numbers.nth) > MOST_ATTEMPTS:
            numbers.nth.popitem(last=False)
        if lasts:
            self._news[scope] = None

    @property
    def is_urgent(self) -> bool:
        """Tell whether what is new must not wait."""
        return len(self._news) >= PATIENCE

    def nth(self, scope: str, attempt: str) -> int | None:
        """Return the how manieth attempt this is."""
        numbers = self._scopes.get(scope)
        return None if numbers is None else numbers.nth.get(attempt)

    def news(self) -> Iterator[tuple[str, str | None]]:
        """Hand out what changed since the last call: facts by name, None for what is forgotten."""
        news, self._news = self._news, {}
        for scope in news:
            numbers = self._scopes.get(scope)
            yield scope, None if numbers is None else str(numbers.count)

    def recall(self, scope: str, facts: str) -> None:
        """Take up what was handed out before a restart. Raise `ValueError` or `TypeError` for damage."""
        self._scopes[scope] = _Numbers(count=int(facts))

    def names(self) -> Iterator[str]:
        yield from self._scopes
