"""The limits of an account at work: who is let in, and what is said to whoever is too much.

What a refusal is called on which wire is decided by the limit (`Limit.smtp`, `Limit.http`) or the dialect.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from simulator.provider.answer import Reason, Refused, RetryAfter, RetryAfterKind
from simulator.provider.limits import Limit, Scope, Told
from simulator.provider.meters import Meter, Standing, meters_of

#: So many senders, addresses or domains of one limit are remembered; those longest quiet are forgotten first.
MOST_SCOPES = 10_000


class Kind(StrEnum):
    """Which part of a limit is exceeded."""

    RATE = "rate"
    QUOTA = "quota"
    CONNECTIONS = "connections"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A limit is exceeded."""

    limit: Limit
    kind: Kind
    scope: str
    """Whose limit it is: the address, sender or domain; empty for the account."""
    wait_s: float | None = None
    """Until when nothing will be let in; None: nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Who wants to be let in."""

    ip: str
    sender: str | None = None
    recipients: tuple[str, ...] = ()


@dataclass(slots=True)
class Limiter:
    """The limits of one account at work."""

    limits: tuple[Limit, ...] = ()
    _meters: OrderedDict[tuple[int, str], dict[str, Meter]] = field(default_factory=OrderedDict)
    _lines: dict[str, str] = field(default_factory=dict)
    """The connections that are here just now, and their addresses."""
    _by_ip: Counter[str] = field(default_factory=Counter)

    def renewed(self, limits: tuple[Limit, ...]) -> Limiter:
        """Return a limiter with other limits and fresh counts; who is here stays here."""
        return Limiter(limits=limits, _lines=self._lines, _by_ip=self._by_ip)

    def enter(self, line: str, ip: str) -> Excess | None:
        """A connection comes to this account. It stays until `leave`, unless it is refused."""
        if line in self._lines:
            return None
        for limit in self.limits:
            if limit.connections is None or (limit.only is not None and not limit.only.matches(ip)):
                continue
            here = len(self._lines) if limit.per is Scope.ACCOUNT else self._by_ip[ip]
            if here >= limit.connections:
                scope = "" if limit.per is Scope.ACCOUNT else ip
                return Excess(limit=limit, kind=Kind.CONNECTIONS, scope=scope)
        self._lines[line] = ip
        self._by_ip[ip] += 1
        return None

    def leave(self, line: str) -> None:
        """A connection has gone; one that never was here may go, too."""
        ip = self._lines.pop(line, None)
        if ip is not None:
            self._by_ip[ip] -= 1
            if not self._by_ip[ip]:
                del self._by_ip[ip]

    def look(self, scopes: Collection[Scope], occasion: Occasion, now: datetime) -> Excess | None:
        """Say what is exceeded for whoever comes, and let nobody in. What lasts longest is said."""
        worst: Excess | None = None
        for each in self._concerned(scopes, occasion, now):
            for part, meter in each.meters.items():
                wait_s = meter.wait_s(now)
                if wait_s > 0.0 and (worst is None or wait_s > (worst.wait_s or 0.0)):
                    kind = Kind.RATE if part == "rate_per_s" else Kind.QUOTA
                    worst = Excess(limit=each.limit, kind=kind, scope=each.scope, wait_s=wait_s)
        return worst

    def take(self, scopes: Collection[Scope], occasion: Occasion, now: datetime) -> Excess | None:
        """Let a mail in and count it everywhere, or say what is exceeded and count it nowhere."""
        if not self.limits:
            return None
        excess = self.look(scopes, occasion, now)
        if excess is None:
            for each in self._concerned(scopes, occasion, now):
                for meter in each.meters.values():
                    meter.take(each.amount, now)
        return excess

    def owe(self, scopes: Collection[Scope], occasion: Occasion, now: datetime) -> None:
        """Let a mail in and count it everywhere, whatever is exceeded by it."""
        if self.limits:
            for each in self._concerned(scopes, occasion, now):
                for meter in each.meters.values():
                    meter.take(each.amount, now)

    def recall(self, occasion: Occasion, at: datetime) -> None:
        """Count what was let in before a restart. Addresses are not known any more."""
        if self.limits:
            for each in self._concerned((Scope.ACCOUNT, Scope.SENDER, Scope.RECIPIENT_DOMAIN), occasion, at):
                for meter in each.meters.values():
                    meter.take(each.amount, at)

    def standings(self, occasion: Occasion, now: datetime) -> list[Standing]:
        """Say how each limit stands for whoever comes, in the order of the limits."""
        return [
            meter.standing(each.limit.name if len(each.meters) == 1 else f"{each.limit.name}-{part}", now)
            for each in self._concerned(tuple(Scope), occasion, now)
            for part, meter in each.meters.items()
        ]

    def _concerned(
        self, scopes: Collection[Scope], occasion: Occasion, now: datetime
    ) -> Iterator[_Concerned]:
        for number, limit in enumerate(self.limits):
            if not limit.counted or limit.per not in scopes:
                continue
            for scope, recipients in _counted_under(limit.per, occasion).items():
                if limit.only is not None and not limit.only.matches(scope):
                    continue
                yield _Concerned(
                    limit=limit,
                    scope=scope,
                    meters=self._meters_of(number, scope, now),
                    amount=recipients if limit.counts_recipients else 1,
                )

    def _meters_of(self, number: int, scope: str, now: datetime) -> dict[str, Meter]:
        meters = self._meters.get((number, scope))
        if meters is None:
            meters = self._meters[number, scope] = meters_of(self.limits[number], now)
            if len(self._meters) > MOST_SCOPES:
                self._meters.popitem(last=False)
        else:
            self._meters.move_to_end((number, scope))
        return meters


@dataclass(frozen=True, slots=True, kw_only=True)
class _Concerned:
    limit: Limit
    scope: str
    meters: dict[str, Meter]
    amount: int


def _counted_under(per: Scope, occasion: Occasion) -> dict[str, int]:
    """Return under which names an occasion is counted, and how many recipients that are each time."""
    everybody = max(1, len(occasion.recipients))
    match per:
        case Scope.ACCOUNT:
            return {"": everybody}
        case Scope.IP:
            return {occasion.ip: everybody}
        case Scope.SENDER:
            return {} if occasion.sender is None else {occasion.sender.lower(): everybody}
        case Scope.RECIPIENT_DOMAIN:
            return dict(Counter(each.rpartition("@")[2].lower() for each in occasion.recipients))


# --- saying no --------------------------------------------------------------------------------------

#: What a refusal is over SMTP unless the limit says so itself; what is not here is (451, "4.7.0").
_SMTP: dict[tuple[Kind, Scope], tuple[int, str]] = {
    (Kind.RATE, Scope.IP): (421, "4.7.0"),
    (Kind.RATE, Scope.SENDER): (450, "4.7.1"),
    (Kind.RATE, Scope.RECIPIENT_DOMAIN): (450, "4.7.1"),
    **{(Kind.QUOTA, scope): (452, "4.5.3") for scope in Scope},
    **{(Kind.CONNECTIONS, scope): (421, "4.7.0") for scope in Scope},
}
_REASONS = {
    Kind.RATE: Reason.RATE_LIMITED,
    Kind.QUOTA: Reason.QUOTA_EXCEEDED,
    Kind.CONNECTIONS: Reason.TOO_MANY_CONNECTIONS,
}
_WHOSE = {
    Scope.ACCOUNT: "",
    Scope.IP: " from this address",
    Scope.SENDER: " from this sender",
    Scope.RECIPIENT_DOMAIN: " to {scope}",
}
_WHAT = {
    Kind.RATE: "too many mails{whose} just now",
    Kind.QUOTA: "the quota of mails{whose} is used up",
    Kind.CONNECTIONS: "too many connections{whose} at the same time",
}


def refusal(excess: Excess) -> Refused:
    """Return what is said to whoever exceeds a limit."""
    limit = excess.limit
    code, enhanced = _SMTP.get((excess.kind, limit.per), (451, "4.7.0"))
    if limit.smtp is not None:
        code, enhanced = limit.smtp, f"{limit.smtp // 100}.7.0"
    told = None
    if excess.wait_s is not None and limit.retry_after is not Told.NOTHING:
        kind = RetryAfterKind.SECONDS if limit.retry_after is Told.SECONDS else RetryAfterKind.DATE
        # Told in whole seconds, rounded up: a sender that obeys must not be refused again.
        told = RetryAfter(kind=kind, seconds=float(-(-excess.wait_s // 1)))
    usual = _WHAT[excess.kind].format(whose=_WHOSE[limit.per].format(scope=excess.scope))
    return Refused(
        reason=_REASONS[excess.kind],
        detail=usual if limit.text is None else limit.text,
        retry_after=told,
        smtp=(code, enhanced if limit.enhanced is None else limit.enhanced),
        code=limit.http,
    )
