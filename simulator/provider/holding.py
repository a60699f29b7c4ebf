"""Mail that is held back by a limit or the greylist: said, written into the decision log, taken from a recording.

`Gate` knows who is too much; here that becomes an answer. `now` is the account's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from simulator.provider import greylist
from simulator.provider.account import Account
from simulator.provider.advising import Advising
from simulator.provider.answer import Refused, spoken
from simulator.provider.detail import NOTHING_NEW, Detail
from simulator.provider.gate import Gate
from simulator.provider.journal import Journal
from simulator.provider.ledger import Attempt
from simulator.provider.message import Moment, Submission
from simulator.provider.strike import Held
from simulator.provider.striking import Striking

#: The stage of the decision log at which a mail is let in or not; no rule can strike there.
BOOKING = "booking"


class Holding:
    """One provider's."""

    def __init__(
        self,
        accounts: Mapping[str, Account],
        journal: Journal,
        gate: Gate,
        striking: Striking,
        advising: Advising,
    ) -> None:
        self._accounts = accounts
        self._journal = journal
        self._gate = gate
        self._striking = striking
        self._advising = advising

    def at_stage(
        self, attempt: Attempt, stage: str, detail: Detail, occasion: tuple[str, int], now: datetime
    ) -> Refused | None:
        """Say what a limit or the greylist has against this, at a stage before booking."""
        account = self._accounts[attempt.account]
        held = self._gate.at_stage(attempt, stage, detail.recipient, now)
        if account.setup.greylist is not None and stage == "rcpt":
            self._journal.note(account.name, greylist.TOPIC, account.greylist.news())
        if held is None and not account.plan.replays:
            return None
        moment = self._striking.moment(attempt, stage, detail, occasion)
        return self._hold_back(account, attempt, moment, held, now)

    def at_booking(
        self, account: Account, attempt: Attempt, submission: Submission, now: datetime, *, look: bool = False
    ) -> Refused | None:
        """Say what a limit has against this mail, and count it if it may come in. `look`: count nothing."""
        held = self._gate.at_booking(account, attempt, submission, now, look=look)
        if held is None and not account.plan.replays:
            return None
        occasion = self._striking.occasion(account, attempt, BOOKING, NOTHING_NEW)
        moment = self._striking.moment(attempt, BOOKING, NOTHING_NEW, occasion)
        return self._hold_back(account, attempt, moment, held, now)

    def _hold_back(
        self, account: Account, attempt: Attempt, moment: Moment, held: Held | None, now: datetime
    ) -> Refused | None:
        """Write down that it was no rule of the plan that struck, and say it. A recording may know of it, too."""
        held = account.plan.held(moment) if held is None else held
        if held is None:
            return None
        self._advising.because_of(attempt.id, held)
        attempt.rules = (*attempt.rules, held.rule)
        self._journal.enter(account, attempt.id, moment, (held.rule,), spoken(held.words), now, held=held)
        return held.words
