"""How much a provider takes: sizes, rates, quotas and parallel connections, per account, address, sender or domain.

A rate is a token bucket that refills continuously, a quota a count per minute, hour or day of the account's clock.
Whatever is exceeded says after how many seconds it is worth coming back, and who waits so long is not refused for it
again. What a refusal is called on which wire is decided by the limit (`Limit.smtp`, `Limit.http`) or the dialect.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from simulator.provider.answer import Reason, Refused, RetryAfter, RetryAfterKind
from simulator.provider.rule import Pattern

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
#: So many senders, addresses or domains of one limit are remembered; those longest quiet are forgotten first.
MOST_SCOPES = 10_000


class Scope(StrEnum):
    """What a limit is counted per."""

    ACCOUNT = "account"
    IP = "ip"
    SENDER = "sender"
    RECIPIENT_DOMAIN = "recipient_domain"


class Counts(StrEnum):
    """What a limit counts. Over HTTP a mail to nine people is one mail and nine recipients."""

    MAILS = "mails"
    RECIPIENTS = "recipients"


class Told(StrEnum):
    """How a refusal tells when to come back."""

    SECONDS = "seconds"
    DATE = "date"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of an account. None: no limit."""

    max_size_bytes: int | None = 40 * 1024 * 1024
    max_recipients: int | None = 1_000
    rate_per_s: float | None = None
    """Accepted mails per second, on average."""
    burst: int = 1
    """How many may come at once."""
    per_minute: int | None = None
    per_hour: int | None = None
    per_day: int | None = None
    """Accepted mails from midnight (UTC) to midnight."""
    connections: int | None = None
    """Connections (HTTP: requests) at the same time, of the whole account."""
    connections_per_ip: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit on throughput. What is None does not limit."""

    name: str
    per: Scope = Scope.ACCOUNT
    only: Pattern | None = None
    """Only for addresses, senders or domains like this."""
    rate_per_s: float | None = None
    burst: int = 1
    per_minute: int | None = None
    per_hour: int | None = None
    per_day: int | None = None
    connections: int | None = None
    counts: Counts = Counts.MAILS
    smtp: int | None = None
    """The reply code; None: the usual one of what is exceeded."""
    enhanced: str | None = None
    http: int | None = None
    text: str | None = None
    retry_after: Told = Told.SECONDS

    @property
    def counts_recipients(self) -> bool:
        """Tell whether it counts recipients and not mails."""
        return self.counts is Counts.RECIPIENTS or self.per is Scope.RECIPIENT_DOMAIN

    @property
    def counted(self) -> bool:
        """Tell whether it counts mails, and not connections only."""
        return any(
            each is not None for each in (self.rate_per_s, self.per_minute, self.per_hour, self.per_day)
        )


@lru_cache(maxsize=256)
def limits_on_throughput(limits: Limits) -> tuple[Limit, ...]:
    """Return what the table of an account's limits says about throughput, as limits like any other."""
    of_account = Limit(
        name="account",
        rate_per_s=limits.rate_per_s,
        burst=limits.burst,
        per_minute=limits.per_minute,
        per_hour=limits.per_hour,
        per_day=limits.per_day,
        connections=limits.connections,
    )
    of_address = Limit(name="ip", per=Scope.IP, connections=limits.connections_per_ip)
    return tuple(each for each in (of_account, of_address) if each.counted or each.connections is not None)


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
class Standing:
    """How a limit stands for somebody, in the terms of the RateLimit fields (draft-ietf-httpapi-ratelimit-headers)."""

    name: str
    quota: int
    window_s: float
    """The quota is for so long."""
    remaining: int
    reset_s: float
    """So long until there is more than `remaining` again; 0 if nothing is used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Who wants to be let in."""

    ip: str
    sender: str | None = None
    recipients: tuple[str, ...] = ()


# --- counting ---------------------------------------------------------------------------------------


class Meter(Protocol):
    """Counts one thing for one scope."""

    def wait_s(self, now: datetime) -> float:
        """Return how long until one more may come; 0: now."""
        ...

    def take(self, amount: int, now: datetime) -> None:
        """Let so much in, also where that is more than there is: it is owed then."""
        ...

    def standing(self, name: str, now: datetime) -> Standing:
        """Say how it stands."""
        ...


@dataclass(slots=True)
class Bucket:
    """A token bucket; `tokens` counts mails that may come right now."""

    rate_per_s: float
    burst: int
    tokens: float
    at: datetime

    @classmethod
    def full(cls, rate_per_s: float, burst: int, now: datetime) -> Bucket:
        return cls(rate_per_s=rate_per_s, burst=burst, tokens=float(burst), at=now)

    def wait_s(self, now: datetime) -> float:
        self._fill(now)
        # Many small sums miss a whole by a hair; who waited as told must not be refused for it.
        return 0.0 if self.tokens >= 1.0 - 1e-9 else (1.0 - self.tokens) / self.rate_per_s

    def take(self, amount: int, now: datetime) -> None:
        self._fill(now)
        left = self.tokens - amount
        self.tokens = 0.0 if -1e-9 <= left < 0.0 else left

    def standing(self, name: str, now: datetime) -> Standing:
        self._fill(now)
        remaining = max(0, int(self.tokens + 1e-9))
        missing = min(self.burst - self.tokens, remaining + 1 - self.tokens)
        return Standing(
            name=name,
            quota=self.burst,
            window_s=self.burst / self.rate_per_s,
            remaining=remaining,
            reset_s=max(0.0, missing) / self.rate_per_s,
        )

    def _fill(self, now: datetime) -> None:
        # A clock that steps back must not take tokens away.
        passed_s = max(0.0, (now - self.at).total_seconds())
        self.tokens = min(float(self.burst), self.tokens + passed_s * self.rate_per_s)
        self.at = max(self.at, now)


@dataclass(slots=True)
class Window:
    """A count per minute, hour or day; windows begin with the minute, the hour, and at midnight UTC."""

    length_s: int
    quota: int
    begin: datetime
    used: int = 0

    @classmethod
    def fresh(cls, length_s: int, quota: int, now: datetime) -> Window:
        return cls(length_s=length_s, quota=quota, begin=_begin_of(length_s, now))

    def wait_s(self, now: datetime) -> float:
        self._turn(now)
        return 0.0 if self.used < self.quota else self._left_s(now)

    def take(self, amount: int, now: datetime) -> None:
        self._turn(now)
        self.used += amount

    def standing(self, name: str, now: datetime) -> Standing:
        self._turn(now)
        return Standing(
            name=name,
            quota=self.quota,
            window_s=float(self.length_s),
            remaining=max(0, self.quota - self.used),
            reset_s=self._left_s(now) if self.used else 0.0,
        )

    def _left_s(self, now: datetime) -> float:
        return max(0.0, (self.begin - now).total_seconds() + self.length_s)

    def _turn(self, now: datetime) -> None:
        begin = _begin_of(self.length_s, now)
        if begin > self.begin:
            self.begin, self.used = begin, 0


def _begin_of(length_s: int, now: datetime) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (now - epoch) // timedelta(seconds=length_s) * timedelta(seconds=length_s)


#: The parts of a limit that count mails: how they are called, and the length of their window.
_WINDOWS = (("per_minute", MINUTE_S), ("per_hour", HOUR_S), ("per_day", DAY_S))


def _meters(limit: Limit, now: datetime) -> dict[str, Meter]:
    meters: dict[str, Meter] = {}
    if limit.rate_per_s is not None:
        meters["rate_per_s"] = Bucket.full(limit.rate_per_s, limit.burst, now)
    for part, length_s in _WINDOWS:
        quota: int | None = getattr(limit, part)
        if quota is not None:
            meters[part] = Window.fresh(length_s, quota, now)
    return meters


# --- letting in -------------------------------------------------------------------------------------


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
            meters = self._meters[number, scope] = _meters(self.limits[number], now)
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
