"""What goes on in an account after a mail was taken: events, the suppression list, and what must be remembered of both.

Methods that change something to be remembered return notes; `Provider.remember` makes them durable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from simulator.provider.acceptance import Acceptance
from simulator.provider.events import (
    PUSHED_KEPT,
    Event,
    EventLog,
    pushed,
    pushed_as_facts,
    pushed_from,
    steps_of,
)
from simulator.provider.events import TOPIC as PUSHED
from simulator.provider.fate import Destiny, Fate, suppressed
from simulator.provider.notes import Noted, Notes
from simulator.provider.suppression import TOPIC as SUPPRESSION
from simulator.provider.suppression import Suppression, Suppressions, suppression_from

#: Where mails are remembered to which something happens later than `LONG_S` after they were taken: by then a ledger
#: may have let go of them.
AHEAD = "ahead"
LONG_S = 30.0
#: After so many of those, the ones that are over are forgotten.
TIDY = 1_000

_USUAL = Destiny(fate=Fate.DELIVERED)


@dataclass(slots=True)
class Aftermath:
    """One account's. All instants are the account's."""

    account: str
    events: EventLog = field(default_factory=EventLog)
    suppressions: Suppressions = field(default_factory=Suppressions)
    notes: Notes = field(default_factory=Notes)
    _far: int = 0

    # --- mail ---------------------------------------------------------------------------------------

    def destinies(
        self,
        recipients: Sequence[str],
        foretold: Mapping[str, Destiny],
        now: datetime,
        *,
        at_once: bool = False,
    ) -> tuple[tuple[str, Destiny], ...]:
        """Return what is decided of the recipients of a mail that is being booked; the list comes before any rule.

        `at_once`: what becomes of them happens in the moment of the acceptance, unless a rule says when.
        """
        decided = dict(foretold)
        if at_once:
            for recipient in recipients:
                destiny = decided.get(recipient, _USUAL)
                if destiny.after_s is None:
                    decided[recipient] = dataclasses.replace(destiny, after_s=0.0)
        for recipient in recipients:
            reason = self.suppressions.reason(recipient, now)
            if reason is not None:
                decided[recipient] = suppressed(reason)
        return tuple((recipient, decided[recipient]) for recipient in recipients if recipient in decided)

    def book(self, acceptance: Acceptance) -> list[Noted]:
        """A mail was accepted. Recipients who will have bounced or complained are on the list from that moment on."""
        self.events.book(acceptance)
        notes: list[Noted] = []
        if not acceptance.destinies:
            return notes
        last_s = 0.0
        for position, recipient in enumerate(acceptance.recipients):
            for step in steps_of(acceptance, position):
                last_s = max(last_s, step.after_s)
                if step.suppressing is not None:
                    since = acceptance.accepted_at + timedelta(seconds=step.after_s)
                    notes += self.suppress(
                        Suppression(address=recipient, reason=step.suppressing, since=since)
                    )
        if last_s > LONG_S:
            last = acceptance.accepted_at + timedelta(seconds=last_s)
            notes.append(self._note(AHEAD, acceptance.id, last.isoformat()))
            self._far += 1
            if self._far % TIDY == 0:
                now = acceptance.accepted_at
                notes += self.past(id_ for id_, over in self.ahead().items() if over < now)
        return notes

    def ahead(self) -> dict[str, datetime]:
        """Return the mails to which something happens long after they were taken: when the last of it does."""
        return {id_: datetime.fromisoformat(last) for id_, last in self.notes.all(AHEAD).items()}

    def past(self, ids: Iterable[str]) -> list[Noted]:
        """Nothing happens to these mails any more."""
        return [self._note(AHEAD, id_, None) for id_ in ids]

    # --- by hand ------------------------------------------------------------------------------------

    def suppress(self, entry: Suppression) -> list[Noted]:
        """Put an address on the suppression list."""
        if not self.suppressions.add(entry):
            return []
        return [self._note(SUPPRESSION, entry.address.lower(), entry.facts())]

    def lift(self, address: str) -> list[Noted]:
        """Take an address off the list. Nothing to remember: it was not there."""
        if not self.suppressions.lift(address):
            return []
        return [self._note(SUPPRESSION, address.lower(), None)]

    def push(
        self,
        type: str,
        data: Mapping[str, Any],
        at: datetime,
        *,
        id: str | None = None,
        told_at: datetime | None = None,
    ) -> tuple[Event, list[Noted]]:
        """Let an event happen that does not follow from the ledger. A known `id` makes it that event once more."""
        self.events.pushed += 1
        event = pushed(
            account=self.account,
            number=self.events.pushed,
            type=type,
            data=data,
            at=at,
            id=id,
            told_at=told_at,
        )
        self.events.push(event)
        # Numbered, for two of the same id are two.
        notes = [self._note(PUSHED, f"{event.order[1]}/{event.id}", pushed_as_facts(event))]
        oldest = event.order[1] - PUSHED_KEPT
        if oldest > 0:
            notes += [
                self._note(PUSHED, name, None)
                for name in self.notes.all(PUSHED)
                if int(name.partition("/")[0]) <= oldest
            ]
        return event, notes

    # --- a restart ----------------------------------------------------------------------------------

    def recall(self, note: Noted) -> None:
        """Take up what a former process remembered."""
        self.notes.keep(note)
        if note.facts is None:
            return
        if note.topic == SUPPRESSION:
            self.suppressions.add(suppression_from(note.name, note.facts))
        elif note.topic == PUSHED:
            event = pushed_from(self.account, note.name.partition("/")[2], note.facts)
            self.events.pushed = max(self.events.pushed, event.order[1])
            self.events.push(event)

    def _note(self, topic: str, name: str, facts: str | None) -> Noted:
        return Noted(account=self.account, topic=topic, name=name, facts=facts)
