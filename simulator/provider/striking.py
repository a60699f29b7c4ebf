"""The rules of the plans are asked, and what they have done is written into the decision log.

`now` is the account's time here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from simulator.provider.account import Account
from simulator.provider.answer import spoken
from simulator.provider.detail import Detail
from simulator.provider.journal import Journal
from simulator.provider.ledger import Attempt, AttemptState
from simulator.provider.lookup import PLAIN
from simulator.provider.magic import MAGIC_STAGES
from simulator.provider.message import Moment
from simulator.provider.plan import wire_of
from simulator.provider.strike import Strike


class Striking:
    """One provider's."""

    def __init__(self, accounts: Mapping[str, Account], journal: Journal) -> None:
        self._accounts = accounts
        self._journal = journal

    def occasion(self, account: Account, attempt: Attempt, stage: str, detail: Detail) -> tuple[str, int]:
        """Count this moment. That is done in any case, so that a run that is replayed counts as the first one did."""
        recipients = detail.recipients or attempt.recipients
        if attempt.state is AttemptState.CLOSED or not (detail.recipient or recipients):
            return account.occasions.of_stage(wire_of(attempt.dialect), stage)
        return account.occasions.of_mail(attempt.id, detail.recipient, recipients)

    def moment(self, attempt: Attempt, stage: str, detail: Detail, occasion: tuple[str, int]) -> Moment:
        """Return what rules are matched against."""
        return Moment(
            stage=stage,
            dialect=attempt.dialect,
            account=attempt.account,
            connection=attempt.connection,
            attempt=attempt.id,
            sender=attempt.sender,
            recipient=detail.recipient,
            recipients=detail.recipients or attempt.recipients,
            key=attempt.key,
            message_id=attempt.message_id,
            headers=attempt.headers,
            command=detail.command,
            occasion=occasion,
        )

    def strike(
        self, attempt: Attempt, stage: str, detail: Detail, occasion: tuple[str, int], now: datetime
    ) -> Strike | None:
        """Ask the plan and the magic addresses. None: nobody has anything to say at this stage."""
        account = self._accounts[attempt.account]
        is_magic = stage in MAGIC_STAGES and account.magic.concerns(
            detail.recipient, detail.recipients or attempt.recipients
        )
        if not is_magic and account.plan.is_blind(wire_of(attempt.dialect), stage):
            return None
        moment = self.moment(attempt, stage, detail, occasion)
        self._journal.counts(account.name)
        strike = account.plan.strike(moment, now)
        if is_magic and not (strike is not None and strike.is_final):
            more = account.magic.strike(moment, now)
            if more is not None:
                strike = more if strike is None else strike.and_then(more)
        if strike is not None:
            attempt.rules = (*attempt.rules, *strike.rules)
            said = _said(attempt, strike)
            self._journal.enter(account, attempt.id, moment, strike.rules, said, now, hits=strike.hits)
        return strike


def _said(attempt: Attempt, strike: Strike) -> str:
    """Word what a strike does, for the decision log."""
    if strike.refused and wire_of(attempt.dialect) == "http":
        return f"refuse {len(strike.refused)} of {len(attempt.recipients)} recipients"
    if strike.view is not PLAIN:
        return str(strike.view)
    if strike.answer is None and not strike.drop:
        if strike.early_s is not None:
            return "events first"
        if strike.destinies:
            return f"fate: {', '.join(dict.fromkeys(each.fate.value for _, each in strike.destinies))}"
    return "drop" if strike.drop else spoken(strike.answer)
