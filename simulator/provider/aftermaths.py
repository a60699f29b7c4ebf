"""What becomes of accepted mail, in all accounts: who is stirred, what is told to webhooks, what must be remembered.

One account's own is in `aftermath`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime

from simulator.provider.acceptance import Acceptance
from simulator.provider.account import Account
from simulator.provider.directory import Directory
from simulator.provider.events import Event
from simulator.provider.notes import Noted
from simulator.provider.notices import Notice
from simulator.provider.telling import moment_of, tell


class Aftermaths:
    """One provider's. `now` is the real time."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._journal = directory.journal
        self.stirring: set[str] = set()
        """The accounts that `stirred` would hand out now; to be read only."""

    def begin(self, account: Account, acceptance: Acceptance) -> None:
        """A mail was booked: something will become of it."""
        notes = account.aftermath.book(acceptance)
        if notes:
            self.remember(notes)
        self.stirring.add(account.name)

    def stirred(self) -> set[str]:
        """Hand out the accounts in which mail was taken since the last call: something will become of it."""
        stirred = set(self.stirring)
        self.stirring.clear()
        return stirred

    def calm(self, name: str) -> None:
        """Nobody carries what becomes of this account's mail."""
        self.stirring.discard(name)

    def tell(self, event: Event, now: datetime) -> list[Notice]:
        """Return how an event that has happened is told to the account's webhook."""
        account = self._directory.account(event.account, now)
        now = account.clock.now(now)
        moment = dataclasses.replace(
            moment_of(event, account.plan, lambda: _headers(account, event)),
            occasion=account.occasions.of_event(event.type, event.recipient),
        )
        hits = account.plan.strike_event(moment, now)
        if account.plan.stands_at("webhook", moment.stage):
            self._journal.counts(account.name)
        notices = tell(event, hits, account.plan.plan.seed)
        if hits:
            attempt = "att_0" if event.mail is None else event.mail.attempt
            said = f"{event.type}: {len(notices)} {'notice' if len(notices) == 1 else 'notices'}"
            rules = tuple(hit.rule for hit in hits)
            self._journal.enter(account, attempt, moment, rules, said, now, hits=hits)
        return notices

    def take_up(self, now: datetime) -> None:
        """After a restart: mind the mails to which something is still to happen, however long ago they were taken."""
        for account in self._directory.by_name.values():
            at, aftermath = account.clock.now(now), account.aftermath
            minded = aftermath.events.awaited()
            over = []
            for id_, last in aftermath.ahead().items():
                acceptance = account.ledger.get(id_) if last >= at and id_ not in minded else None
                if acceptance is not None:
                    aftermath.events.book(acceptance)
                elif id_ not in minded:
                    over.append(id_)
            self.remember(aftermath.past(over))

    def remember(self, notes: Iterable[Noted], *, known: bool = True) -> None:
        """Make notes durable. `known` False: whoever wrote them keeps them in mind, so that nobody else need."""
        for note in notes:
            account = self._directory.by_name.get(note.account)
            if account is None:
                continue
            if known:
                account.aftermath.notes.keep(note)
            self._journal.write(note)


def _headers(account: Account, event: Event) -> tuple[tuple[str, str], ...]:
    acceptance = None if event.email_id is None else account.ledger.get(event.email_id)
    return () if acceptance is None else acceptance.headers
