"""Greylisting: who comes for the first time is put off, and taken when it comes back after a while (RFC 6647).

Known is a triplet – network of the client, sender, recipient – as RFC 6647, section 2.4, describes it. The state is
that of one account, and its time the account's.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from simulator.provider.rule import Pattern

#: Triplets that are remembered at most; the one that was met longest ago goes first.
MOST_TRIPLETS = 100_000

#: Where triplets are remembered, see `simulator.provider.notes`.
TOPIC = "greylist"
_WAITING, _PASSED = "waiting", "passed"
NEAR_ENOUGH_S = 3_600.0

Triplet = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Greylist:
    """The settings of the table `[greylist]`."""

    delay_s: float = 300.0
    """How long a new triplet is put off. Coming too early changes nothing."""
    within_s: float = 86_400.0
    """Who comes back later than this is new again."""
    remember_s: float = 3_110_400.0
    """How long a triplet that has passed goes on passing after its last mail (36 days)."""
    whole_network: bool = True
    """Clients of one network (IPv4 /24, IPv6 /64) are the same: large senders come from many addresses."""
    whitelist: tuple[Pattern, ...] = ()
    """Senders, recipients, addresses and networks (`192.0.2.0/24`) that are never put off."""
    code: int = 451
    enhanced: str = "4.7.1"
    text: str = "greylisted, please come back later"
    tells: bool = True
    """Say in the text how long to wait."""


@dataclass(slots=True)
class GreylistState:
    """Who waits and who has passed. Oldest first in both."""

    _waiting: dict[Triplet, datetime] = field(default_factory=dict)
    """Since when."""
    _passed: dict[Triplet, datetime] = field(default_factory=dict)
    """When its last mail came."""
    _news: dict[str, str | None] = field(default_factory=dict)
    """What must be remembered over a restart and has not been handed out yet: facts by name, see `recall`."""

    # --- over a restart -----------------------------------------------------------------------------

    def news(self) -> dict[str, str | None]:
        """Hand out what has changed since the last call; None: forgotten."""
        news, self._news = self._news, {}
        return news

    def leave(self) -> dict[str, str | None]:
        """Return how to forget everything that was ever handed out: another list is in force from now on."""
        return {_name(triplet): None for triplet in (*self._waiting, *self._passed)}

    def recall(self, name: str, facts: str) -> None:
        """Take up what a former process has handed out."""
        kind, _, at = facts.partition(" ")
        ip, sender, recipient = json.loads(name)
        (self._passed if kind == _PASSED else self._waiting)[ip, sender, recipient] = datetime.fromisoformat(
            at
        )

    def _put(self, known: dict[Triplet, datetime], triplet: Triplet, now: datetime) -> None:
        if len(known) >= MOST_TRIPLETS:
            oldest = next(iter(known))
            del known[oldest]
            self._news[_name(oldest)] = None
        known[triplet] = now
        self._news[_name(triplet)] = _facts(_PASSED if known is self._passed else _WAITING, now)

    # --- a mail -------------------------------------------------------------------------------------

    def meet(self, rules: Greylist, ip: str, sender: str, recipient: str, now: datetime) -> float | None:
        """Return how long this triplet has still to wait, in seconds. None: it passes."""
        if _is_listed(rules, ip, sender, recipient):
            return None
        triplet = (_client(ip) if rules.whole_network else ip, sender.lower(), recipient.lower())
        last = self._passed.pop(triplet, None)
        if last is not None and now - last <= timedelta(seconds=rules.remember_s):
            self._passed[triplet] = now
            # Where it is remembered for days, one note an hour is near enough.
            if rules.remember_s < NEAR_ENOUGH_S * 10 or _hour(last) != _hour(now):
                self._news[_name(triplet)] = _facts(_PASSED, now)
            return None
        since = self._waiting.get(triplet)
        if since is None or now - since > timedelta(seconds=rules.within_s):
            self._waiting.pop(triplet, None)
            self._put(self._waiting, triplet, now)
            return rules.delay_s
        left_s = rules.delay_s - (now - since).total_seconds()
        if left_s > 0:
            return left_s
        del self._waiting[triplet]
        self._put(self._passed, triplet, now)
        return None


def _hour(at: datetime) -> float:
    return at.timestamp() // NEAR_ENOUGH_S


def _facts(kind: str, at: datetime) -> str:
    return f"{kind} {at.isoformat()}"


def _name(triplet: Triplet) -> str:
    return json.dumps(triplet, separators=(",", ":"))


def _is_listed(rules: Greylist, ip: str, sender: str, recipient: str) -> bool:
    return any(
        pattern.matches(sender) or pattern.matches(recipient) or _holds(pattern.text, ip)
        for pattern in rules.whitelist
    )


def _holds(network: str, ip: str) -> bool:
    """Tell whether an address is one, or lies in the network, that this text names."""
    try:
        return ipaddress.ip_address(ip) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _client(ip: str) -> str:
    try:
        bits = 24 if ipaddress.ip_address(ip).version == 4 else 64
    except ValueError:
        return ip
    return str(ipaddress.ip_network(f"{ip}/{bits}", strict=False))
