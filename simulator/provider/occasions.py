"""Which attempt of a mail this is: what makes a moment of one run the same moment in another one.

A mail is known by its recipients, for keys and Message-IDs may be new in each run. At stages at which nothing is known
of it, occasions are simply numbered.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from simulator.provider.message import mail_to

#: So many mails are remembered; those longest quiet are forgotten first, and begin anew.
MOST_MAILS = 50_000


@dataclass(slots=True)
class Occasions:
    """The counts of one account."""

    _mails: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _stages: Counter[tuple[str, str]] = field(default_factory=Counter)
    _attempts: dict[str, dict[str | tuple[str, ...], tuple[str, int]]] = field(default_factory=dict)
    """What was found for those attempts that still go on."""

    def of_mail(self, attempt: str, recipient: str | None, recipients: tuple[str, ...]) -> tuple[str, int]:
        """Return what a mail is called, and in which of its attempts it is: the same at every stage of an attempt."""
        named = recipients if recipient is None else recipient
        known = self._attempts.get(attempt)
        if known is None:
            known = self._attempts[attempt] = {}
        found = known.get(named)
        if found is None:
            mail = mail_to(recipient, recipients)
            # The same mail may be named in several ways; nobody is called "", so this name is none of them.
            same = known.get(("", mail))
            found = known[named] = same or (mail, self.another(mail))
            known["", mail] = found
        return found

    def another(self, mail: str) -> int:
        """Count one attempt more of this mail; return how manieth it is."""
        nth = self._mails.pop(mail, 0) + 1
        self._mails[mail] = nth
        if len(self._mails) > MOST_MAILS:
            self._mails.popitem(last=False)
        return nth

    def of_event(self, type: str, recipient: str | None) -> tuple[str, int]:
        """Return what an event is called, and the how manieth of its kind it is."""
        name = f"{type} to:{recipient or ''}"
        return name, self.another(name)

    def of_stage(self, wire: str, stage: str) -> tuple[str, int]:
        """Return how often this stage was reached with nothing known of the mail, this time included."""
        self._stages[wire, stage] += 1
        return "", self._stages[wire, stage]

    # --- after a restart ----------------------------------------------------------------------------

    def recall(self, wire: str, recipients: tuple[str, ...]) -> None:
        """Count an attempt of a former process."""
        if recipients:
            self.another(mail_to(None, recipients))
        if wire == "smtp" and len(recipients) > 1:
            for recipient in recipients:
                self.another(mail_to(recipient, ()))

    def at_least(self, wire: str, stage: str, mail: str, nth: int) -> None:
        """Something was decided there: what comes now has a higher number in any case."""
        if mail:
            self._mails[mail] = max(self._mails.get(mail, 0), nth)
        else:
            self._stages[wire, stage] = max(self._stages[wire, stage], nth)

    # --- the end ------------------------------------------------------------------------------------

    def ended(self, attempt: str) -> None:
        """An attempt is over."""
        self._attempts.pop(attempt, None)
