"""A rule: whom it means, when it strikes, and the fault with which it does. Data that never changes.

Reading rules from TOML or JSON, and saying what is wrong with them, is `simulator.config`'s work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache

from simulator.provider.faults import Fault
from simulator.provider.message import Moment, header


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a rule writes to name somebody: an exact text, a wildcard (`*`, `?`) or a `/regular expression/`.

    Case is ignored: nobody means two different mailboxes by `Bob@` and `bob@` in a fault plan.
    """

    text: str

    def matches(self, value: str) -> bool:
        """Tell whether `value` is meant."""
        return _compiled(self.text).search(value) is not None

    @property
    def is_regex(self) -> bool:
        return len(self.text) >= 2 and self.text.startswith("/") and self.text.endswith("/")


@lru_cache(maxsize=4096)
def _compiled(text: str) -> re.Pattern[str]:
    """Raise `re.error` for a broken regular expression."""
    if len(text) >= 2 and text.startswith("/") and text.endswith("/"):
        return re.compile(text[1:-1], re.IGNORECASE)
    # fnmatch knows `[seq]`, which addresses like `[10.0.0.1]` would trip over: brackets are plain here.
    return re.compile(r"\A" + translate(text.replace("[", "[[]")), re.IGNORECASE)


class Per(StrEnum):
    """What the counts of a rule are counted per."""

    PLAN = "plan"
    MAIL = "mail"
    RECIPIENT = "recipient"
    CONNECTION = "connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Whom a rule means. None: everybody."""

    account: Pattern | None = None
    dialect: Pattern | None = None
    sender: Pattern | None = None
    recipient: Pattern | None = None
    key: Pattern | None = None
    headers: tuple[tuple[str, Pattern], ...] = ()
    event: Pattern | None = None
    """The type of the event that is told."""

    def meets(self, moment: Moment) -> bool:
        """Tell whether this moment belongs to somebody who is meant. What is not known yet is not met."""
        return (
            _meets(self.account, moment.account)
            and _meets(self.dialect, moment.dialect)
            and _meets(self.sender, moment.sender)
            and _meets(self.key, moment.key)
            and _meets(self.event, moment.event)
            and self._meets_recipient(moment)
            and all(_meets(wanted, header(moment.headers, name)) for name, wanted in self.headers)
        )

    def _meets_recipient(self, moment: Moment) -> bool:
        if self.recipient is None:
            return True
        if moment.recipient is not None:
            return self.recipient.matches(moment.recipient)
        return any(self.recipient.matches(recipient) for recipient in moment.recipients)


def _meets(wanted: Pattern | None, value: str | None) -> bool:
    return wanted is None or (value is not None and wanted.matches(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """On which of the occasions that are meant a rule strikes. All conditions must hold.

    What happens outside the time window is no occasion and is not counted.
    """

    skip: int = 0
    """Leave the first N occasions alone; the other counts begin after them."""
    first: int | None = None
    every: int | None = None
    attempt: int | None = None
    """Only in the n-th attempt (of what `per` says), at whatever stage the attempts before it ended."""
    probability: float | None = None
    from_s: float | None = None
    """Seconds since the rule was set, inclusive."""
    until_s: float | None = None
    """Seconds since the rule was set, exclusive."""
    times: int | None = None
    """At most this often (per what `per` says)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a plan: who, when, what."""

    name: str
    fault: Fault
    stages: frozenset[tuple[str, str]]
    """Pairs of wire (`smtp`, `http`) and stage."""
    who: Who = Who()
    when: When = When()
    per: Per = Per.PLAN
    sticks_to_mail: bool = False
    """Once it hit a mail, it hits each later attempt of that mail, for ever."""
    written: str | None = field(default=None, compare=False, repr=False)
    """The rule as somebody wrote it, in JSON, so that it can be shown again; it decides nothing."""
