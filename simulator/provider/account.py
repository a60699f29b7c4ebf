"""A tenant of the provider: everything that two test runs must not share, and how it is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Self

from simulator.provider.acceptance import LIGHT_RECIPIENTS
from simulator.provider.aftermath import Aftermath
from simulator.provider.api import ApiRules
from simulator.provider.batch import BatchRules
from simulator.provider.clock import AccountClock
from simulator.provider.greylist import Greylist, GreylistState
from simulator.provider.idempotency import KeyRules, Keys
from simulator.provider.ledger import Attempt, AttemptState, Decision, Ledger, NoPast, Past
from simulator.provider.limiter import Limiter
from simulator.provider.limits import Limit, Limits, limits_on_throughput
from simulator.provider.magic import Magic, MagicState
from simulator.provider.message import Submission
from simulator.provider.obligations import Obligation
from simulator.provider.occasions import Occasions
from simulator.provider.plan import Plan
from simulator.provider.plan_state import PlanState
from simulator.provider.replay import state_of
from simulator.provider.returns import ReturnRules
from simulator.provider.smtp import SmtpRules
from simulator.provider.webhooks import WebhookRules

DEFAULT_ACCOUNT = "default"
#: What the names begin with under which counts are remembered.
_RULES, _MAGIC = "rule ", "magic "


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How an account behaves: its plan, its treatment of keys, its limits, its SMTP, its HTTP, its webhooks, its greylist."""

    plan: Plan = Plan()
    keys: KeyRules = KeyRules()
    limits: Limits = Limits()
    limit: tuple[Limit, ...] = ()
    """More limits on throughput: per address, sender, domain."""
    smtp: SmtpRules = SmtpRules()
    api: ApiRules = ApiRules()
    batch: BatchRules = BatchRules()
    magic: Magic = Magic()
    webhooks: WebhookRules = WebhookRules()
    returns: ReturnRules = ReturnRules()
    greylist: Greylist | None = None

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
    magic: MagicState
    aftermath: Aftermath
    ledger: Ledger
    keys: Keys
    greylist: GreylistState = field(default_factory=GreylistState)
    clock: AccountClock = field(default_factory=AccountClock)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    """Those that go on, and the newest of those that have ended; older ones are the store's."""
    decisions: list[Decision] = field(default_factory=list)
    """The newest ones."""
    obligations: dict[tuple[str, str], Obligation] = field(default_factory=dict)
    occasions: Occasions = field(default_factory=Occasions)
    set_up_at: datetime | None = None
    """When its setup was changed last, by its clock; None: never."""
    _weight: int = 0
    """Of the attempts that have ended: characters of their recipients."""
    booked: int = 0
    """How many mails were ever booked here: names the next one."""

    @classmethod
    def fresh(cls, name: str, setup: Setup, now: datetime, past: Past = NoPast()) -> Self:
        """Return an account in which nothing has happened yet."""
        ledger = Ledger(account=name, past=past)
        return cls(
            name=name,
            setup=setup,
            plan=state_of(setup.plan, now),
            limiter=Limiter(limits=setup.throughput),
            magic=MagicState(setup.magic, planted_at=now),
            aftermath=Aftermath(account=name),
            ledger=ledger,
            keys=Keys(ledger=ledger),
        )

    def owe(self, obligation: Obligation) -> None:
        """Enter a promise; the same ref and recipient replaces the former."""
        self.obligations[(obligation.ref, obligation.recipient.lower())] = obligation

    def is_silent(self, wire: str) -> bool:
        """Tell whether nobody has anything to say at any stage of a wire, whoever comes (magic addresses apart)."""
        return wire in self.plan.blind_to and not self.limiter.limits and self.setup.greylist is None

    def is_quiet_at(self, wire: str, stage: str) -> bool:
        """Tell whether neither rule nor limit nor greylist nor recording has anything to say there, whoever comes."""
        return (
            self.plan.is_blind(wire, stage)
            and not self.limiter.limits
            and self.setup.greylist is None
            and not self.plan.replays
        )

    def is_quiet(self, submission: Submission) -> bool:
        """Tell whether nobody has anything to say to this mail, at no stage of its attempt over HTTP."""
        return (
            not self.limiter.limits
            and not self.plan.replays
            and not self.plan.stands_at("http", "upload")
            and not self.magic.concerns(None, submission.recipients)
            and self.plan.misses(
                "http",
                account=self.name,
                dialect=submission.dialect,
                sender=submission.sender,
                recipients=submission.recipients,
                key=submission.key,
            )
        )

    # --- what its rules have counted ----------------------------------------------------------------

    def counted(self, *, whole: bool) -> dict[str, str | None]:
        """Hand out what rules and magic addresses have counted, as `PlanState.news` does."""
        news = {_RULES + name: facts for name, facts in self.plan.news(whole=whole)}
        return news | {_MAGIC + name: facts for name, facts in self.magic.news(whole=whole)}

    def recall_counts(self, known: Mapping[str, str]) -> None:
        """Take up what was counted before a restart. Raise `ValueError` or `TypeError` for damage."""
        for beginning, state in ((_RULES, self.plan), (_MAGIC, self.magic)):
            state.recall(
                {
                    name.removeprefix(beginning): facts
                    for name, facts in known.items()
                    if name.startswith(beginning)
                }
            )

    def leave_counts(self) -> dict[str, str | None]:
        """Return the names under which counts may be remembered: they are over."""
        names = [
            *(_RULES + name for name in self.plan.names()),
            *(_MAGIC + name for name in self.magic.names()),
        ]
        return dict.fromkeys(names)

    def recall(self, attempt: Attempt) -> None:
        """Take up an attempt of a former process, which has ended; a later state of it replaces the former."""
        former = self.attempts.get(attempt.id)
        self._weight += _weight_of(attempt) - (0 if former is None else _weight_of(former))
        self.attempts[attempt.id] = attempt

    def let_go(self, ended: Attempt) -> None:
        """Leave the oldest attempts that have ended, and the oldest decisions, to the store. `ended` has just ended."""
        most = self.ledger.window
        if ended.id in self.attempts:
            self._weight += _weight_of(ended)
        while self._weight > self.ledger.room_chars and len(self.attempts) > 1:
            # Heavy ones stand in front as often as behind: by and by the window has room again.
            oldest = next(
                (each for each in self.attempts.values() if each.state is AttemptState.CLOSED), None
            )
            if oldest is None or oldest is ended:
                break
            self._weight -= _weight_of(oldest)
            del self.attempts[oldest.id]
        if len(self.attempts) > most + most // 8:
            over = (id_ for id_, each in self.attempts.items() if each.state is AttemptState.CLOSED)
            for id_ in list(islice(over, len(self.attempts) - most)):
                self._weight -= _weight_of(self.attempts.pop(id_))
        if len(self.decisions) > most + most // 8:
            del self.decisions[:-most]

    def set_up(self, setup: Setup, now: datetime) -> None:
        """Take another plan, other key rules and limits; counters start anew. `now` is the account's time."""
        if setup.greylist != self.setup.greylist:
            self.greylist = GreylistState()
        self.setup = setup
        self.set_up_at = now
        self.plan = state_of(setup.plan, now)
        self.limiter = self.limiter.renewed(setup.throughput)
        self.magic = MagicState(setup.magic, planted_at=now)


def _weight_of(each: Attempt) -> int:
    return 0 if len(each.recipients) <= LIGHT_RECIPIENTS else sum(map(len, each.recipients))
