"""How much a provider takes: sizes, rates, quotas and parallel connections, per account, address, sender or domain.

What a plan says of it; data that never changes. Who counts is `limiter.Limiter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from simulator.provider.rule import Pattern


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
