"""What is let in: limits, parallel connections and the greylist, each asked where its wire can say so first.

Nothing here writes anything down; whoever asks gets what is said (`Held`) and puts it into the decision log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from simulator.provider.acceptance import Acceptance
from simulator.provider.account import Account
from simulator.provider.answer import Reason, Refused, RetryAfter, RetryAfterKind
from simulator.provider.ledger import Attempt
from simulator.provider.limiter import Excess, Occasion, refusal
from simulator.provider.limits import Scope
from simulator.provider.message import Submission
from simulator.provider.meters import Standing
from simulator.provider.plan import wire_of
from simulator.provider.strike import Held

#: What is let in and counted when the mail is booked. SMTP has counted the recipients one by one by then.
_COUNTED_AT_BOOKING: dict[str, tuple[Scope, ...]] = {
    "smtp": (Scope.ACCOUNT, Scope.IP, Scope.SENDER),
    "http": tuple(Scope),
}
#: Where a connection (HTTP: a request) begins to count among the parallel ones.
_COUNTED_AS_CONNECTION = frozenset({("smtp", "connect"), ("smtp", "auth"), ("http", "request")})


class Gate:
    """Who is here just now, and what is said to whoever is too much."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._lines: dict[str, str] = {}
        """The connections that are here just now, and the accounts among whose they are counted."""

    # --- before the mail ----------------------------------------------------------------------------

    def at_stage(self, attempt: Attempt, stage: str, recipient: str | None, now: datetime) -> Held | None:
        """Say what is against going on at this stage. `now` is the account's time."""
        wire = wire_of(attempt.dialect)
        if (wire, stage) in _COUNTED_AS_CONNECTION:
            return _held(self.enter(attempt))
        if wire != "smtp":
            return None
        account = self._accounts[attempt.account]
        if stage == "mail" and account.limiter.limits:
            return _held(account.limiter.look(_COUNTED_AT_BOOKING[wire], _visitor(attempt), now))
        if stage == "rcpt" and recipient is not None:
            return self._at_rcpt(account, attempt, recipient, now)
        return None

    def _at_rcpt(self, account: Account, attempt: Attempt, recipient: str, now: datetime) -> Held | None:
        held = self._greylisted(account, attempt, recipient, now)
        if held is None and account.limiter.limits:
            # Last, for whoever is put off must not be counted.
            one = Occasion(ip=ip_of(attempt.peer), recipients=(recipient,))
            held = _held(account.limiter.take((Scope.RECIPIENT_DOMAIN,), one, now))
        return held

    def _greylisted(self, account: Account, attempt: Attempt, recipient: str, now: datetime) -> Held | None:
        """Say that this recipient's mail has to come again later."""
        rules = account.setup.greylist
        if rules is None:
            return None
        left_s = account.greylist.meet(rules, ip_of(attempt.peer), attempt.sender or "", recipient, now)
        if left_s is None:
            return None
        wait = RetryAfter(kind=RetryAfterKind.SECONDS, seconds=math.ceil(left_s)) if rules.tells else None
        words = Refused(
            reason=Reason.GREYLISTED,
            detail=rules.text,
            smtp=(rules.code, rules.enhanced),
            retry_after=wait,
        )
        return Held(rule="greylist", words=words)

    # --- connections --------------------------------------------------------------------------------

    def enter(self, attempt: Attempt) -> Excess | None:
        """Count a connection in its account, once; whoever has named itself moves to its own."""
        known = self._lines.get(attempt.connection)
        if known == attempt.account:
            return None
        if known is not None:
            self.gone(attempt.connection)
        excess = self._accounts[attempt.account].limiter.enter(attempt.connection, ip_of(attempt.peer))
        if excess is None:
            self._lines[attempt.connection] = attempt.account
        return excess

    def gone(self, connection: str) -> None:
        """A connection has ended: it does not count among the parallel ones any more."""
        account = self._accounts.get(self._lines.pop(connection, ""))
        if account is not None:
            account.limiter.leave(connection)

    # --- the mail -----------------------------------------------------------------------------------

    def at_booking(
        self, account: Account, attempt: Attempt, submission: Submission, now: datetime, *, look: bool
    ) -> Held | None:
        """Say what is against this mail, and count it if it may come in. `look`: count nothing."""
        if not account.limiter.limits:
            return None
        ask = account.limiter.look if look else account.limiter.take
        return _held(ask(_COUNTED_AT_BOOKING[wire_of(attempt.dialect)], _visitor(attempt, submission), now))

    def owe(self, account: Account, attempt: Attempt, submission: Submission, now: datetime) -> None:
        """Let a mail in whatever the limits say; what is too much has to be waited for afterwards."""
        scopes = _COUNTED_AT_BOOKING[wire_of(attempt.dialect)]
        account.limiter.owe(scopes, _visitor(attempt, submission), now)

    def recall(self, account: Account, acceptance: Acceptance) -> None:
        """Count what was let in before a restart; from which address it came is not written in the ledger."""
        before = Occasion(ip="", sender=acceptance.sender, recipients=acceptance.recipients)
        account.limiter.recall(before, acceptance.accepted_at)

    def standings(self, account: Account, attempt: Attempt, now: datetime) -> list[Standing]:
        """Say how the limits stand for whoever makes this attempt."""
        return account.limiter.standings(_visitor(attempt), now)


def _held(excess: Excess | None) -> Held | None:
    if excess is None:
        return None
    return Held(
        rule=f"limit: {excess.limit.name}",
        words=refusal(excess),
        limit=excess.limit.name,
        per=excess.limit.per.value,
        scope=excess.scope,
    )


def _visitor(attempt: Attempt, submission: Submission | None = None) -> Occasion:
    if submission is None:
        return Occasion(ip=ip_of(attempt.peer), sender=attempt.sender, recipients=attempt.recipients)
    return Occasion(ip=ip_of(attempt.peer), sender=submission.sender, recipients=submission.recipients)


def ip_of(peer: str) -> str:
    """Return the address of `127.0.0.1:2500` or `[::1]:2500`."""
    return (peer.rpartition(":")[0] or peer).strip("[]")
