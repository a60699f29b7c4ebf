"""The numbers and choices an operator may set, their defaults, and the combinations that are refused.

Must not hold: environment variables (`wiring` reads them).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

# A hundred years: every time plus such a span is still a date, and every such count fits any database's integer.
MOST = 3_153_600_000.0

_MAY_BE_ZERO = frozenset(
    {"lookup_lag_s", "in_flight_s", "backoff_base_s", "backoff_cap_s", "drain_s", "smtp_idle_s"}
)
# A server must wait so long for the next command, and need not wait longer (RFC 5321 section 4.5.3.2.7).
_SERVER_WAITS_S = 300.0
# The longest period that a quota is counted in is a month: nobody has to be waited for longer.
_MONTH_S = 31 * 86_400.0


class InvalidSettings(ValueError):
    """The settings contradict themselves; the text is one sentence that says how, and what would be right."""


class Policy(StrEnum):
    """What to do with a mail whose outcome cannot be known."""

    RESEND_SAME_KEY = "resend-same-key"  # the provider dedupes by key: repeat with the same key and bytes
    AT_MOST_ONCE = "at-most-once"  # park it for a person: never a second copy, never a guess
    AT_LEAST_ONCE = (
        "at-least-once"  # repeat with the same Message-ID and bytes: perhaps a second copy, flagged
    )

    @property
    def dedupes(self) -> bool:
        """Whether repeating an attempt is harmless because the provider recognises the key."""
        return self is Policy.RESEND_SAME_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the sender behaves. All times in seconds."""

    policy: Policy
    concurrency: int = 8
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 30.0
    total_timeout_s: float = 60.0
    lease_s: float = 120.0
    backoff_base_s: float = 2.0
    backoff_cap_s: float = 600.0
    # A pause that a provider names is kept, but one that asks for a year (or a broken proxy) is not taken at its word.
    retry_after_max_s: float = 86_400.0
    max_attempts: int = 12
    max_age_s: float = 2 * 86_400.0
    # Whoever kills its process does so soon: by then it has been read, rendered and handed over, or it hangs.
    suspect_alone_s: float = 10.0
    poll_s: float = 1.0
    reconcile_s: float = 15.0
    drain_s: float = 30.0
    # How long the provider surely remembers a key, counted from the first attempt: a day less an hour for clocks.
    key_window_s: float = 23 * 3_600.0
    # A look-up that finds nothing counts only this long after the attempt ended: the look-up may lag behind, and
    # the request may still be under way (in buffers, proxies, queues) although we hung up.
    lookup_lag_s: float = 60.0
    in_flight_s: float = 300.0
    # An SMTP connection that nobody uses holds a place at the provider that another worker may need. Postfix gives it
    # back after 2 s (smtp_connection_cache_time_limit), Sendmail after 300; we log in, so a new one costs us more.
    smtp_idle_s: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            # Written so that NaN fails it, too.
            if field.name != "policy" and not -MOST <= value <= MOST:
                raise InvalidSettings(
                    f"{field.name} is {str(value)[:40]}; it must be a number of at most {MOST:,.0f}"
                )
            if field.name in _MAY_BE_ZERO:
                if value < 0:
                    raise InvalidSettings(f"{field.name} is {value}; it must not be negative")
            elif field.name != "policy" and not value > 0:
                raise InvalidSettings(f"{field.name} is {value}; it must be greater than zero")
        if self.total_timeout_s >= self.lease_s:
            raise InvalidSettings(
                f"total_timeout_s ({self.total_timeout_s:g}) must be shorter than lease_s ({self.lease_s:g}), "
                "or a second worker takes a mail that the first one is still sending"
            )
        if self.connect_timeout_s > self.total_timeout_s or self.read_timeout_s > self.total_timeout_s:
            raise InvalidSettings(
                f"connect_timeout_s ({self.connect_timeout_s:g}) and read_timeout_s ({self.read_timeout_s:g}) "
                f"must not be longer than total_timeout_s ({self.total_timeout_s:g})"
            )
        if self.smtp_idle_s > _SERVER_WAITS_S:
            raise InvalidSettings(
                f"smtp_idle_s is {self.smtp_idle_s:g}; it must be at most {_SERVER_WAITS_S:g}, because no mail server "
                "has to wait longer for the next mail (RFC 5321)"
            )
        if self.retry_after_max_s > _MONTH_S:
            raise InvalidSettings(
                f"retry_after_max_s is {self.retry_after_max_s:.0f}; it must be at most {_MONTH_S:.0f}, a month, "
                "because no quota is counted for longer"
            )
        if self.backoff_base_s > self.backoff_cap_s:
            raise InvalidSettings(
                f"backoff_base_s ({self.backoff_base_s:g}) must not be greater than "
                f"backoff_cap_s ({self.backoff_cap_s:g})"
            )

    @property
    def negative_counts_after_s(self) -> float:
        """Seconds after the end of an attempt from which "not found" proves that nothing was accepted."""
        return self.lookup_lag_s + self.in_flight_s
