"""Every account by its name: made when mail comes for it or it is set up, moved in time, forgotten.

`now` is the real time in all of this; each account's own clock makes its time of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from simulator.provider import counts, greylist
from simulator.provider.account import DEFAULT_ACCOUNT, Account, Setup
from simulator.provider.answer import Refused
from simulator.provider.clock import ClockMoved
from simulator.provider.gate import Gate
from simulator.provider.journal import Journal
from simulator.provider.ledger import Named, NoPast, Past, Wiped
from simulator.provider.plan import Plan
from simulator.provider.rule import Rule
from simulator.provider.tenancy import Tenancy, Tenants


class Directory:
    """The accounts of one provider. `by_name` is shared with whoever only reads it."""

    def __init__(self, *, setup: Setup, tenancy: Tenancy, past: Past = NoPast(), now: datetime) -> None:
        """`setup` is that of accounts that nobody announced; `past` finds what they do not hold in memory any more."""
        self._setup = setup
        self._past = past
        self._tenants = Tenants(tenancy)
        self.by_name: dict[str, Account] = {}
        self.journal = Journal(self.by_name)
        self.gate = Gate(self.by_name)
        for name in (DEFAULT_ACCOUNT, *self._tenants.names):
            self.account(name, now)

    # --- who is who ---------------------------------------------------------------------------------

    def account(self, name: str, now: datetime) -> Account:
        """Return the account of this name; it is made if there is none. Who only reads looks into `by_name`."""
        known = self.by_name.get(name)
        if known is None:
            known = self.by_name[name] = Account.fresh(name, self.beginning(name), now, self._past)
            self._rules_stand(known)
        return known

    def name(self, name: str, now: datetime) -> Account:
        """Return the account that somebody has named; it is there after a restart, too."""
        if name not in self.by_name:
            self.journal.write(Named(account=name))
        return self.account(name, now)

    def account_of(self, credential: str | None) -> str:
        """Return the account behind an API key or SMTP user; what becomes of unknown ones was decided at start."""
        return self._tenants.account_of(credential, self.by_name)

    def turned_away(self, credential: str | None, secret: str | None = None) -> Refused | None:
        """Say why whoever comes with this credential is not let in; None: it is. `secret` None: none was asked for."""
        return self._tenants.turned_away(credential, secret, self.by_name)

    # --- how it is set up ---------------------------------------------------------------------------

    def beginning(self, name: str) -> Setup:
        """Return how an account of this name is set up when it begins, or began: as it was announced, or as everybody."""
        return self._tenants.setup_of(name) or self._setup

    def set_up(self, name: str, setup: Setup, now: datetime) -> None:
        """Replace plan, key rules and limits of an account; counters start anew."""
        account = self.account(name, now)
        if setup.greylist != account.setup.greylist:
            self.journal.note(name, greylist.TOPIC, account.greylist.leave())
        self.journal.note(name, counts.TOPIC, account.leave_counts())
        account.set_up(setup, account.clock.now(now))
        self._rules_stand(account)

    def take_up_setup(self, name: str, setup: Setup, since: datetime, now: datetime) -> None:
        """Take a setup again that was in force before a restart, since this instant of the account's time."""
        account = self.account(name, now)
        known = account.greylist
        account.set_up(setup, account.clock.now(now))
        # What was recalled is of this setup: it is the one that was in force.
        account.greylist = known
        account.set_up_at = since
        for acceptance in account.ledger.acceptances:
            if acceptance.accepted_at >= since:
                self.gate.recall(account, acceptance)

    def add_rules(self, name: str, rules: Sequence[Rule], now: datetime) -> None:
        """Append rules to an account's plan; what the others counted stays."""
        account = self.account(name, now)
        account.plan.add(rules, account.clock.now(now))
        self._rules_stand(account)

    def heal(self, name: str, now: datetime) -> None:
        """Take all rules away; keys and limits stay as they are."""
        account = self.account(name, now)
        self.set_up(name, dataclasses.replace(account.setup, plan=Plan(seed=account.setup.plan.seed)), now)

    def _rules_stand(self, account: Account) -> None:
        """There are rules of which since when they stand must outlive the process."""
        if account.plan.plan.rules:
            self.journal.counts(account.name)

    # --- its time -----------------------------------------------------------------------------------

    def advance(self, name: str, seconds: float, now: datetime) -> datetime:
        """Move an account's clock ahead; return what time it is there now. Raises `ClockError`."""
        account = self.account(name, now)
        account.clock.advance(seconds, now)
        return self._clock_moved(account, now)

    def set_clock(self, name: str, to: datetime, now: datetime) -> datetime:
        """Move an account's clock ahead to an instant; return what time it is there now. Raises `ClockError`."""
        account = self.account(name, now)
        account.clock.set(to, now)
        return self._clock_moved(account, now)

    def _clock_moved(self, account: Account, real: datetime) -> datetime:
        self.journal.write(ClockMoved(account=account.name, ahead_s=account.clock.ahead.total_seconds()))
        return account.clock.now(real)

    # --- its end ------------------------------------------------------------------------------------

    def reset(self, name: str, now: datetime) -> None:
        """Forget everything of an account: ledger, attempts, obligations, keys, plan, and how its clock was moved."""
        former = self.by_name.pop(name, None)
        account = self.account(name, now)
        if former is not None:
            # Whoever is connected stays connected.
            account.limiter = former.limiter.renewed(account.setup.throughput)
        self.journal.write(Wiped(account=name))
