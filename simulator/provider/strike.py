"""What hits one moment: the faults of several rules, put together to one answer.

Whether a rule hits is the plan's business (or that of a recording); what hits make of a moment is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.provider.answer import Answer, Refused, RefusedRecipient, Slow, followed_by, goes_on
from simulator.provider.fate import Destiny
from simulator.provider.faults import (
    DecideFate,
    Drop,
    Fault,
    FindEverything,
    FindNothing,
    FindWhatWas,
    RefuseRecipients,
    TellBeforeTheAnswer,
)
from simulator.provider.lookup import PLAIN, View
from simulator.provider.message import Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One rule hits."""

    rule: str
    """Its name."""
    fault: Fault
    recipients: tuple[str, ...] | None = None
    """Those that are hit, where each recipient is hit or not; None: the moment as such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """What was decided for one moment."""

    rules: tuple[str, ...]
    answer: Answer | None = None
    drop: bool = False
    refused: tuple[RefusedRecipient, ...] = ()
    early_s: float | None = None
    """Not None: its events are told first, and the answer waits for that, at most so long."""
    destinies: tuple[tuple[str, Destiny], ...] = ()
    """What becomes of the mail to which recipient, if it is booked."""
    view: View = PLAIN
    """How a look-up sees the ledger."""
    hits: tuple[Hit, ...] = field(default=(), compare=False, repr=False)
    """Where it comes from."""

    @property
    def is_final(self) -> bool:
        """Tell whether nothing else can be decided any more."""
        return self.drop or (self.answer is not None and not goes_on(self.answer))

    def and_then(self, other: Strike) -> Strike:
        """Return what both decide together, this one first."""
        return Strike(
            rules=(*self.rules, *other.rules),
            answer=followed_by(self.answer, other.answer),
            drop=self.drop or other.drop,
            refused=(*self.refused, *other.refused),
            early_s=self.early_s if other.early_s is None else max(self.early_s or 0.0, other.early_s),
            # Of two fates of one recipient the first counts.
            destinies=tuple((dict(other.destinies) | dict(self.destinies)).items()),
            view=self.view if self.view != PLAIN else other.view,
            hits=(*self.hits, *other.hits),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What was said by something that no rule knows of: a limit, or the greylist."""

    rule: str
    """What it is called in the decision log."""
    words: Refused
    limit: str | None = None
    """The limit that said so, if it was one."""
    per: str | None = None
    scope: str = ""
    """Whom the limit concerns: an address, a sender, a domain; empty: the whole account."""


def by_recipient(fault: Fault, moment: Moment) -> bool:
    """Tell whether each recipient of this moment is an occasion of its own for this fault."""
    return isinstance(fault, DecideFate) or (isinstance(fault, RefuseRecipients) and moment.recipient is None)


class Hits:
    """The hits of one moment, one after the other, until one of them decides."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._hits: list[Hit] = []
        self._waits: list[Slow] = []
        self._refused: dict[str, RefusedRecipient] = {}
        self._destinies: dict[str, Destiny] = {}
        self._early_s: float | None = None

    def settled(self, fault: Fault) -> dict[str, RefusedRecipient] | dict[str, Destiny]:
        """Return the recipients for whom an earlier hit has settled what this fault would."""
        return self._destinies if isinstance(fault, DecideFate) else self._refused

    def add(self, hit: Hit) -> Strike | None:
        """Add the next one. A strike: it decides, and what comes behind it has nothing to say."""
        self._hits.append(hit)
        fault = hit.fault
        if hit.recipients is not None:
            for each in hit.recipients:  # The first that says something of a recipient counts.
                if isinstance(fault, DecideFate):
                    self._destinies.setdefault(each, fault.destiny())
                elif isinstance(fault, RefuseRecipients):
                    self._refused.setdefault(each, fault.refuse(each))
            return None
        if isinstance(fault, TellBeforeTheAnswer):
            self._early_s = max(self._early_s or 0.0, fault.within_s)
            return None
        answer = fault.answer()
        if isinstance(answer, Slow) and answer.then is None:
            self._waits.append(answer)
            return None
        if isinstance(fault, RefuseRecipients) and self._moment.recipient is not None:
            self._refused[self._moment.recipient] = fault.refuse(self._moment.recipient)
        view = fault.view() if isinstance(fault, FindNothing | FindWhatWas | FindEverything) else PLAIN
        return self._strike(answer, drop=isinstance(fault, Drop), view=view)

    def together(self) -> Strike | None:
        """Return what they make of the moment where none of them decides. None: nothing hit it."""
        return self._strike(None) if self._hits else None

    def _strike(self, answer: Answer | None, *, drop: bool = False, view: View = PLAIN) -> Strike:
        for wait in reversed(self._waits):
            answer = Slow(delay_s=wait.delay_s, then=answer)
        return Strike(
            rules=tuple(hit.rule for hit in self._hits),
            answer=answer,
            drop=drop,
            refused=tuple(self._refused.values()),
            early_s=self._early_s,
            destinies=tuple(self._destinies.items()),
            view=view,
            hits=tuple(self._hits),
        )
