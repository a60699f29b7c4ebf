"""A tenant of the provider: everything that two test runs must not share, and how it is set up."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from simulator.provider.aftermath import Aftermath
from simulator.provider.api import ApiRules
from simulator.provider.clock import AccountClock
from simulator.provider.idempotency import KeyRules, Keys
from simulator.provider.ledger import Attempt, Decision, Ledger
from simulator.provider.limits import Limit, Limiter, Limits, limits_on_throughput
from simulator.provider.obligations import Obligation
from simulator.provider.plan import Plan, PlanState
from simulator.provider.smtp import SmtpRules

DEFAULT_ACCOUNT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How an account behaves: its plan, its treatment of keys, its limits, its SMTP, its HTTP."""

    plan: Plan = Plan()
    keys: KeyRules = KeyRules()
    limits: Limits = Limits()
    limit: tuple[Limit, ...] = ()
    """More limits on throughput: per address, sender, domain."""
    smtp: SmtpRules = SmtpRules()
    api: ApiRules = ApiRules()

    @property
    def throughput(self) -> tuple[Limit, ...]:
        """Every limit on throughput."""
        return (*limits_on_throughput(self.limits), *self.limit)


@dataclass(slots=True)
class Account:
    """One tenant."""

    name: str
    setup: Setup
    plan: PlanState
    limiter: Limiter
    aftermath: Aftermath
    clock: AccountClock = field(default_factory=AccountClock)
    ledger: Ledger = field(default_factory=Ledger)
    keys: Keys = field(default_factory=Keys)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    obligations: dict[tuple[str, str], Obligation] = field(default_factory=dict)
    booked: int = 0
    """How many mails were ever booked here: names the next one."""

    @classmethod
    def fresh(cls, name: str, setup: Setup, now: datetime) -> Self:
        """Return an account in which nothing has happened yet."""
        return cls(
            name=name,
            setup=setup,
            plan=PlanState(setup.plan, planted_at=now),
            limiter=Limiter(limits=setup.throughput),
            aftermath=Aftermath(account=name),
        )

    def set_up(self, setup: Setup, now: datetime) -> None:
        """Take another plan, other key rules and limits; counters start anew. `now` is the account's time."""
        self.setup = setup
        self.plan = PlanState(setup.plan, planted_at=now)
        self.limiter = self.limiter.renewed(setup.throughput)
