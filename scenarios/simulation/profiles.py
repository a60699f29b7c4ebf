"""What a provider is able to do and what a sender makes of it: the profiles of the matrix.

A profile binds a provider's ability to the sender's policy and to what may then be demanded. Times are those
of the world: shorter than in production, so that a cell needs few virtual minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reference_sender.policy.routes import Route
from reference_sender.providers import Providers
from scenarios.checks import Policy

#: The sender's times in the world, in seconds. A lease outlasts an attempt; a poll comes just after a lease that ran
#: out, a look just after a request that may have been under way: a look more would cost much and find nothing.
TIMES: Mapping[str, Any] = {
    "connect_timeout_s": 5.0,
    "read_timeout_s": 10.0,
    "total_timeout_s": 20.0,
    "lease_s": 30.0,
    "backoff_base_s": 2.0,
    "backoff_cap_s": 30.0,
    "poll_s": 31.0,
    "reconcile_s": 41.0,
    "lookup_lag_s": 20.0,
    "in_flight_s": 40.0,
    "concurrency": 4,
}
#: The sender's gate: low, so that a short script opens the breaker, and a cell sees it close again.
GATE: Mapping[str, Any] = {
    "breaker_failures": 2,
    "breaker_pause_s": 8.0,
    "breaker_pause_cap_s": 30.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A provider's ability, a sender's policy, and what is demanded of the two."""

    id: str
    wire: str
    policy: Policy
    provider: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a plan besides its rules: `idempotency`, `limits`."""
    sender: Mapping[str, Any] = field(default_factory=dict)
    """Options of the reference sender, besides the times."""
    hears: bool = False
    """An intake takes in what the provider tells afterwards; its columns are storms (`scenarios.simulation.storms`)."""
    shape: str = "one mail"
    """The smallest shape of a world in which it shows what the profile is about."""
    variant: str = ""
    """The variant of `scenarios.model` that is this design without its code."""


PROFILES: tuple[Profile, ...] = (
    Profile(
        id="http-keys",
        wire="http",
        policy=Policy.EXACTLY_ONCE,
        sender={"policy": "resend-same-key"},
        variant="keys-honoured",
    ),
    Profile(
        id="http-keys-forgotten",
        wire="http",
        policy=Policy.EXACTLY_ONCE,
        provider={"idempotency": {"window_s": 60.0}},
        # Sure of a key for less than it lives; behind that, only the look-up may tell.
        sender={"policy": "resend-same-key", "key_window_s": 20.0},
        variant="look-up-with-keys",
    ),
    Profile(
        id="http-lookup-lagging",
        wire="http",
        policy=Policy.EXACTLY_ONCE,
        provider={"idempotency": {"honoured": False, "lookup_lag_s": 15.0}},
        sender={"policy": "at-most-once", "lookup": "http"},
        variant="look-up-patient",
    ),
    Profile(
        id="smtp-at-most-once",
        wire="smtp",
        policy=Policy.AT_MOST_ONCE,
        sender={"policy": "at-most-once"},
        variant="no-keys-marker",
    ),
    Profile(
        id="smtp-at-least-once",
        wire="smtp",
        policy=Policy.AT_LEAST_ONCE,
        sender={"policy": "at-least-once"},
        variant="no-keys-at-least-once",
    ),
)

#: The same service over HTTP and, where that is shut, over SMTP.
WITH_A_SPARE = Providers(
    options={
        "main": {},
        "spare": {"transport": "smtp", "policy": "at-most-once", "lookup": "none"},
    },
    routes=(Route(to=("main", "spare")),),
)

#: Profiles of the gate: how much may pass, and where to. Of these the matrix plays less, see `matrix.FEW`.
LIMITED: tuple[Profile, ...] = (
    Profile(
        id="http-limited",
        wire="http",
        policy=Policy.EXACTLY_ONCE,
        # A little more than the sender keeps to: what it lets go a second apart may arrive a little closer together.
        provider={"limits": {"rate_per_s": 0.2, "burst": 2}},
        sender={"policy": "resend-same-key", "rate_per_s": 0.2, "rate_burst": 1, "rate_reserve": 0.0},
        # More at once than either lets pass: who does not wait is refused.
        shape="three recipients",
        variant="keys-honoured",
    ),
    Profile(
        id="http-with-spare",
        wire="http",
        # What the spare loses the answer of nobody can know.
        policy=Policy.AT_MOST_ONCE,
        sender={
            "policy": "resend-same-key",
            "providers": WITH_A_SPARE,
            "breaker_failures": 1,
            # Longer than a poll: a mail that the main provider refused for now comes back while it is shut.
            "breaker_pause_s": 40.0,
            "breaker_pause_cap_s": 60.0,
            # Not when an attempt of the spare gives up that began at a poll: who is first then is no matter of the design.
            "reconcile_s": 43.0,
        },
        variant="keys-honoured",
    ),
)

#: Several mails in one request, and a result for each.
BATCHED: tuple[Profile, ...] = (
    Profile(
        id="http-batches",
        wire="http",
        policy=Policy.EXACTLY_ONCE,
        sender={"policy": "resend-same-key", "batch": 4},
        shape="three recipients",
        variant="keys-honoured",
    ),
)

#: What became of the mails is told afterwards, and heard: over HTTP, where a key has the last word on a doubt, and over SMTP,
#: where an event is the only evidence there is.
HEARING: tuple[Profile, ...] = (
    Profile(
        id="http-hearing",
        wire="http",
        policy=Policy.EXACTLY_ONCE,
        sender={"policy": "resend-same-key"},
        hears=True,
        shape="one mail, complained of",
        variant="keys-honoured",
    ),
    Profile(
        id="smtp-hearing",
        wire="smtp",
        policy=Policy.AT_MOST_ONCE,
        sender={"policy": "at-most-once"},
        hears=True,
        shape="one mail, complained of",
        variant="no-keys-marker",
    ),
)

BY_ID: dict[str, Profile] = {profile.id: profile for profile in (*PROFILES, *LIMITED, *BATCHED, *HEARING)}
