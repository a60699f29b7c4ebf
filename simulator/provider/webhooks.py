"""Where an account's events are sent and how: the settings of the table `[webhooks]`, and which targets are allowed."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from simulator.provider.signing import Scheme

#: What Standard Webhooks recommends: delays after the first, second, … attempt that failed, in seconds.
STANDARD_SCHEDULE_S = (
    5.0,
    300.0,
    1_800.0,
    7_200.0,
    18_000.0,
    36_000.0,
    50_400.0,
    72_000.0,
    86_400.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRules:
    """How the events of an account are told. Without a `url` they are not."""

    url: str | None = None
    secrets: tuple[str, ...] = ()
    """Newest first; several while they are rotated. None at all: requests are not signed."""
    scheme: Scheme = Scheme.STANDARD
    events: tuple[str, ...] = ()
    """Types that are wanted, with wildcards; empty: all."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers that the receiver wants besides, `Authorization` for example."""
    batch: int | None = None
    """None: one event per request, an object. A number: an array of so many at most."""
    batch_wait_s: float = 1.0
    """How long the first event of a batch waits for others."""
    connections: int = 8
    """How many requests are under way at once."""
    timeout_s: float = 15.0
    schedule_s: tuple[float, ...] = STANDARD_SCHEDULE_S
    jitter: float = 0.1
    """By which part a delay of the schedule is longer or shorter, by the seed."""
    give_up_on: tuple[int, ...] = ()
    """Statuses after which an event is not told again (406 at Mailgun, 403 at Postmark)."""
    disable_after_s: float | None = None
    """The endpoint is disabled when nothing has got through for so long. None: only 410 disables it."""
    verify_tls: bool = True

    def wants(self, type_: str) -> bool:
        """Tell whether events of this type, like `email.bounced`, are told."""
        return not self.events or any(fnmatchcase(type_, pattern) for pattern in self.events)


class Reach(IntEnum):
    """How far webhooks may go. Each takes in those before it."""

    LOOPBACK = 0
    """This machine."""
    PRIVATE = 1
    """Private networks (RFC 1918, RFC 4193): containers, a test network."""
    ANY = 2


class TargetError(ValueError):
    """Events cannot be sent there. The message is one sentence that says what would be right."""


def check_target(url: str, reach: Reach) -> None:
    """Raise `TargetError` unless events may be sent to `url`, as far as its text tells."""
    if not url.isprintable() or " " in url or not url.isascii():
        raise TargetError(
            f"the webhook URL {url[:60]!r} has characters that no URL has; write them in percent"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise TargetError(f"the webhook URL {url[:60]!r} cannot be read: {problem}") from problem
    if parts.scheme not in ("http", "https"):
        raise TargetError(
            f"the webhook URL {url[:60]!r} has the scheme {parts.scheme or 'none'!r}; only http and https are allowed"
        )
    if parts.username is not None or parts.password is not None:
        raise TargetError(
            "the webhook URL has a user or a password in it; give an Authorization header under headers instead"
        )
    if not parts.hostname or port == 0:
        raise TargetError(f"the webhook URL {url[:60]!r} names no host; write http://127.0.0.1:8000/webhooks")
    if parts.fragment:
        raise TargetError(
            f"the webhook URL {url[:60]!r} has a fragment (#), which is never sent; leave it out"
        )
    try:
        address = ipaddress.ip_address(parts.hostname)
    except ValueError:
        return  # A name: where it leads is seen when it is looked up.
    check_address(str(address), reach)


def check_address(text: str, reach: Reach) -> None:
    """Raise `TargetError` unless events may be sent to this IP address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if reach is Reach.ANY or address.is_loopback:
        return
    # What Python calls private holds link-local and documentation networks, too; those are somebody's metadata
    # service or nobody's.
    private = address.is_private and not (
        address.is_link_local or address.is_unspecified or address.is_reserved or address.is_multicast
    )
    if reach is Reach.PRIVATE and private:
        return
    wanted = "private" if private else "any"
    raise TargetError(
        f"webhooks may not be sent to {address}; start the simulator with --webhook-hosts {wanted} to allow it"
    )
