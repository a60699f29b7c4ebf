"""A provider takes up where a former process ended, from the records that were kept of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from simulator.provider import greylist, kept
from simulator.provider.clock import ClockMoved
from simulator.provider.directory import Directory
from simulator.provider.journal import Record
from simulator.provider.ledger import (
    Attempt,
    AttemptState,
    Booked,
    Decided,
    Named,
    Tried,
    Wiped,
    number_of,
)
from simulator.provider.notes import Noted
from simulator.provider.obligations import Obligation
from simulator.provider.plan import wire_of


def restore(records: Iterable[Record], directory: Directory, now: datetime) -> None:
    """Read the records in order. Bodies are not needed: `Booked.raw` may be empty. `now` is the real time."""
    journal = directory.journal
    orphans: dict[str, Attempt] = {}
    for record in records:
        match record:
            case Booked(acceptance=acceptance):
                account = directory.account(acceptance.account, now)
                account.ledger.book(acceptance)
                account.aftermath.events.book(acceptance)
                account.booked = max(account.booked, acceptance.number)
                directory.gate.recall(account, acceptance)
                journal.opened = max(journal.opened, number_of(acceptance.attempt))
                if acceptance.key is not None:
                    account.keys.recall(acceptance.key, acceptance)
            case Tried(attempt=attempt):
                account = directory.account(attempt.account, now)
                account.recall(attempt)
                orphans.pop(attempt.id, None)
                if attempt.state is not AttemptState.CLOSED:
                    # Its connection died with the process that wrote this line.
                    attempt.state = AttemptState.CLOSED
                    orphans[attempt.id] = attempt
                journal.opened = max(journal.opened, attempt.number)
                if attempt.kept is not None:
                    account.keys.recall(*kept.read(attempt.kept, attempt.id))
            case Decided(decision=decision):
                directory.account(decision.account, now).decisions.append(decision)
                journal.decided = max(journal.decided, decision.number)
                # The process may have died before it wrote the attempt itself: its name is taken.
                journal.opened = max(journal.opened, number_of(decision.attempt))
            case Obligation():
                directory.account(record.account, now).owe(record)
            case Noted(topic=greylist.TOPIC, name=name, facts=facts):
                if facts is not None:
                    directory.account(record.account, now).greylist.recall(name, facts)
            case Noted():
                directory.account(record.account, now).aftermath.recall(record)
            case Named(account=name):
                directory.account(name, now)
            case Wiped(account=name):
                directory.by_name.pop(name, None)
                directory.account(name, now)
            case ClockMoved(account=name, ahead_s=ahead_s):
                account = directory.account(name, now)
                account.clock.ahead = timedelta(seconds=ahead_s)
                account.plan.replant(account.clock.now(now))
    for attempt in orphans.values():
        journal.keep(attempt)
    _recall_occasions(directory)


def _recall_occasions(directory: Directory) -> None:
    """What comes now has a higher number than what was there before."""
    for account in directory.by_name.values():
        for attempt in account.attempts.values():
            account.occasions.recall(wire_of(attempt.dialect), attempt.recipients)
        # Of attempts that are not held any more the decisions may know.
        for decision in account.decisions:
            account.occasions.at_least(decision.wire, decision.stage, decision.mail, decision.nth)
